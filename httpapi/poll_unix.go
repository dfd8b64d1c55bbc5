//go:build unix

package httpapi

import (
	"errors"

	"golang.org/x/sys/unix"
)

// readable says of each descriptor whether it can be read from at once.
func readable(descriptors []int) []bool {
	asked := make([]unix.PollFd, len(descriptors))
	for i, fd := range descriptors {
		asked[i] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN} //nolint:gosec // descriptors are small
	}
	found := make([]bool, len(descriptors))
	if len(asked) == 0 {
		return found
	}
	for {
		_, err := unix.Poll(asked, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		for i := range asked { // none, if it failed
			found[i] = err == nil && asked[i].Revents&unix.POLLIN != 0
		}
		return found
	}
}
