//go:build linux

// Package loopback holds more connections to a server on this machine than one address has ports for, on one epoll instance and with no
// goroutine per connection.
package loopback

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// perSource is how many connections one source address has, far from all of its ports.
const perSource = 4000

// Conns are connections to one server, numbered from 0. They are for one goroutine.
type Conns struct {
	// Packets makes sockets of UDP, which are open at once, instead of TCP.
	Packets bool

	server unix.SockaddrInet4
	epoll  int
	fds    []int // by connection, -1 when it is closed
	events []unix.EpollEvent
	buffer []byte
}

// New returns no connections to a server at an IPv4 address.
func New(server netip.AddrPort) (*Conns, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	return &Conns{
		server: unix.SockaddrInet4{Addr: server.Addr().As4(), Port: int(server.Port())},
		epoll:  epoll,
		events: make([]unix.EpollEvent, 512),
		buffer: make([]byte, 64<<10),
	}, nil
}

// Close closes all connections.
func (c *Conns) Close() {
	for i := range c.fds {
		c.HangUp(i)
	}
	_ = unix.Close(c.epoll)
}

// Len returns how many connections were dialed.
func (c *Conns) Len() int { return len(c.fds) }

// Open reports whether HangUp was not called for a connection.
func (c *Conns) Open(i int) bool { return c.fds[i] >= 0 }

// HangUp closes a connection with a reset, so that no port stays in use. It may be called more than once.
func (c *Conns) HangUp(i int) {
	if fd := c.fds[i]; fd >= 0 {
		_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
		_ = unix.Close(fd)
		c.fds[i] = -1
	}
}

// Dial begins to open the next connection, from an address after 127.0.0.1. Wait returns its number once it is open.
func (c *Conns) Dial() error {
	i := len(c.fds)
	fd, err := c.dial(i)
	if err != nil {
		return fmt.Errorf("connection %d: %w", i, err)
	}
	c.fds = append(c.fds, fd)
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLET, Fd: int32(i)}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(c.epoll, unix.EPOLL_CTL_ADD, fd, &event))
}

func (c *Conns) dial(i int) (fd int, err error) {
	kind := unix.SOCK_STREAM
	if c.Packets {
		kind = unix.SOCK_DGRAM
	}
	fd, err = unix.Socket(unix.AF_INET, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	if !c.Packets {
		err = errors.Join(
			os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)),
			os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)),
		)
	}
	source := unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 2 + byte(i/perSource)}}
	if err = errors.Join(err, os.NewSyscallError("bind", unix.Bind(fd, &source))); err == nil {
		if err = unix.Connect(fd, &c.server); err == nil || errors.Is(err, unix.EINPROGRESS) {
			return fd, nil
		}
		err = os.NewSyscallError("connect", err)
	}
	_ = unix.Close(fd)
	return -1, err
}

// Wait waits for at most a while and calls f for each connection that has been opened, can be read, or was closed by the server. It
// returns how many there were.
func (c *Conns) Wait(ctx context.Context, most time.Duration, f func(i int) error) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	n, err := unix.EpollWait(c.epoll, c.events, int(most.Milliseconds()))
	if err != nil && !errors.Is(err, unix.EINTR) {
		return 0, os.NewSyscallError("epoll_wait", err)
	}
	n = max(n, 0)
	for _, e := range c.events[:n] {
		if err := f(int(e.Fd)); err != nil {
			return n, err
		}
	}
	return n, nil
}

// ErrClosed is returned by Read when the server has closed the connection.
var ErrClosed = errors.New("the server closed it")

// Read returns what a connection has received, nil if that is nothing. Its memory is valid until the next call. Events are
// edge-triggered: a Read that fills its 64 KiB would have to be repeated, which no benchmark needs.
func (c *Conns) Read(i int) ([]byte, error) {
	n, err := unix.Read(c.fds[i], c.buffer)
	switch {
	case errors.Is(err, unix.EAGAIN):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("connection %d: %w", i, os.NewSyscallError("read", err))
	case n == 0:
		return nil, fmt.Errorf("connection %d: %w", i, ErrClosed)
	}
	return c.buffer[:n], nil
}

// ErrFull is returned by Write when the server does not read fast enough.
var ErrFull = errors.New("the server does not read")

// Write writes all of p.
func (c *Conns) Write(i int, p []byte) error {
	n, err := unix.Write(c.fds[i], p)
	if err == nil && n < len(p) || errors.Is(err, unix.EAGAIN) {
		err = ErrFull
	}
	if err != nil {
		return fmt.Errorf("connection %d: write: %w", i, err)
	}
	return nil
}
