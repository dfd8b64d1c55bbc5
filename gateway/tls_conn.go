package gateway

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/timer"
)

const (
	// maxLead is how much of a connection is read before its handshake begins: a PROXY header, and the first record. A longer one is
	// no obstacle, but may keep the listening clock waiting while its handshake waits for its turn.
	maxLead = 4 << 10
	// smallInput is how much is read at once of a connection that waits, and roomyInput the room for what comes of it.
	smallInput = 512
	roomyInput = 4 << 10
	// handshakeRecord is the type of the first record of a TLS connection (RFC 8446, 5.1).
	handshakeRecord = 22
)

// tlsConn is a connection over TLS.
type tlsConn struct {
	talk

	secure   *secure
	listener *listener
	remote   netip.Addr // of the other end: the device, or the proxy which it comes through
	socket   tlsSocket

	mu       sync.Mutex    // guards talk and the fields below, between the goroutine that serves the connection and those that write to it or close it
	tls      *tls.Conn     // nil until the handshake is done
	over     bool          // nothing is said any more
	part     []byte        // of a message
	deadline timer.ID      // of the hello, then of the next input if IdleTimeout is set
	longer   time.Duration // by how much that of the hello was put off
}

// address is the device's, or that of the proxy which it comes through.
func (c *tlsConn) address() netip.Addr { return c.from(c.remote) }

// Replaced implements [liveness.Peer].
func (c *tlsConn) Replaced() {
	c.secure.gateway.twins.replaced(c.session.ID())
	c.secure.gateway.closer.add(c, "replaced: the device came back on another connection")
}

// Dismissed implements [liveness.Peer].
func (c *tlsConn) Dismissed() { c.secure.gateway.closer.add(c, whyDismissed) }

// Judged implements [liveness.Peer]: it is called once the verdict is committed.
func (c *tlsConn) Judged() { c.secure.gateway.closer.add(c, whySilence) }

// Committed implements [liveness.Peer].
func (c *tlsConn) Committed() {}

// where implements carrier.
func (c *tlsConn) where() *loop { return nil }

// finish implements carrier. It never waits for the device.
func (c *tlsConn) finish(e ending) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || e.spare && c.spares() || e.err != nil && c.greeted {
		return
	}
	c.over = true
	c.drop()
	if g := c.secure.gateway; !g.closing.Load() {
		g.counts.closedByGateway.Add(1)
	}
	if c.tls == nil { // nothing can be said
		_ = c.socket.Close()
		return
	}
	if out := c.goodbye(c.listener, nil, e.why, e.err); len(out) > 0 {
		_, _ = c.tls.Write(out)
	}
	_ = c.tls.Close() // with close_notify (RFC 8446, 6.1)
}

// greet shakes hands. The connection is served by another goroutine then, since this one's stack has become large.
func (c *tlsConn) greet() {
	if !c.meet() {
		c.closed()
		return
	}
	c.secure.serving.Go(func() {
		defer c.closed()
		defer c.recovered()
		c.serve()
	})
}

// meet does all that comes before the conversation, and says whether there is to be one.
func (c *tlsConn) meet() (met bool) {
	defer c.recovered()
	return c.lead() && c.shake()
}

// recovered is deferred. A panic would end the process; it ends the connection.
func (c *tlsConn) recovered() {
	if v := recover(); v != nil {
		c.secure.gateway.counts.panics.Add(1)
		c.secure.gateway.log.Error("a connection made the gateway panic; it is closed", "panic", v, "stack", string(debug.Stack()))
	}
}

// lead reads the PROXY header, if there is to be one, and the first record. It returns false if the connection is to be closed.
func (c *tlsConn) lead() bool {
	room := c.secure.leads.Get().(*[maxLead]byte)
	defer c.secure.leads.Put(room)
	for n := 0; ; {
		k, err := c.socket.pull(room[n:])
		if err != nil {
			return false
		}
		n += k
		if c.awaitsHeader() {
			header, refusal := c.unwrapped(room[:n])
			if refusal {
				return false
			}
			n = copy(room[:], room[header:n])
		}
		switch {
		case n == 0 || c.awaitsHeader():
		case room[0] != handshakeRecord:
			c.notTLS()
			return false
		case n == maxLead || n >= 5 && n >= 5+int(binary.BigEndian.Uint16(room[3:])):
			c.socket.lead = append([]byte(nil), room[:n]...) // room is for who waits
			return true
		}
	}
}

// unwrapped takes the PROXY header off input and returns its length. If refused, the connection is to be closed.
func (c *tlsConn) unwrapped(input []byte) (n int, refused bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.secure.gateway.unwrap(&c.talk, c.remote, input)
	return n, err != nil
}

// notTLS ends a connection that begins with something else. The devices' owner may be listening.
func (c *tlsConn) notTLS() {
	g := c.secure.gateway
	g.counts.broken.Add(1)
	g.counts.mistakes.Add(1)
	_, _ = c.socket.Write(c.listener.goodbye(nil, "", &codec.Error{Code: codec.NotSpoken, Text: "TLS is spoken here: connect with TLS 1.2 or later, or to another port"}))
}

