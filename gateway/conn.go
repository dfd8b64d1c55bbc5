package gateway

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/timer"
)

// loop is an event loop's share of the gateway. Its fields are used by the loop's goroutine only, but where said otherwise.
type loop struct {
	gateway *Gateway
	events  gnet.EventLoop // set before connections are let in, then read by all
	index   int
	desk    desk

	_ [64]byte
}

// conn is a connection of an event loop. Its fields belong to that.
type conn struct {
	talk

	loop     *loop
	listener *listener
	gnet     gnet.Conn // nil once the connection is closed
	opened   bool      // it was in the loop; read by settle as well, once that has the result
	deadline timer.ID  // of the hello, then of the next input if IdleTimeout is set
}

// Replaced implements [liveness.Peer].
func (c *conn) Replaced() {
	c.loop.gateway.twins.replaced(c.session.ID())
	c.loop.gateway.closer.add(c, "replaced: the device came back on another connection")
}

// Dismissed implements [liveness.Peer].
func (c *conn) Dismissed() { c.loop.gateway.closer.add(c, whyDismissed) }

// Judged implements [liveness.Peer]: it is called once the verdict is committed.
func (c *conn) Judged() { c.loop.gateway.closer.add(c, whySilence) }

// Committed implements [liveness.Peer].
func (c *conn) Committed() {}

// whyDismissed is said to a device whose session was ended by an operator.
const whyDismissed = "admin: an operator ended the session"

// whySilence is said to a device that was judged; it stays connected if it speaks up before its turn to be closed comes.
const whySilence = "silence"

// open begins to serve the connection.
func (c *conn) open(gc gnet.Conn) {
	g := c.loop.gateway
	c.gnet, c.opened = gc, true
	_ = unix.SetsockoptInt(gc.Fd(), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(g.config.UserTimeout.Milliseconds()))
	c.deadline, _ = g.timers.AfterFunc(g.config.HandshakeTimeout, func() {
		g.counts.handshakeTimeouts.Add(1)
		g.closer.addError(c, noHello(g.config.HandshakeTimeout))
	})
}

func noHello(timeout time.Duration) *codec.Error {
	return &codec.Error{Code: codec.Timeout, Text: fmt.Sprintf("the device did not say who it is within %v", timeout)}
}

// closed ends what the connection held. The device's silence, if it is one, begins here.
func (c *conn) closed() {
	g := c.loop.gateway
	g.timers.Cancel(c.deadline)
	if g.closing.Load() {
		_, _ = c.gnet.Write(c.goodbye(c.listener, nil, "shutdown", nil))
	} else {
		c.ended(c.listener.source.Time(time.Now()))
		if c.held() != nil {
			g.linger.keep(c)
		}
	}
	g.left(&c.talk, c.address())
	c.gnet = nil
}

// addressOf says where a device is.
type addressOf func() netip.Addr

// address is the device's, or that of the proxy which it comes through.
func (c *conn) address() netip.Addr { return c.from(remoteAddr(c.gnet.RemoteAddr())) }

// at prepares the loop's desk for the connection.
func (c *conn) at() *desk {
	d := &c.loop.desk
	d.listener, d.peer, d.address = c.listener, c, c.address
	d.wall = time.Now()
	d.now = c.listener.source.Time(d.wall)
	d.out = d.out[:0]
	return d
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
	greeted := c.greeted
	d := c.at()
	rest, end := c.hear(d, input)
	if c.greeted {
		c.rest(!greeted)
	}
	if n := len(input) - len(rest); n > 0 { // Discard(0) would drop all
		_, _ = c.gnet.Discard(n)
	}
	if !c.write(d.out) || !end || c.endsLater() {
		return gnet.None
	}
	return gnet.Close
}

// rest sets the deadline of the next input, if there is one.
func (c *conn) rest(first bool) {
	g := c.loop.gateway
	switch {
	case first:
		g.timers.Cancel(c.deadline)
		c.deadline = 0
		if idle := g.config.IdleTimeout; idle > 0 {
			c.deadline, _ = g.timers.AfterFunc(idle, func() {
				g.counts.idleTimeouts.Add(1)
				g.closer.add(c, "idle")
			})
		}
	case c.deadline != 0:
		g.timers.Touch(c.deadline, g.timers.Now())
	}
}

// write hands bytes to the kernel, and says whether the connection is still there.
func (c *conn) write(out []byte) bool {
	if len(out) == 0 {
		return true
	}
	g := c.loop.gateway
	if c.gnet.OutboundBuffered()+len(out) > g.config.MaxOutbound {
		g.counts.slowReaders.Add(1)
		c.drop()
		_ = c.gnet.SetLinger(0)
		_ = c.loop.events.Close(c.gnet)
		return false
	}
	_, _ = c.gnet.Write(out) // if it fails, closed has been called
	if cap(out) > 64<<10 {
		c.loop.desk.out = nil
	}
	return c.gnet != nil
}

// where implements carrier.
func (c *conn) where() *loop { return c.loop }

// finish implements carrier.
func (c *conn) finish(e ending) {
	if c.gnet == nil || e.spare && c.spares() || e.err != nil && c.greeted {
		return
	}
	c.loop.gateway.counts.closedByGateway.Add(1)
	c.drop()
	if _, err := c.gnet.Write(c.goodbye(c.listener, nil, e.why, e.err)); err == nil && c.gnet != nil {
		_ = c.loop.events.Close(c.gnet)
	}
}

// spares says whether a connection whose device was judged stays open: the device has spoken up since. If it was judged once more, the
// connection is closed when that is committed.
func (t *talk) spares() bool { return !t.session.Judged() || t.session.Pending() }

// settled implements holder.
func (c *conn) settled(a *answer, committed bool) {
	a.settle(committed)
	out, end := c.letGo(c.loop.desk.out[:0])
	if c.gnet == nil {
		c.loop.gateway.linger.write(c, out, c.held() == nil)
		return
	}
	if c.write(out) && end {
		_ = c.loop.events.Close(c.gnet)
	}
}
