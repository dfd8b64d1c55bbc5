package gateway

import (
	"fmt"
	"net/netip"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/timer"
)

// connection is the transport of a device that is connected, over TLS or not.
type connection struct {
	conversation

	gateway  *Gateway
	listener *listener
	link     link
	intake   intake
	deadline timer.ID // of the hello, then of the next input if IdleTimeout is set, or of a guest's
	woken    atomic.Bool

	// The fields below are of those on an event loop.
	rests bool  // its input waits until others have had their turn,
	begun bool  // and so does the rest of a message
	turns uint8 // that it has had in a row
}

// link is what differs between connections with and without TLS. Its methods but where, lock and
// address are called with the lock held.
type link interface {
	located

	// lock keeps others from using the connection until unlock.
	lock()
	unlock()
	// address returns the other end's: the device, or the proxy which it comes through.
	remote() netip.Addr
	// verify returns why the certificate that the device has shown is no longer good.
	verify() error
	// left reports whether the other end has closed the connection, though that may not be read yet, and
	// how long ago it sent something last.
	left() (ago time.Duration, ok bool)
	// silent reports whether the other end has sent nothing that was not read.
	silent() bool
	// isOver reports whether the connection has ended.
	isOver() bool
	// buffered returns how many bytes wait for the kernel.
	buffered() int
	// room returns a buffer for what is to be written; nil if none can be used again.
	room() []byte
	// write hands bytes to the kernel, or queues them. It returns false if the connection has
	// ended.
	write(out []byte) bool
	// hangUp writes the last bytes, if there are any, and closes the connection.
	hangUp(last []byte)
	// answer hands over what the judge has answered. Any goroutine may call it; it does not block.
	answer(a *pendingReply, j judgement)
	// linger writes an answer that was held until after the connection had ended, if the other end
	// may still read; last says that no other is held.
	linger(out []byte, last bool)
}

// Replaced implements [liveness.Peer].
func (c *connection) Replaced() {
	c.gateway.replaced(c, c.session.ID())
}

// leftAt returns when the other end sent something last, or a moment before that, in the time by which
// its session is opened, if it has closed the connection since; else 0.
func (c *connection) leftAt(x *exchange) time.Duration {
	ago, left := c.link.left()
	if !left {
		return 0
	}
	now := x.readAtListening
	if c.gateway.config.Judge != nil {
		now = x.elapsed()
	}
	return max(now-ago-longestTick, 1)
}

// Dismissed implements [liveness.Peer].
func (c *connection) Dismissed() { c.gateway.close(c, whyDismissed) }

// Judged implements [liveness.Peer]. It is called once the verdict is committed.
func (c *connection) Judged() { c.gateway.close(c, whySilence) }

// Committed implements [liveness.Peer].
func (c *connection) Committed() {}

// Probe implements [liveness.Peer].
func (c *connection) Probe() bool {
	if !c.canProbe() {
		return false
	}
	c.gateway.probes.add(c)
	return true
}

// where implements transport.
func (c *connection) where() *loop { return c.link.where() }

// address returns the device's address, or that of the proxy which it comes through.
func (c *connection) address() netip.Addr { return c.from(c.link.remote()) }

// prepare makes an exchange one with the device.
func (c *connection) prepare(x *exchange) {
	x.listener, x.peer, x.sender = c.listener, c, c
	x.readAt = time.Now()
	x.readAtListening = c.listener.source.Time(x.readAt)
	x.out, x.yields, x.begun, x.fair = x.out[:0], false, false, c.attached && c.where() != nil
}

// deliver writes out, and behind it what the codec has to send. It returns false if the connection
// has ended.
func (c *connection) deliver(out []byte) bool {
	more := false
	if c.attached && c.held() == nil && !c.ending() {
		if room := c.gateway.config.MaxOutbound/2 - c.link.buffered(); room > 0 {
			out, more = c.codec.(codec.Live).Pump(out, room)
		}
	}
	open := c.link.write(out)
	if open && more && c.link.buffered() == 0 {
		c.Wake() // others have their turn first
	}
	return open
}

// mostUnsent returns how many bytes may wait for the kernel.
func (c *connection) mostUnsent() int {
	if c.attached {
		return c.gateway.config.MaxOutbound + c.maxMessage()
	}
	return c.gateway.config.MaxOutbound
}

// finish implements transport.
func (c *connection) finish(e ending) {
	c.link.lock()
	defer c.link.unlock()
	if c.link.isOver() || e.spare && c.spared() || e.evicts && c.gateway.spoken(c) || e.err != nil && c.established {
		return
	}
	if !c.gateway.closing.Load() {
		c.gateway.counts.closedByGateway.Add(1)
	}
	if e.replaced != "" {
		if _, left := c.link.left(); !left {
			c.gateway.duplicateIDs.replaced(e.replaced)
		}
	}
	if e.releases {
		c.released = true
		c.release()
	}
	last := c.lastWords(e.why, e.err)
	if !c.gateway.closing.Load() {
		c.closeSession() // before the device hears of it: if it comes back at once, it replaces none
	}
	c.drop()
	c.link.hangUp(last)
}

