//go:build unix

package sockets

import (
	"errors"

	"golang.org/x/sys/unix"
)

// canPoll reports whether a listener can be waited at without accepting.
const canPoll = true

// poller asks the kernel about descriptors.
type poller struct {
	asked []unix.PollFd // room for a question
}

// ask asks which of the descriptors can be read from at once, and reports whether there is an
// answer.
func (p *poller) ask(descriptors []int) bool {
	p.asked = p.asked[:0]
	for _, fd := range descriptors {
		p.asked = append(p.asked, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	return len(p.asked) > 0 && poll(p.asked) == nil
}

// readable reports whether the i-th of those that were asked about can be read from.
func (p *poller) readable(i int) bool { return p.asked[i].Revents&unix.POLLIN != 0 }

// pending reports whether something can be accepted from a listening socket at once, or an error
// can be had. It does so, too, if the kernel cannot be asked.
func pending(fd uintptr) bool {
	ask := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	return poll(ask) != nil || ask[0].Revents != 0
}

func poll(ask []unix.PollFd) error {
	for {
		if _, err := unix.Poll(ask, 0); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
