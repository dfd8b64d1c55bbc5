//go:build unix

package ear

import (
	"errors"

	"golang.org/x/sys/unix"
)

// poller asks the kernel about descriptors.
type poller struct {
	asked []unix.PollFd // room for a question
}

// ask asks which of the descriptors can be read from at once, and says whether there is an answer.
func (p *poller) ask(descriptors []int) bool {
	p.asked = p.asked[:0]
	for _, fd := range descriptors {
		p.asked = append(p.asked, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	if len(p.asked) == 0 {
		return false
	}
	for {
		if _, err := unix.Poll(p.asked, 0); !errors.Is(err, unix.EINTR) {
			return err == nil
		}
	}
}

// readable says whether the i-th of those that were asked about can be.
func (p *poller) readable(i int) bool { return p.asked[i].Revents&unix.POLLIN != 0 }
