package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/bench/internal/loopback"
)

// client holds connections to a server and waits for all of them at once. It is used by one goroutine.
type client struct {
	epoll  int
	target loopback.Target
	fds    []int // by connection, -1 when it is closed
	events []unix.EpollEvent
	buffer []byte
}

func newClient(addr netip.AddrPort) (*client, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	return &client{
		epoll:  epoll,
		target: loopback.To(addr),
		events: make([]unix.EpollEvent, 512),
		buffer: make([]byte, 64<<10),
	}, nil
}

// close closes all connections; with a reset, so that no port is held.
func (c *client) close() {
	for i := range c.fds {
		c.hangUp(i)
	}
	_ = unix.Close(c.epoll)
}

func (c *client) hangUp(i int) {
	if fd := c.fds[i]; fd >= 0 {
		loopback.Reset(fd)
		c.fds[i] = -1
	}
}

// wait waits for events for at most a while; there may be none.
func (c *client) wait(ctx context.Context, most time.Duration) ([]unix.EpollEvent, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	n, err := unix.EpollWait(c.epoll, c.events, int(most.Milliseconds()))
	if err != nil && !errors.Is(err, unix.EINTR) {
		return nil, os.NewSyscallError("epoll_wait", err)
	}
	return c.events[:max(n, 0)], nil
}

// read returns what has come in on a connection, nil if nothing has. Its memory is good until the next read. Events are
// edge-triggered: a read that fills the buffer has to be repeated, which does not happen here.
func (c *client) read(i int) ([]byte, error) {
	n, err := unix.Read(c.fds[i], c.buffer)
	switch {
	case errors.Is(err, unix.EAGAIN):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("connection %d: %w", i, os.NewSyscallError("read", err))
	case n == 0:
		return nil, fmt.Errorf("connection %d: %w", i, errClosed)
	}
	return c.buffer[:n], nil
}

var errClosed = errors.New("the server closed it")

func (c *client) write(i int, p []byte) error {
	n, err := unix.Write(c.fds[i], p)
	if err == nil && n < len(p) {
		err = unix.EAGAIN // it did not drain what was sent before
	}
	if err != nil {
		return fmt.Errorf("connection %d: %w", i, os.NewSyscallError("write", err))
	}
	return nil
}

// dial begins to connect.
func (c *client) dial() error {
	i := len(c.fds)
	fd, err := c.target.Dial(i)
	if err != nil {
		return err
	}
	c.fds = append(c.fds, fd)
	return c.watch(fd, i, unix.EPOLLIN|unix.EPOLLOUT|unix.EPOLLET)
}

func (c *client) watch(fd, name int, events uint32) error {
	return os.NewSyscallError("epoll_ctl",
		unix.EpollCtl(c.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: int32(name)}))
}

// greeter is what connections say first, and what they wait for then.
type greeter struct {
	say   func(i int) []byte
	heard func(i int, answer []byte) (done bool, err error) // nil: nothing is answered
}

// inLines greets in the line protocol.
func inLines(say func(i int) []byte) greeter {
	return greeter{say, func(_ int, answer []byte) (bool, error) {
		if bytes.HasPrefix(answer, []byte("ERR")) {
			return false, errRefused
		}
		return bytes.HasSuffix(answer, []byte("\n")), nil
	}}
}

var errRefused = errors.New("the greeting was refused")

// connect opens n connections, greets on each, and returns once all greetings are answered, with the time that took.
func (c *client) connect(ctx context.Context, n int, g greeter) (time.Duration, error) {
	begin := time.Now()
	greeted := make([]bool, n)
	for answered := 0; answered < n; {
		for len(c.fds) < n && len(c.fds)-answered < c.dialing() {
			if err := c.dial(); err != nil {
				return 0, fmt.Errorf("connection %d: %w", len(c.fds), err)
			}
		}
		events, err := c.wait(ctx, 100*time.Millisecond)
		if err != nil {
			return 0, fmt.Errorf("%d of %d connected: %w", answered, n, err)
		}
		for _, e := range events {
			i := int(e.Fd)
			if !greeted[i] {
				greeted[i] = true
				if err := c.write(i, g.say(i)); err != nil {
					return 0, err
				}
				if g.heard == nil {
					answered++
				}
				continue
			}
			if g.heard == nil {
				continue
			}
			answer, err := c.read(i)
			if err != nil {
				return 0, err
			}
			done, err := g.heard(i, answer)
			if err != nil {
				return 0, fmt.Errorf("connection %d was answered %q: %w", i, answer, err)
			}
			if done {
				answered++
			}
		}
	}
	return time.Since(begin), nil
}

// dialing is how many connections may be on their way at a time. Datagrams wait in a queue of some hundred kilobytes.
func (c *client) dialing() int {
	if c.target.Packets {
		return 64
	}
	return 512
}

// ticker makes a timer that is waited for like a connection, under the name tickName.
func (c *client) ticker(every time.Duration) (fd int, err error) {
	if fd, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC); err != nil {
		return 0, os.NewSyscallError("timerfd_create", err)
	}
	spec := unix.NsecToTimespec(every.Nanoseconds())
	if err := unix.TimerfdSettime(fd, 0, &unix.ItimerSpec{Interval: spec, Value: spec}, nil); err != nil {
		return 0, os.NewSyscallError("timerfd_settime", err)
	}
	return fd, c.watch(fd, tickName, unix.EPOLLIN)
}

const tickName = -1

// ticks returns how often a ticker ticked since the last call.
func ticks(fd int) int {
	var b [8]byte
	if n, err := unix.Read(fd, b[:]); err != nil || n != len(b) {
		return 0
	}
	return int(binary.NativeEndian.Uint64(b[:]))
}
