package eventloop

import (
	"errors"
	"os"
	"reflect"
	"syscall"
	"time"
	"unsafe"

	"github.com/panjf2000/gnet/v2/pkg/netpoll"
	"golang.org/x/sys/unix"
)

const (
	// maxEvents is how many events are taken from the kernel at a time.
	maxEvents = 256
	// longStreak is how many events without a rest make a loop busy.
	longStreak = 64
)

// poller is a poller of gnet, whose goroutine rests at Go's poller, like any other. A thread that waited
// in the kernel, as gnet's Polling does, would keep its place among those that run (GOMAXPROCS) until Go's
// monitor (sysmon) takes it away.
//
// Nor is Go's scheduler told of the system calls of a poller that was at rest, which do not wait. It would
// wake its monitor, a thread of its own, for the first one: with the switches between threads that
// follow, that costs more than to answer a heartbeat. It is told by a poller that has been busy for a
// while, or has much to write: then it lets other goroutines run meanwhile, and asks for what they wait for.
type poller struct {
	*netpoll.Poller

	epoll     int             // a second descriptor of gnet's epoll,
	file      *os.File        // at Go's poller,
	rests     syscall.RawConn // to rest there
	hasEvents func(uintptr) bool
	events    [maxEvents]unix.EpollEvent
	count     int   // of those
	streak    int   // events since there were none
	failed    error // of the last call
}

func openPoller() (_ *poller, err error) {
	p := &poller{epoll: -1}
	p.hasEvents = p.takeEvents
	if p.Poller, err = netpoll.OpenPoller(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	fd := reflect.ValueOf(p.Poller).Elem().FieldByName("fd")
	if !fd.IsValid() || !fd.CanInt() {
		return nil, errors.New("gnet's poller keeps its epoll elsewhere than in v2.10.0")
	}
	if p.epoll, err = unix.FcntlInt(uintptr(fd.Int()), unix.F_DUPFD_CLOEXEC, 0); err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	if err = unix.SetNonblock(p.epoll, true); err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	p.file = os.NewFile(uintptr(p.epoll), "epoll")
	if p.rests, err = p.file.SyscallConn(); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *poller) close() {
	_ = p.Close()
	switch {
	case p.file != nil:
		_ = p.file.Close()
	case p.epoll >= 0:
		_ = unix.Close(p.epoll)
	}
}

// watch tells of input, and of the end, for as long as there is some.
func (p *poller) watch(fd int) error { return p.AddRead(&netpoll.PollAttachment{FD: fd}, false) }

// watchRings tells of each ring of an eventfd, behind the sockets that were readable before it.
func (p *poller) watchRings(fd int) error { return p.AddRead(&netpoll.PollAttachment{FD: fd}, true) }

// rewatch changes what is told of a connection. One that is paused, and does not wait for room, is not
// watched at all.
func (p *poller) rewatch(fd int, was, is state) error {
	a := &netpoll.PollAttachment{FD: fd}
	if (was|is)&isPaused == 0 {
		if is&awaitsRoom != 0 {
			return p.ModReadWrite(a, false)
		}
		return p.ModRead(a, false)
	}
	if was&isPaused == 0 || was&awaitsRoom != 0 {
		if err := p.Delete(fd); err != nil {
			return err
		}
	}
	switch paused, waits := is&isPaused != 0, is&awaitsRoom != 0; {
	case waits && paused:
		return p.AddWrite(a, false)
	case waits:
		return p.AddReadWrite(a, false)
	case paused:
		return nil
	}
	return p.AddRead(a, false)
}

// await takes events from the kernel. There are none when it is the time that was set by wakeAt.
func (p *poller) await() ([]unix.EpollEvent, error) {
	p.count = 0
	err := p.rests.Read(p.hasEvents)
	if err == nil {
		err = p.failed
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, unix.EINTR) {
		err = nil
	}
	return p.events[:p.count], os.NewSyscallError("epoll_wait", err)
}

// wakeAt ends a rest then; not if the time is zero.
func (p *poller) wakeAt(t time.Time) { _ = p.file.SetReadDeadline(t) } // which fails when it is closed

// takeEvents takes the events that are there. It returns false if there are none.
func (p *poller) takeEvents(uintptr) bool {
	var n int
	if p.isBusy() {
		n, p.failed = unix.EpollWait(p.epoll, p.events[:], 0)
	} else {
		ready, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.epoll), uintptr(unsafe.Pointer(&p.events[0])), maxEvents, 0, 0, 0)
		n, p.failed = result(ready, errno)
	}
	p.count = max(n, 0)
	if p.streak += p.count; n == 0 {
		p.streak = 0
	}
	return n != 0
}

func (p *poller) isBusy() bool { return p.streak >= longStreak }

// read reads at most what b has room for.
func (p *poller) read(fd int, b []byte) (int, error) {
	if p.isBusy() {
		return unix.Read(fd, b)
	}
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	return result(n, errno)
}

// write writes what the kernel takes of b.
func (p *poller) write(fd int, b []byte) (int, error) {
	if p.isBusy() || len(b) > Slice {
		return unix.Write(fd, b)
	}
	n, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	return result(n, errno)
}

func result(n uintptr, errno unix.Errno) (int, error) {
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}
