package sockets

import (
	"errors"

	"golang.org/x/sys/unix"
)

// watch is told by the kernel which connections received something, so that not all of them must be
// asked about. It costs what has happened since the last time, and not what there is.
type watch struct {
	ep     int // 0 without one
	events []unix.EpollEvent
}

// begin makes a watch; without descriptors left there is none.
func (w *watch) begin() {
	if ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC); err == nil {
		w.ep = ep
	}
}

func (w *watch) end() {
	if w.ep != 0 {
		_ = unix.Close(w.ep) // nothing is lost with it
		w.ep = 0
	}
}

// add adds a descriptor, which leaves by itself when it is closed. A watch that cannot hold all
// ends.
func (w *watch) add(fd int) {
	if w.ep == 0 {
		return
	}
	e := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}
	if unix.EpollCtl(w.ep, unix.EPOLL_CTL_ADD, fd, &e) != nil {
		w.end()
	}
}

// ready calls f with the descriptors that can be read from, at most n, and reports whether the
// kernel could be asked.
func (w *watch) ready(n int, f func(fd int)) bool {
	if w.ep == 0 {
		return false
	}
	if len(w.events) <= n { // all of them in one answer
		w.events = make([]unix.EpollEvent, n+n/4+64)
	}
	for {
		got, err := unix.EpollWait(w.ep, w.events, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return false
		}
		for i := range w.events[:got] {
			f(int(w.events[i].Fd))
		}
		return true
	}
}

// queued returns how many connections wait to be accepted at a listening TCP socket, and false if
// it is none. The kernel tells the number in tcpi_unacked (tcp_get_info).
func queued(fd int) (uint64, bool) {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0, false
	}
	return uint64(info.Unacked), true
}