// lastWords returns what the device is told when the connection is closed. If its codec has not said yet
// that the session is open, that is the answer to the hello.
func (c *connection) lastWords(why string, err *codec.Error) []byte {
	if h := c.held(); h != nil && h.answers[0].opens {
		c.released = true
		return h.answers[0].busy
	}
	return c.goodbye(c.listener, nil, why, err)
}

// spared reports whether a connection whose device was judged stays open: the device has spoken up
// since. If it was judged once more, the connection is closed when that is committed.
func (c *connection) spared() bool {
	if far := c.far(); far != nil {
		return !far.Judged()
	}
	return !c.session.Judged() || c.session.Pending()
}

// heard sets the deadline of the next input, if there is one. first says that the session has just
// been opened.
func (c *connection) heard(first bool) {
	g := c.gateway
	switch {
	case first:
		g.newcomers.leave(c)
		g.large.leave(c)
		if c.revision != g.config.Guard.Revision(c.credential(c.id())) || c.denied() { // it was revoked meanwhile
			g.close(c, whyRevoked)
		}
		g.timers.Cancel(c.deadline)
		c.deadline = 0
		if idle := c.mayIdle(); idle > 0 {
			c.deadline, _ = g.timers.AfterFunc(idle, func() {
				g.counts.idleTimeouts.Add(1)
				g.close(c, whyIdle)
			})
		}
	case c.deadline != 0:
		g.timers.Touch(c.deadline, g.timers.Now())
	}
}

// mayIdle returns how long the connection may be silent, whatever the registry says; 0 for any time.
func (c *connection) mayIdle() time.Duration {
	idle := c.gateway.config.IdleTimeout
	if c.guest && c.details != nil && c.details.idle > 0 && (idle == 0 || c.details.idle < idle) {
		return c.details.idle
	}
	return idle
}

// writeProbe implements transport.
func (c *connection) writeProbe() bool {
	c.link.lock()
	defer c.link.unlock()
	if c.link.isOver() || c.link.buffered() > 0 || c.held() != nil {
		return false
	}
	out := c.question(c.gateway, c.link.room())
	return len(out) > 0 && c.link.write(out)
}

// send implements transport.
func (c *connection) send(m *outbound) error {
	c.link.lock()
	defer c.link.unlock()
	if c.link.isOver() {
		return ErrNotConnected
	}
	out, err := m.encode(c.link.room(), c, &c.conversation, c.listener)
	if err != nil {
		return err
	}
	if unread := c.link.buffered() + c.heldSize(); unread+len(out) > c.mostUnsent() {
		return fmt.Errorf("%w: %d bytes wait for it", ErrSlowReader, unread)
	}
	if h := c.held(); h != nil {
		h.behind(out)
		return nil
	}
	if !c.link.write(out) {
		return fmt.Errorf("%w: the connection ended", ErrNotConnected)
	}
	return nil
}

// unsent implements transport.
func (c *connection) unsent() (n int, ok bool) {
	c.link.lock()
	defer c.link.unlock()
	if c.link.isOver() {
		return 0, false
	}
	return c.link.buffered() + c.heldSize(), true
}

// settled implements holder.
func (c *connection) settled(a *answer, committed bool) {
	c.link.lock()
	defer c.link.unlock()
	a.settle(committed)
	if a.opens && !committed && !c.link.isOver() { // nothing of what was said behind it holds
		c.released = true
		c.drop()
		c.link.hangUp(a.out)
		return
	}
	out, end := c.letGo(c.link.room())
	switch {
	case c.link.isOver():
		c.link.linger(out, c.held() == nil)
	case c.deliver(out) && end:
		c.link.hangUp(nil)
	}
}

// ended ends what the connection held. The device's silence, if it is one, begins here. It is
// called with the lock held.
func (c *connection) ended() {
	c.gateway.newcomers.leave(c)
	c.gateway.large.leave(c)
	c.gateway.timers.Cancel(c.deadline)
	closing := c.gateway.closing.Load()
	if !closing {
		c.closeSession()
	}
	if c.awaitsReply() {
		c.where().replied(c.details.pending)
	}
	if c.attached {
		c.codec.(codec.Live).Ended(closing || c.released)
	}
}

// panicked notes that the connection made the gateway panic. It is closed: else the process would end.
func (c *connection) panicked(v any) {
	c.gateway.counts.panics.Add(1)
	c.gateway.log.Error("a connection made the gateway panic; it is closed", "panic", v, "stack", string(debug.Stack()))
}

var _ liveness.Peer = (*connection)(nil)
