//go:build linux

// Package loopback opens more connections to a server on this machine than one
// address has ports for. They are sockets that never block, for an epoll
// instance of their owner.
package loopback

import (
	"errors"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// perSource is how many connections one source address has, far from all of
// its ports.
const perSource = 4000

// Target is an IPv4 address to connect to.
type Target struct {
	address unix.SockaddrInet4

	// Packets makes sockets of UDP, which are open at once, instead of TCP.
	Packets bool
}

// To returns the target at an IPv4 address; it panics if it is none.
func To(addr netip.AddrPort) Target {
	return Target{address: unix.SockaddrInet4{Addr: addr.Addr().As4(), Port: int(addr.Port())}}
}

// Dial begins to open connection i, counted from 0, from an address after
// 127.0.0.1. It is open once it can be written to.
func (t *Target) Dial(i int) (fd int, err error) {
	kind := unix.SOCK_STREAM
	if t.Packets {
		kind = unix.SOCK_DGRAM
	}
	fd, err = unix.Socket(unix.AF_INET, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	source := unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 2 + byte(i/perSource)}}
	if !t.Packets {
		err = errors.Join(
			os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)),
			os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)),
		)
	}
	if err = errors.Join(err, os.NewSyscallError("bind", unix.Bind(fd, &source))); err == nil {
		if err = unix.Connect(fd, &t.address); err == nil || errors.Is(err, unix.EINPROGRESS) {
			return fd, nil
		}
		err = os.NewSyscallError("connect", err)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// Reset closes a connection with a reset, so that no port is held.
func Reset(fd int) {
	_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	_ = unix.Close(fd)
}
