//go:build unix

package store

import (
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// fileLock is a lock on a file, which ends with the process. The file stays, with the pid of who had it last.
type fileLock struct {
	file *os.File
}

func lockFile(path string) (lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder, _ := io.ReadAll(io.LimitReader(f, 20)) // only for the message
		_ = f.Close()                                  // nothing was written
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, &os.PathError{Op: "lock", Path: path, Err: err}
		}
		return nil, lockedBy(path, strings.TrimSpace(string(holder)))
	}
	_ = f.Truncate(0) // the pid is for people; a full disk must not be in the way
	_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return &fileLock{f}, nil
}

func (l *fileLock) check(context.Context) error { return nil }

func (l *fileLock) release() error { return l.file.Close() }
