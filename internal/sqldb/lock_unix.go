//go:build unix

package sqldb

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
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

// lockPatience is how long to wait for a lock whose holder is dead.
const lockPatience = 2 * time.Second

// moment is how long to wait for a lock whose holder is alive: another process may just look who
// holds it.
const moment = 100 * time.Millisecond

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
		case time.Since(begin) > lockPatience, time.Since(begin) > moment && alive(holder):
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
		holder := pidIn(f)
		_ = f.Close() // nothing was written
		if !errors.Is(err, unix.EWOULDBLOCK) {
			err = &os.PathError{Op: "lock", Path: path, Err: err}
			return nil, "", err
		}
		return nil, holder, nil
	}
	_ = f.Truncate(0) // the pid is for people, mostly; a full disk must not be in the way
	_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return &fileLock{f}, "", nil
}

// fileHolder returns who holds the lock. To find out, it takes a lock that is free for a moment.
func fileHolder(path string) (Holder, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Holder{Free: true}, nil
	}
	if err != nil {
		return Holder{}, err
	}
	defer func() { _ = f.Close() }() // lets go of it
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); {
	case err == nil:
		return Holder{Free: true}, nil
	case !errors.Is(err, unix.EWOULDBLOCK):
		return Holder{}, &os.PathError{Op: "lock", Path: path, Err: err}
	}
	return Holder{Text: "pid " + pidIn(f)}, nil
}

// pidIn returns the pid in the file of a lock, for messages mostly.
func pidIn(f *os.File) string {
	pid, _ := io.ReadAll(io.LimitReader(f, 20))
	return cmp.Or(strings.TrimSpace(string(pid)), "unknown")
}

// alive reports whether there may be a process with that pid.
func alive(pid string) bool {
	n, err := strconv.Atoi(pid)
	return err != nil || n <= 0 || !errors.Is(unix.Kill(n, 0), unix.ESRCH)
}

// check returns an error if the file was deleted or replaced: other processes would not see the lock.
func (l *fileLock) check(context.Context) error {
	was, err := l.file.Stat()
	if err != nil {
		return err
	}
	now, err := os.Stat(l.file.Name())
	if err == nil && !os.SameFile(was, now) {
		err = &os.PathError{Op: "lock", Path: l.file.Name(), Err: errors.New("another file is there now")}
	}
	return err
}

func (l *fileLock) release() error { return l.file.Close() }
