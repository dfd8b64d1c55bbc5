//go:build linux

package fleet

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// openSocket returns a TCP socket that does not block, bound to source if there
// is one. The port is chosen only at connect, when the kernel knows the target:
// bound earlier, a port could serve one connection of all targets.
func openSocket(source *unix.SockaddrInet4) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	err = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	if err == nil && source != nil {
		err = unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
	}
	if err != nil {
		closeSocket(fd)
		return -1, os.NewSyscallError("setsockopt", err)
	}
	if source != nil {
		if err := unix.Bind(fd, source); err != nil {
			closeSocket(fd)
			return -1, os.NewSyscallError("bind", err)
		}
	}
	return fd, nil
}

// startDial begins the handshake, whose end epoll will report.
func startDial(ep int, c *conn, target *unix.SockaddrInet4) error {
	err := unix.Connect(c.fd, target)
	if err != nil && !errors.Is(err, unix.EINPROGRESS) {
		return os.NewSyscallError("connect", err)
	}
	return watch(ep, unix.EPOLL_CTL_ADD, c, unix.EPOLLOUT)
}

// watch tells epoll what to report of a connection.
func watch(ep, op int, c *conn, events uint32) error {
	ev := unix.EpollEvent{Events: events | unix.EPOLLRDHUP, Fd: int32(c.fd), Pad: c.gen}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(ep, op, c.fd, &ev))
}

// socketError returns how a handshake ended.
func socketError(fd int) error {
	code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil {
		return os.NewSyscallError("getsockopt", err)
	}
	if code != 0 {
		return unix.Errno(code)
	}
	return nil
}

// lingerZero makes the next close send RST. It cannot fail on an open socket.
func lingerZero(fd int) {
	_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
}

// closeSocket gives a descriptor back. Its error could only speak of data that
// nobody waits for.
func closeSocket(fd int) { _ = unix.Close(fd) }

// grow returns s long enough for index i.
func grow(s []*conn, i int) []*conn {
	for len(s) <= i {
		s = append(s, nil)
	}
	return s
}
