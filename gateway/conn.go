package gateway

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/internal/net/eventloop"
)

// conn is a connection of an event loop. Its fields belong to that.
type conn struct {
	connection
	eventloop.Conn

	loop  *loop
	other netip.Addr // the address of the other end: the device, or the proxy which it comes through
}

// userTimeout is how long sent bytes may stay unacknowledged (TCP_USER_TIMEOUT, RFC 5482). A minute outlasts what
// a mobile network takes to hand a device over, and the kernel's own limit of some 15 minutes would keep a dead
// connection, and what is queued for it, far beyond the verdict.
const userTimeout = time.Minute

func newConn(l *loop, at *listener, other netip.Addr) *conn {
	c := &conn{connection: connection{gateway: l.gateway, listener: at}, loop: l, other: other}
	c.link = c
	return c
}

// open hands the connection's socket to its event loop.
func (c *conn) open(fd int) error {
	g := c.gateway
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(userTimeout.Milliseconds()))
	if err := c.loop.events.Add(fd, c); err != nil {
		return err
	}
	c.loop.soon(func() {
		if c.isOver() || c.established { // it was faster
			return
		}
		c.deadline, _ = g.timers.AfterFunc(g.limits.Load().handshakeTimeout, func() { g.closeLate(&c.connection) })
		g.welcome(&c.connection)
	})
	return nil
}

// Closed implements [eventloop.Handler]: it ends what the connection held.
func (c *conn) Closed() {
	defer c.guard()
	c.ended()
	if c.gateway.closing.Load() {
		c.Write(c.lastWords(whyShutdown, nil))
	} else if c.held() != nil {
		c.gateway.lingering.keep(c)
	}
	c.gateway.left(&c.conversation, c.address())
}

// Traffic implements [eventloop.Handler]: it handles what came in, and writes the answers together.
func (c *conn) Traffic(input []byte) (used int) {
	defer c.guard()
	if c.codec == nil && c.awaitsHeader() {
		if used = c.takeHeader(input); used == 0 || used == len(input) {
			return used
		}
	}
	established := c.established
	x := &c.loop.exchange
	c.prepare(x)
	n, end, more := c.listen(x, input[used:])
	if c.established {
		c.heard(!established)
	}
	if !c.deliver(x.out) {
		return used + n
	}
	c.begun = c.begun || x.begun
	switch {
	case end && !c.endsLater():
		c.Close()
	case more || !c.established && c.awaitsHello():
		c.Pause(x.readAt.Add(intakeStep))
	case c.begun || x.yields && used+n < len(input):
		c.rests = true
		c.Rest()
	}
	if c.begun || c.rests {
		c.endTurn()
	} else {
		c.turns = 0
	}
	return used + n
}

// endTurn has the connection go on after others. After some turns in a row, it goes on when all have
// sent that are woken by now. So whoever publishes to many goes no faster than they are written to, and
// holds up no one else.
func (c *conn) endTurn() {
	if c.turns++; c.turns < inRow {
		c.goFirst()
		return
	}
	c.turns = 0
	c.Wake()
}

// goOn ends a rest.
func (c *conn) goOn() {
	switch {
	case !c.IsOpen():
	case c.begun:
		c.endTurn()
	case c.rests:
		c.rests = false
		c.Again()
	}
}

// Drained implements [eventloop.Handler].
func (c *conn) Drained() { c.drained() }

// guard ends a connection that panics: else it would end the process.
func (c *conn) guard() {
	if v := recover(); v != nil {
		c.panicked(v)
		c.Close()
	}
}

// where implements link.
func (c *conn) where() *loop { return c.loop }

// answer implements link.
func (c *conn) answer(a *pendingReply, j judgement) {
	c.loop.soon(func() {
		if a.judgement, a.answered = j, true; c.IsOpen() {
			c.Again()
		}
	})
}

// lock implements link: the event loop is the lock.
func (c *conn) lock() {}

// unlock implements link.
func (c *conn) unlock() {}

// remote implements link.
func (c *conn) remote() netip.Addr { return c.other }

// verify implements link.
func (c *conn) verify() error { return nil }

// left implements link.
func (c *conn) left() (time.Duration, bool) { return left(c.FD()) }

// silent implements link.
func (c *conn) silent() bool { return c.Unread() == 0 }

// isOver implements link.
func (c *conn) isOver() bool { return !c.IsOpen() }

// buffered implements link.
func (c *conn) buffered() int { return c.Buffered() }

// room implements link.
func (c *conn) room() []byte { return c.loop.exchange.out[:0] }

// write implements link. A connection that leaves more than MaxOutbound bytes unread is reset.
func (c *conn) write(out []byte) bool {
	if len(out) == 0 {
		return true
	}
	if c.Buffered()+len(out) > c.mostUnsent() {
		c.gateway.counts.slowReaders.Add(1)
		c.drop()
		c.Reset()
		return false
	}
	open := c.Write(out)
	if cap(out) > maxRoom {
		c.loop.exchange.out = nil
	}
	return open
}

// hangUp implements link.
func (c *conn) hangUp(last []byte) {
	if len(last) == 0 || c.Write(last) {
		c.Close()
	}
}

// linger implements link.
func (c *conn) linger(out []byte, last bool) { c.gateway.lingering.write(c, out, last) }
