//go:build unix

package sqldb

import (
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// fileLock is a lock on a file, which ends with the process. The file stays, with the pid of the
// latest holder.
type fileLock struct {
	file *os.File
}

// lockFile takes the lock. A process that is killed while it starts another program leaves the lock to
// that program until it runs, so lockFile waits for a lock whose holder is dead.
func lockFile(ctx context.Context, path string) (lock, error) {
	for begin := time.Now(); ; {
		l, holder, err := tryLock(path)
		switch {
		case err != nil:
			return nil, err
		case l != nil:
			return l, nil
		case alive(holder) || time.Since(begin) > lockPatience:
			return nil, lockedBy(path, holder)
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// tryLock returns the lock, or the pid of its holder.
func tryLock(path string) (*fileLock, string, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, "", err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder, _ := io.ReadAll(io.LimitReader(f, 20)) // mostly for the message
		_ = f.Close()                                  // nothing was written
		if !errors.Is(err, unix.EWOULDBLOCK) {
			err = &os.PathError{Op: "lock", Path: path, Err: err}
			return nil, "", err
		}
		return nil, strings.TrimSpace(string(holder)), nil
	}
	_ = f.Truncate(0) // the pid is for people, mostly; a full disk must not be in the way
	_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return &fileLock{f}, "", nil
}

// alive reports whether there may be a process with that pid.
func alive(pid string) bool {
	n, err := strconv.Atoi(pid)
	return err != nil || n <= 0 || !errors.Is(unix.Kill(n, 0), unix.ESRCH)
}

// check takes the lock again if the file was deleted or replaced: other processes would not see it.
func (l *fileLock) check(ctx context.Context) error {
	path := l.file.Name()
	was, err := l.file.Stat()
	if err != nil {
		return err
	}
	if now, err := os.Stat(path); err == nil && os.SameFile(was, now) {
		return nil
	}
	fresh, err := lockFile(ctx, path)
	if err != nil {
		return err
	}
	old := l.file
	l.file = fresh.(*fileLock).file
	return old.Close()
}

func (l *fileLock) release() error { return l.file.Close() }
