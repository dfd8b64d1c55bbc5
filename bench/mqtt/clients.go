package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/bench/internal/loopback"
)

const (
	dialing = 256 // connections on their way at a time
	tick    = 2 * time.Millisecond
)

// client is an MQTT client that pings.
type client struct {
	fd     int // -1 when it is closed
	phase  phase
	sent   time.Time // just before the last packet was written
	heard  time.Time // when the answer to a packet was seen that was sent last of all
	closed time.Time // when the broker was seen to have closed the connection
}

type phase uint8

const (
	connecting phase = iota // CONNECT was not sent
	awaiting                // it was sent, CONNACK has not come
	greeted
)

// class is the clients that have a keep alive in common. Each pings twice in that time.
type class struct {
	keepAlive time.Duration
	members   []int // in the order in which they are to ping
	due       []time.Time
}

// fleet is clients of one broker, on one epoll instance. It is used by one goroutine.
type fleet struct {
	epoll   int
	target  loopback.Target
	clients []client
	classes [2]class
	events  []unix.EpollEvent
	buffer  []byte

	answered int // CONNACKs
	pings    int
	silent   bool // nobody pings
	cut      int  // connections closed by the broker before that
	gone     int  // all that were closed by the broker
	failed   error
}

func newFleet(addr netip.AddrPort, sc scale) (*fleet, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	f := &fleet{
		epoll:   epoll,
		target:  loopback.To(addr),
		clients: make([]client, 0, sc.Clients),
		events:  make([]unix.EpollEvent, 512),
		buffer:  make([]byte, 4096),
	}
	f.classes[0].keepAlive, f.classes[1].keepAlive = sc.Odd, sc.Even
	return f, nil
}

// classOf returns the class of a client.
func (f *fleet) classOf(i int) *class { return &f.classes[i%len(f.classes)] }

func clientID(i int) string { return fmt.Sprintf("client-%05d", i) }

// close closes all connections; with a reset, so that no port is held.
func (f *fleet) close() {
	for i := range f.clients {
		f.hangUp(i)
	}
	_ = unix.Close(f.epoll)
}

func (f *fleet) hangUp(i int) {
	if fd := f.clients[i].fd; fd >= 0 {
		loopback.Reset(fd)
		f.clients[i].fd = -1
	}
}

// connect connects all clients, and returns how long that took.
func (f *fleet) connect(ctx context.Context) (time.Duration, error) {
	begin := time.Now()
	err := f.run(ctx, func() bool {
		for len(f.clients) < cap(f.clients) && len(f.clients)-f.answered < dialing && f.failed == nil {
			f.failed = f.dial()
		}
		return f.answered == cap(f.clients)
	})
	if err != nil {
		err = fmt.Errorf("%d of %d connected: %w", f.answered, cap(f.clients), err)
	}
	return time.Since(begin), err
}

// run lets the clients ping, and takes what comes, until done.
func (f *fleet) run(ctx context.Context, done func() bool) error {
	for !done() {
		if err := errors.Join(f.failed, ctx.Err()); err != nil {
			return err
		}
		if !f.silent {
			f.pingDue(time.Now())
		}
		if err := f.wait(tick); err != nil {
			return err
		}
	}
	return f.failed
}

// wait takes what comes within a while.
func (f *fleet) wait(most time.Duration) error {
	n, err := unix.EpollWait(f.epoll, f.events, int(most/time.Millisecond))
	if err != nil && !errors.Is(err, unix.EINTR) {
		return os.NewSyscallError("epoll_wait", err)
	}
	for _, e := range f.events[:max(n, 0)] {
		f.take(int(e.Fd))
	}
	return nil
}

// lastPings lets all clients ping once more, at once.
func (f *fleet) lastPings() error {
	for i := range f.clients {
		f.ping(i)
		if i%64 == 0 { // so that it is known when the answers came
			if err := f.wait(0); err != nil {
				return err
			}
		}
	}
	return nil
}

// dial begins to connect.
func (f *fleet) dial() error {
	i := len(f.clients)
	fd, err := f.target.Dial(i)
	if err != nil {
		return err
	}
	f.clients = append(f.clients, client{fd: fd})
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(f.epoll, unix.EPOLL_CTL_ADD, fd,
		&unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLET, Fd: int32(i)}))
}

// take takes what has happened to a connection.
func (f *fleet) take(i int) {
	c := &f.clients[i]
	switch {
	case c.fd < 0:
		return
	case c.phase == connecting:
		c.phase = awaiting
		f.send(i, connectPacket(clientID(i), f.classOf(i).keepAlive))
		return
	}
	n, err := unix.Read(c.fd, f.buffer) // nobody sends more than fits
	switch {
	case errors.Is(err, unix.EAGAIN):
	case err != nil || n == 0:
		f.closed(i)
	case c.phase == awaiting:
		f.admitted(i, f.buffer[:n])
	case f.silent:
		c.heard = time.Now()
	}
}

// closed notes that the broker closed a connection.
func (f *fleet) closed(i int) {
	c := &f.clients[i]
	c.closed = time.Now()
	f.hangUp(i)
	f.gone++
	if !f.silent {
		f.cut++
	}
	if c.phase != greeted {
		f.failed = fmt.Errorf("%s: the broker closed the connection and did not answer CONNECT", clientID(i))
	}
}

// admitted takes a CONNACK. The client is to ping half a keep alive later.
func (f *fleet) admitted(i int, answer []byte) {
	if !bytes.Equal(answer, []byte{0x20, 2, 0, 0}) {
		f.failed = fmt.Errorf("%s: CONNECT was answered % x", clientID(i), answer)
		return
	}
	f.clients[i].phase = greeted
	f.answered++
	cl := f.classOf(i)
	cl.members = append(cl.members, i)
	cl.due = append(cl.due, time.Now().Add(cl.keepAlive/2))
}

// spread spreads the pings of all clients evenly.
func (f *fleet) spread() {
	now := time.Now()
	for k := range f.classes {
		cl := &f.classes[k]
		for j := range cl.due {
			cl.due[j] = now.Add(cl.keepAlive / 2 * time.Duration(j) / time.Duration(len(cl.due)))
		}
	}
}

// pingDue sends the pings that are due.
func (f *fleet) pingDue(now time.Time) {
	for k := range f.classes {
		cl := &f.classes[k]
		n := 0
		for n < len(cl.due) && !cl.due[n].After(now) {
			i := cl.members[n]
			f.ping(i)
			cl.members = append(cl.members, i)
			cl.due = append(cl.due, cl.due[n].Add(cl.keepAlive/2))
			n++
		}
		cl.members, cl.due = cl.members[n:], cl.due[n:]
	}
}

func (f *fleet) ping(i int) {
	if f.clients[i].fd >= 0 {
		f.pings++
		f.send(i, []byte{0xc0, 0})
	}
}

// send writes a packet. What cannot be written belongs to a connection whose end is yet to be seen.
func (f *fleet) send(i int, p []byte) {
	c := &f.clients[i]
	c.sent = time.Now()
	if n, err := unix.Write(c.fd, p); err == nil && n < len(p) {
		f.failed = fmt.Errorf("%s: the broker does not read", clientID(i))
	}
}