// shake shakes hands, and says whether that was done.
func (c *tlsConn) shake() bool {
	s := &c.socket
	s.shaking = true
	s.takePlace()
	defer s.leavePlace()
	if s.closed.Load() { // its deadline has come first
		return false
	}
	if s.left() { // nobody would have the answer
		c.secure.failed(c, io.EOF)
		return false
	}
	tc := tls.Server(s, c.listener.TLS)
	if err := tc.Handshake(); err != nil { //nolint:noctx // it ends with the socket, which the deadline closes
		c.secure.failed(c, err)
		return false
	}
	s.shaking = false // before others may write
	g, state := c.secure.gateway, tc.ConnectionState()
	g.counts.handshakes.Add(1)
	if state.DidResume {
		g.counts.resumed.Add(1)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return false
	}
	c.tls = tc
	if len(state.VerifiedChains) > 0 {
		name := nameOf(state.VerifiedChains[0][0])
		if name == "" {
			c.nameless()
			return false
		}
		c.certify(name)
	}
	return true
}

// nameless refuses who shows a certificate that is good, but does not say which device it is: he could say that he is any.
func (c *tlsConn) nameless() {
	g := c.secure.gateway
	g.counts.unauthorized.Add(1)
	g.tell(refusal{address: c.address(), protocol: c.listener.names(), reason: noName})
	err := &codec.Error{Code: codec.Unauthorized, Text: "your certificate names no device; it must have a common name, a DNS name or a URI"}
	if out := c.listener.goodbye(nil, "", err); len(out) > 0 {
		_, _ = c.tls.Write(out)
	}
}

// certify notes the name that a certificate has proved.
func (t *talk) certify(name string) {
	if t.details == nil {
		t.details = &details{}
	}
	t.details.name = name
}

// serve serves the conversation to its end. It waits with as little on its stack as can be.
func (c *tlsConn) serve() {
	for c.handle() {
		if err := c.socket.fill(); err != nil {
			return
		}
	}
}

// handle handles what came in, and writes the answers together. It returns false if that was the end.
func (c *tlsConn) handle() bool {
	d := c.secure.desk(c)
	defer c.secure.putBack(d)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return false
	}
	greeted := c.greeted
	end := c.read(d)
	if c.greeted {
		c.rest(!greeted)
	}
	if len(d.out) > 0 {
		if _, err := c.tls.Write(d.out); err != nil {
			return false
		}
	}
	return !end || c.endsLater()
}

// settled implements holder. It never waits for the device.
func (c *tlsConn) settled(a *answer, committed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a.settle(committed)
	if c.over {
		return
	}
	out, end := c.letGo(nil)
	if len(out) > 0 {
		_, _ = c.tls.Write(out)
	}
	if end {
		c.over = true
		_ = c.tls.Close()
	}
}

// read takes all out of tls.Conn that it has, and returns whether that was the end.
func (c *tlsConn) read(d *tlsDesk) (end bool) {
	input := append(d.input[:0], c.part...)
	for !end {
		if len(input) == cap(input) {
			input = append(make([]byte, 0, 2*cap(input)), input...)
		}
		n, err := c.tls.Read(input[len(input):cap(input)])
		input = input[:len(input)+n]
		if n > 0 {
			var rest []byte
			rest, end = c.hear(&d.desk, input)
			input = input[:copy(input, rest)]
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		end = end || err != nil
	}
	d.input = input
	if c.part = append(c.part[:0], input...); len(c.part) == 0 {
		c.part = nil // most have none
	}
	return end
}

// rest sets the deadline of the next input, if there is one.
func (c *tlsConn) rest(first bool) {
	g := c.secure.gateway
	switch {
	case first:
		c.socket.settle()
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

// tooLate is called when the time to say hello is over. What the gateway itself took of it does not count.
func (c *tlsConn) tooLate() {
	g := c.secure.gateway
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || c.greeted || c.socket.debt == nil {
		return
	}
	if more := c.secure.arrears.owed(c.socket.debt, c.secure.source.Time(time.Now())) - c.longer; more >= owedIn {
		c.longer += more
		c.deadline, _ = g.timers.AfterFunc(more, c.tooLate)
		return
	}
	g.counts.handshakeTimeouts.Add(1)
	g.closer.addError(c, noHello(g.config.HandshakeTimeout))
}

// closed ends what the connection held. The device's silence, if it is one, begins here.
func (c *tlsConn) closed() {
	g := c.secure.gateway
	defer c.socket.land()
	c.mu.Lock()
	defer c.mu.Unlock()
	g.timers.Cancel(c.deadline)
	if !g.closing.Load() {
		c.ended(c.secure.source.Time(time.Now()))
	}
	if !c.over && c.tls != nil {
		_ = c.tls.Close()
	}
	c.over = true
	_ = c.socket.Close()
	c.socket.settle()
	g.left(&c.talk, c.address())
	c.secure.forget(c)
}

// receive implements receiver.
func (c *tlsConn) receive(_ context.Context, l *letter) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || c.tls == nil {
		return ErrNotConnected
	}
	out, err := l.write(nil, c, &c.talk, c.listener)
	if err != nil {
		return err
	}
	if unread := c.socket.waiting() + c.heldSize(); unread+len(out) > c.secure.gateway.config.MaxOutbound {
		return fmt.Errorf("%w: %d bytes wait for it", ErrSlowReader, unread)
	}
	if h := c.held(); h != nil {
		h.behind(out)
		return nil
	}
	if _, err := c.tls.Write(out); err != nil {
		return fmt.Errorf("%w: the connection ended", ErrNotConnected)
	}
	return nil
}

// unsent implements receiver.
func (c *tlsConn) unsent() (n int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.socket.waiting() + c.heldSize(), !c.socket.closed.Load()
}
