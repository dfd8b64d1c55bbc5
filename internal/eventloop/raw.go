package eventloop

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The system calls below do not wait, and Go's scheduler is not told of them. It would wake its monitor
// (sysmon), a thread of its own, for the first one after each rest: with the switches between threads
// that follow, that costs more than to answer a heartbeat.
//
// It is told by a loop that has been busy for a while, or has much to write: then it lets other
// goroutines run meanwhile, and asks for what they wait for.

// longStreak is how many events without a rest make a loop busy.
const longStreak = 64

func (l *Loop) isBusy() bool { return l.streak >= longStreak }

// takeReady takes events that are there.
func (l *Loop) takeReady() (int, error) {
	if l.isBusy() {
		return unix.EpollWait(l.epoll, l.events[:], 0)
	}
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(l.epoll), uintptr(unsafe.Pointer(&l.events[0])), maxEvents, 0, 0, 0)
	return result(n, errno)
}

// read reads at most what b has room for.
func (l *Loop) read(fd int, b []byte) (int, error) {
	if l.isBusy() {
		return unix.Read(fd, b)
	}
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	return result(n, errno)
}

// write writes what the kernel takes of b.
func (l *Loop) write(fd int, b []byte) (int, error) {
	if l.isBusy() || len(b) > Slice {
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
