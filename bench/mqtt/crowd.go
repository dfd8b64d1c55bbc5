package mqtt

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/mqtt/packet"
)

const (
	keepAliveSeconds = 60 // of all clients but those that fall silent
	// atOnce is how many clients connect at a time: no more than a broker lets wait, and than holter takes
	// from one address before their CONNECT.
	atOnce = 32
)

// kind is what the clients of a crowd have in common.
type kind struct {
	version packet.Version
	name    string // the beginning of their identifiers
	filter  string // that they subscribe to; "" for none
	qos     uint8  // of that subscription
}

// crowd is clients on one instance of epoll. One goroutine at a time uses it.
type crowd struct {
	kind

	// handle is called with each packet that comes once the clients are welcome.
	handle func(c *client, h packet.Header, body []byte)

	epoll   int
	clients []*client
	welcome int // clients that were let in, and are subscribed
	lost    int // clients whose connection has ended
	events  [512]unix.EpollEvent
	buffer  [256 << 10]byte
}

// client is a client on a socket that does not block.
type client struct {
	fd     int
	index  int
	in     []byte // the beginning of a packet
	out    []byte // what the kernel has not taken
	waits  bool   // for the kernel to take more
	closed bool
}

// newCrowd returns n clients of a broker that are let in and subscribed.
func newCrowd(ctx context.Context, at netip.AddrPort, n int, k kind) (*crowd, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	c := &crowd{kind: k, epoll: epoll}
	for len(c.clients) < n {
		for range min(atOnce, n-len(c.clients)) {
			err = errors.Join(err, c.add(at))
		}
		all := func() bool { return c.welcome == len(c.clients) }
		if err = errors.Join(err, c.until(ctx, all)); err != nil {
			c.close()
			return nil, fmt.Errorf("connect %d clients: %w", n, err)
		}
	}
	return c, nil
}

// add connects one client more.
func (c *crowd) add(at netip.AddrPort) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	one := &client{fd: fd, index: len(c.clients)}
	c.clients = append(c.clients, one)
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(one.index)}
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
		unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}), // no port is left behind
		unix.Connect(fd, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}),
		unix.SetNonblock(fd, true),
		unix.EpollCtl(c.epoll, unix.EPOLL_CTL_ADD, fd, &event),
	)
	one.out = c.greeting(one.index)
	c.flush(one)
	return err
}

// greeting returns CONNECT and SUBSCRIBE of a client.
func (k *kind) greeting(index int) []byte {
	hello := packet.Connect{
		Version: k.version, Clean: true, KeepAlive: keepAliveSeconds, ClientID: fmt.Appendf(nil, "%s-%05d", k.name, index), RequestProblem: true,
	}
	out := hello.Append(nil)
	if k.filter != "" {
		out = packet.AppendSubscribe(out, k.version, 1, 0, packet.Filter{Topic: []byte(k.filter), QoS: k.qos})
	}
	return out
}

// send sends bytes to the broker, behind what waits.
func (c *crowd) send(one *client, b []byte) {
	one.out = append(one.out, b...)
	if !one.waits {
		c.flush(one)
	}
}

// flush writes what the kernel takes of what waits.
func (c *crowd) flush(one *client) {
	if one.closed || len(one.out) == 0 {
		return
	}
	n, err := unix.Write(one.fd, one.out)
	if err != nil && err != unix.EAGAIN {
		c.lose(one)
		return
	}
	one.out = one.out[:copy(one.out, one.out[max(n, 0):])]
	if waits := len(one.out) > 0; waits != one.waits {
		one.waits = waits
		c.watch(one, unix.EPOLLIN)
	}
}

// watch has a client looked at when the kernel has bytes for it (EPOLLIN), or not (0).
func (c *crowd) watch(one *client, in uint32) {
	event := unix.EpollEvent{Events: in, Fd: int32(one.index)}
	if one.waits {
		event.Events |= unix.EPOLLOUT
	}
	_ = unix.EpollCtl(c.epoll, unix.EPOLL_CTL_MOD, one.fd, &event) // which cannot fail for an open socket
}

// poll handles what has come, and waits up to a number of milliseconds for it.
func (c *crowd) poll(wait int) error {
	n, err := unix.EpollWait(c.epoll, c.events[:], wait)
	if err != nil && err != unix.EINTR {
		return os.NewSyscallError("epoll_wait", err)
	}
	for _, e := range c.events[:max(n, 0)] {
		one := c.clients[e.Fd]
		if e.Events&unix.EPOLLOUT != 0 {
			c.flush(one)
		}
		if e.Events&^unix.EPOLLOUT != 0 && !one.closed {
			if err := c.read(one); err != nil {
				return err
			}
		}
	}
	return nil
}

// read handles the packets that have come for a client.
func (c *crowd) read(one *client) error {
	kept := copy(c.buffer[:], one.in)
	n, err := unix.Read(one.fd, c.buffer[kept:])
	if n <= 0 {
		if err != unix.EAGAIN && err != unix.EINTR {
			c.lose(one)
		}
		return nil
	}
	rest := c.buffer[:kept+n]
	for len(rest) > 0 {
		h, body, size, err := packet.Split(c.version, rest, packet.MaxSize)
		if err == nil && size > 0 {
			err = c.take(one, h, body)
		}
		if err != nil {
			return fmt.Errorf("client %s-%05d: %w", c.name, one.index, err)
		}
		if size == 0 {
			break
		}
		rest = rest[size:]
	}
	one.in = append(one.in[:0], rest...)
	c.flush(one)
	return nil
}

// take handles a packet.
func (c *crowd) take(one *client, h packet.Header, body []byte) error {
	switch h.Type {
	case packet.TypeConnack:
		var ack packet.Connack
		if err := ack.Decode(c.version, body); err != nil || ack.Code != packet.Success {
			return errors.Join(fmt.Errorf("CONNACK says %v", ack.Code), err)
		}
		if c.filter == "" {
			c.welcome++
		}
	case packet.TypeSuback:
		c.welcome++
	case packet.TypeDisconnect:
	default:
		c.handle(one, h, body)
	}
	return nil
}

// lose closes the connection of a client that the broker has ended.
func (c *crowd) lose(one *client) {
	c.lost++
	one.closed = true
	_ = unix.Close(one.fd)
}

// until handles what comes until done is true.
func (c *crowd) until(ctx context.Context, done func() bool) error {
	for !done() {
		if c.lost > 0 {
			return fmt.Errorf("%d of %d clients were cut off", c.lost, len(c.clients))
		}
		if err := errors.Join(c.poll(1), ctx.Err()); err != nil {
			return err
		}
	}
	return nil
}

// during handles what comes for a while, and calls tick in between, at least each millisecond.
func (c *crowd) during(ctx context.Context, length time.Duration, tick func(now time.Time)) error {
	for end := time.Now().Add(length); ; {
		now := time.Now()
		if now.After(end) {
			return ctx.Err()
		}
		tick(now)
		if err := errors.Join(c.poll(1), ctx.Err()); err != nil {
			return err
		}
	}
}

// close closes all connections.
func (c *crowd) close() {
	for _, one := range c.clients {
		if !one.closed {
			_ = unix.Close(one.fd)
		}
	}
	_ = unix.Close(c.epoll)
}
