package eventloop

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The limit on open files bounds a table of descriptors, and threads may have tables of their own
// (CLONE_FILES in clone(2)). A loop with such a table serves as many connections as the limit
// allows, beside those of the other loops.
//
// A descriptor is a number in a table. On the goroutine of such a loop only the loop's connections,
// and the standard output and error, can be used; all else there is to be left to another goroutine.

// ErrFull is returned by [Loop.Add] when the loop's table is full.
var ErrFull = errors.New("eventloop: as many connections as the loop's table of descriptors has room for")

// CanHaveTables returns nil if threads may have tables of descriptors of their own: on Linux 5.9 and
// later, unless close_range(2) is forbidden or there is no /proc.
var CanHaveTables = sync.OnceValue(func() (err error) { //nolint:gochecknoglobals // it is one of the system
	onThread(func() { err = leaveTable(nil) })
	return err
})

// FilesPerTable is how many descriptors a loop with a table of its own takes in that of the process, and
// at most in that of another loop.
const FilesPerTable = 7

// NewWithTable returns a loop with a table of descriptors of its own, and room for so many connections
// in it. All loops that are to [Loop.Execute] something on each other's goroutines must be made before
// one of them runs. It fails where that cannot be had, see [CanHaveTables].
func NewWithTable(passed func(mark int64), room int) (*Loop, error) {
	if err := CanHaveTables(); err != nil {
		return nil, fmt.Errorf("eventloop: a table of descriptors: %w", err)
	}
	l, err := New(passed)
	if err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		l.give, l.take = pair[0], pair[1]
		err = l.poller.watch(l.take)
	}
	if err != nil {
		l.closeOwn()
		return nil, fmt.Errorf("eventloop: a table of descriptors: %w", err)
	}
	l.table, l.room, l.coming = true, room, make(map[uint32]Handler)
	return l, nil
}

// HasRoom reports whether there is room for another connection.
func (l *Loop) HasRoom() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hasRoomLocked()
}

func (l *Loop) hasRoomLocked() bool { return !l.table || l.count < l.room }

// pass passes a connection to the loop's table. It waits while the loop is far behind.
func (l *Loop) pass(fd int, h Handler) error {
	c := h.conn()
	l.mu.Lock()
	if err := l.enterLocked(c); err != nil {
		l.mu.Unlock()
		return err
	}
	l.number++
	number := l.number
	l.coming[number] = h
	l.sending.Add(1)
	l.mu.Unlock()
	defer l.sending.Done()
	arrival := binary.NativeEndian.AppendUint32(nil, number)
	err := error(unix.EINTR)
	for errors.Is(err, unix.EINTR) || errors.Is(err, unix.ETOOMANYREFS) {
		err = unix.Sendmsg(l.give, arrival, unix.UnixRights(fd), nil, unix.MSG_NOSIGNAL)
		if errors.Is(err, unix.ETOOMANYREFS) { // so many as the limit are on their way
			<-time.After(time.Millisecond)
		}
	}
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.over { // else its end has been told to the handler
			delete(l.coming, number)
			l.dropLocked(c)
			return fmt.Errorf("eventloop: %w", os.NewSyscallError("sendmsg", err))
		}
	}
	_ = unix.Close(fd)
	return nil
}

// receive takes the connections that were passed.
func (l *Loop) receive() {
	if !l.table {
		return
	}
	for {
		n, rights, _, _, err := unix.Recvmsg(l.take, l.arrival[:], l.rights[:], unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil || n < len(l.arrival):
			return
		default:
			l.arrived(binary.NativeEndian.Uint32(l.arrival[:]), l.rights[:rights])
		}
	}
}

// arrived begins to serve a connection that was passed. What it has sent already is before a marker
// that is set.
func (l *Loop) arrived(number uint32, rights []byte) {
	fd, err := received(rights)
	l.mu.Lock()
	h := l.coming[number]
	delete(l.coming, number)
	if err == nil {
		err = l.serveLocked(fd, h)
	}
	l.mu.Unlock()
	switch {
	case err != nil: // the table is full: its other end learns that the connection has ended
		h.conn().close(h)
	case l.marking.Load():
		h.conn().read(h)
	}
}

// received returns the descriptor in a control message.
func received(rights []byte) (int, error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil || len(messages) == 0 {
		return -1, unix.EMFILE
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return -1, unix.EMFILE
	}
	return fds[0], nil
}

// onThread calls f on a thread that ends with it, and waits. The thread is not the first of the
// process, whose table counts as that of the process.
func onThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocks: the thread ends with the goroutine
		if unix.Gettid() == unix.Getpid() {
			defer runtime.UnlockOSThread()
			onThread(f)
			return
		}
		f()
	}()
	<-done
}

// runWithTable is Run on a thread with a table of its own.
func (l *Loop) runWithTable(ctx context.Context) (err error) {
	onThread(func() {
		if err = leaveTable([]int{l.take}); err != nil {
			err = fmt.Errorf("eventloop: a table of descriptors: %w", err)
			l.end()
			return
		}
		err = l.serve(ctx)
	})
	l.sending.Wait()
	l.closeOwn() // in the table of the process; the thread's has ended with it
	return err
}

// leaveTable gives the thread a table of its own, with the standard descriptors, those given, and
// what Go's scheduler waits with and is woken by, and so the eventfds by which other loops are woken.
func leaveTable(keep []int) error {
	const none = 1 << 30 // no table has so many
	if err := unix.CloseRange(none, none, unix.CLOSE_RANGE_UNSHARE); err != nil {
		return os.NewSyscallError("close_range", err)
	}
	const dir = "/proc/thread-self/fd/"
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	keep = append(keep, 0, 1, 2)
	for _, f := range files {
		what, _ := os.Readlink(dir + f.Name())
		if fd, err := strconv.Atoi(f.Name()); err == nil && (strings.HasSuffix(what, "[eventpoll]") || strings.HasSuffix(what, "[eventfd]")) {
			keep = append(keep, fd)
		}
	}
	slices.Sort(keep)
	next := 0
	for _, fd := range append(keep, none) {
		if fd > next {
			if err := unix.CloseRange(uint(next), uint(fd-1), 0); err != nil {
				return os.NewSyscallError("close_range", err)
			}
		}
		next = fd + 1
	}
	return nil
}
