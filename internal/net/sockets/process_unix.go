//go:build unix

package sockets

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// MaxConnections returns how many connections the process can have: its limit on open files, less
// 3 %, at least 128, for other uses.
func MaxConnections() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 1024 - 128
	}
	files := int(min(limit.Cur, 1<<24))
	return max(files-max(files*3/100, 128), 1)
}

// WriteNow writes what the kernel takes without waiting, and returns how much that is.
func WriteNow(to syscall.RawConn, p []byte) (n int, err error) {
	outer := to.Write(func(fd uintptr) bool {
		for {
			if n, err = unix.Write(int(fd), p); !errors.Is(err, unix.EINTR) {
				return true
			}
		}
	})
	if errors.Is(err, unix.EAGAIN) {
		err = nil
	}
	return max(n, 0), errors.Join(outer, err)
}
