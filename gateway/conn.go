package gateway

import (
	"net/netip"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"
)

// conn is a connection of an event loop. Its fields belong to that.
type conn struct {
	connection

	loop   *loop
	gnet   gnet.Conn // nil once the connection is closed
	opened bool      // it was in the loop; read by settle as well, once that has the result
}

func newConn(l *loop, at *listener) *conn {
	c := &conn{connection: connection{gateway: l.gateway, listener: at}, loop: l}
	c.link = c
	return c
}

// open begins to serve the connection.
func (c *conn) open(gc gnet.Conn) {
	g := c.gateway
	c.gnet, c.opened = gc, true
	_ = unix.SetsockoptInt(gc.Fd(), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(g.config.UserTimeout.Milliseconds()))
	c.deadline, _ = g.timers.AfterFunc(g.config.HandshakeTimeout, func() { g.closeLate(&c.connection) })
}

// closed ends what the connection held.
func (c *conn) closed() {
	c.ended()
	if c.gateway.closing.Load() {
		_, _ = c.gnet.Write(c.goodbye(c.listener, nil, whyShutdown, nil))
	} else if c.held() != nil {
		c.gateway.lingering.keep(c)
	}
	c.gateway.left(&c.conversation, c.address())
	c.gnet = nil
}

// traffic handles what came in, and writes the answers together.
func (c *conn) traffic() gnet.Action {
	if c.awaitsHeader() {
		if off, action := c.takeHeader(); !off {
			return action
		}
	}
	input, _ := c.gnet.Peek(-1)
	if len(input) == 0 {
		return gnet.None
	}
	established := c.established
	x := &c.loop.exchange
	c.prepare(x)
	rest, end := c.hear(x, input)
	if c.established {
		c.heard(!established)
	}
	if n := len(input) - len(rest); n > 0 { // Discard(0) would drop all
		_, _ = c.gnet.Discard(n)
	}
	if !c.write(x.out) || !end || c.endsLater() {
		return gnet.None
	}
	return gnet.Close
}

// where implements link.
func (c *conn) where() *loop { return c.loop }

// lock implements link: the event loop is the lock.
func (c *conn) lock() {}

// unlock implements link.
func (c *conn) unlock() {}

// remote implements link.
func (c *conn) remote() netip.Addr { return remoteAddr(c.gnet.RemoteAddr()) }

// isOver implements link.
func (c *conn) isOver() bool { return c.gnet == nil }

// buffered implements link.
func (c *conn) buffered() int { return c.gnet.OutboundBuffered() }

// room implements link.
func (c *conn) room() []byte { return c.loop.exchange.out[:0] }

// write implements link. A connection that leaves more than MaxOutbound bytes unread is reset.
func (c *conn) write(out []byte) bool {
	if len(out) == 0 {
		return true
	}
	if c.gnet.OutboundBuffered()+len(out) > c.gateway.config.MaxOutbound {
		c.gateway.counts.slowReaders.Add(1)
		c.drop()
		_ = c.gnet.SetLinger(0)
		_ = c.loop.events.Close(c.gnet)
		return false
	}
	_, _ = c.gnet.Write(out) // if it fails, closed has been called
	if cap(out) > maxRoom {
		c.loop.exchange.out = nil
	}
	return c.gnet != nil
}

// hangUp implements link.
func (c *conn) hangUp(last []byte) {
	if len(last) > 0 {
		_, _ = c.gnet.Write(last) // if it fails, closed has been called
	}
	if c.gnet != nil {
		_ = c.loop.events.Close(c.gnet)
	}
}

// linger implements link.
func (c *conn) linger(out []byte, last bool) { c.gateway.lingering.write(c, out, last) }
