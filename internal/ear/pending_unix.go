//go:build unix

package ear

import (
	"errors"

	"golang.org/x/sys/unix"
)

// canWait is whether a listener can be waited at without accepting.
const canWait = true

// pending reports whether something can be accepted from a listening socket at once, or an error can be had.
func pending(fd uintptr) bool {
	ask := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(ask, 0)
		if !errors.Is(err, unix.EINTR) {
			return n != 0 // also if it fails: then accepting waits
		}
	}
}
