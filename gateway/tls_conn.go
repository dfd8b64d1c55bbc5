package gateway

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/liveness"
)

const (
	// maxLead is how much of a connection is read before its handshake begins: a PROXY header, and
	// the first record. A longer record does no harm, but may keep the listening clock waiting
	// while its handshake waits for its turn.
	maxLead = 4 << 10
	// smallInput is how much is read at once of a connection that waits, and roomyInput the size of
	// the buffer for what is decrypted.
	smallInput = 512
	roomyInput = 4 << 10
	// handshakeRecord is the type of the first record of a TLS connection (RFC 8446, 5.1).
	handshakeRecord = 22
)

// maxRoom is how long a buffer may become that is used again.
const maxRoom = 64 << 10

// tlsConn is a connection over TLS. The lock guards the conversation and the fields below it,
// between the goroutine that serves the connection and those that write to it or close it.
type tlsConn struct {
	connection

	server *tlsServer
	other  netip.Addr // the other end: the device, or the proxy which it comes through
	socket tlsSocket

	mu     sync.Mutex    // guards the fields below, the connection's, and socket.debt
	tls    *tls.Conn     // nil until the handshake is done
	over   bool          // nothing is said any more
	part   []byte        // of a message
	more   bool          // is in part, to be handled after a pause
	longer time.Duration // by how much the deadline of the hello was put off
}

// where implements link.
func (c *tlsConn) where() *loop { return nil }

// lock implements link.
func (c *tlsConn) lock() { c.mu.Lock() }

// unlock implements link.
func (c *tlsConn) unlock() { c.mu.Unlock() }

// remote implements link.
func (c *tlsConn) remote() netip.Addr { return c.other }

// verify implements link.
func (c *tlsConn) verify() error {
	if v := c.listener.tlsConfig().VerifyConnection; v != nil {
		return v(c.tls.ConnectionState())
	}
	return nil
}

// left implements link.
func (c *tlsConn) left() (time.Duration, bool) { return c.socket.left() }

// silent implements link.
func (c *tlsConn) silent() bool { return c.socket.theirTurn.Load() && c.socket.unread() == 0 }

// isOver implements link.
func (c *tlsConn) isOver() bool { return c.over || c.socket.closed.Load() }

// buffered implements link.
func (c *tlsConn) buffered() int { return c.socket.waiting() }

// room implements link.
func (c *tlsConn) room() []byte { return nil }

// write implements link. It never waits for the device.
func (c *tlsConn) write(out []byte) bool {
	if len(out) == 0 {
		return true
	}
	_, err := c.tls.Write(out)
	return err == nil
}

// hangUp implements link. It never waits for the device.
func (c *tlsConn) hangUp(last []byte) {
	c.over = true
	if c.awaitsReply() { // who serves the connection need not wait
		c.answer(c.details.pending, judgement{err: liveness.ErrReplaced})
	}
	if c.tls == nil { // nothing can be said
		_ = c.socket.Close()
		return
	}
	c.write(last)
	_ = c.tls.Close() // with close_notify (RFC 8446, 6.1)
}

// answer implements link. The first answer counts.
func (c *tlsConn) answer(a *pendingReply, j judgement) {
	select {
	case a.ready <- j:
	default:
	}
}

// waitsFor returns of what the judge was asked, nil if it was not.
func (c *tlsConn) waitsFor() *pendingReply {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.awaitsReply() {
		return nil
	}
	return c.details.pending
}

// emptied is called when the kernel has taken all that had to wait.
func (c *tlsConn) emptied() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drained()
}

// linger implements link. Nothing can be said after the end.
func (c *tlsConn) linger([]byte, bool) {}

// greet does the handshake. Then another goroutine serves the connection, since the stack of this
// one has become large.
func (c *tlsConn) greet() {
	if !c.meet() {
		c.closed()
		return
	}
	c.server.serving.Go(func() {
		defer c.closed()
		defer c.recovered()
		c.serve()
	})
}

// meet does all that comes before the conversation, and reports whether there is to be one.
func (c *tlsConn) meet() (met bool) {
	defer c.recovered()
	return c.lead() && c.shake()
}

// recovered is deferred. A panic would end the process, so it ends the connection.
func (c *tlsConn) recovered() {
	if v := recover(); v != nil {
		c.panicked(v)
	}
}

// lead reads the PROXY header, if there is to be one, and the first record. It returns false if the
// connection is to be closed.
func (c *tlsConn) lead() bool {
	room := c.server.leads.Get().(*[maxLead]byte)
	defer c.server.leads.Put(room)
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
			c.socket.lead, c.socket.shaken = append([]byte(nil), room[:n]...), n // room is for who waits
			return true
		}
	}
}

// unwrapped takes the PROXY header off input and returns its length. If refused, the connection is
// to be closed.
func (c *tlsConn) unwrapped(input []byte) (n int, refused bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.gateway.unwrap(&c.conversation, c.other, input)
	if err == nil && n > 0 {
		c.gateway.newcomers.back(&c.connection, c.known(), time.Now())
	}
	return n, err != nil
}

// notTLS refuses a connection that begins with something else, in plain text for whoever set up the
// device.
func (c *tlsConn) notTLS() {
	g := c.gateway
	g.counts.broken.Add(1)
	g.counts.mistakes.Add(1)
	_, _ = c.socket.Write(c.listener.goodbye(nil, "", &codec.Error{Code: codec.NotSpoken, Text: "this port speaks TLS: connect with TLS 1.2 or later, or to another port"}))
}

// shake does the handshake, and reports whether it succeeded.
func (c *tlsConn) shake() bool {
	s := &c.socket
	s.shaking = true
	s.takePlace()
	defer s.leavePlace()
	if s.closed.Load() { // its deadline has come first
		return false
	}
	if _, left := s.left(); left { // nobody would have the answer
		c.server.failed(c, io.EOF)
		return false
	}
	tc := tls.Server(s, c.listener.TLS)
	if err := tc.Handshake(); err != nil { //nolint:noctx // it ends with the socket, which the deadline closes
		c.server.failed(c, err)
		return false
	}
	s.shaking = false // before others may write
	g, state := c.gateway, tc.ConnectionState()
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
		name, err := c.listener.Identity.of(state.VerifiedChains[0][0])
		if err != nil {
			c.nameless(err)
			return false
		}
		c.certify(name)
	}
	return true
}

// nameless refuses a client whose certificate is good, but names no device: the client could claim
// to be any.
func (c *tlsConn) nameless(why error) {
	g := c.gateway
	g.counts.unauthorized.Add(1)
	g.tell(refusal{address: c.address(), protocol: c.listener.names(), reason: noName, why: why.Error()})
	err := &codec.Error{Code: codec.Unauthorized, Text: "your certificate names no device: " + why.Error()}
	if out := c.listener.goodbye(nil, "", err); len(out) > 0 {
		_, _ = c.tls.Write(out)
	}
}

// certify records the name that a certificate has proved.
func (t *conversation) certify(name string) {
	if t.details == nil {
		t.details = &details{}
	}
	t.details.name = name
}

// serve serves the conversation to its end. It waits with as little on its stack as possible.
func (c *tlsConn) serve() {
	for c.handle() {
		if a := c.waitsFor(); a != nil {
			if !a.admits { // what a device has said that is not admitted yet is not handled
				c.socket.land()
			}
			a.judgement, a.answered = <-a.ready, true // only this goroutine reads them
			continue
		}
		if c.more { // only this goroutine writes it
			c.socket.land()
			<-time.After(intakeStep)
			continue
		}
		if err := c.socket.fill(); err != nil {
			return
		}
	}
}

// handle handles what came in, and writes the answers together. It returns false if that was the
// end.
func (c *tlsConn) handle() bool {
	x := c.server.exchange(c)
	defer c.server.putBack(x)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return false
	}
	established := c.established
	end := c.read(x)
	if c.established {
		c.heard(!established)
		c.socket.settle()
	}
	return c.deliver(x.out) && (!end || c.endsLater())
}

// read takes all that tls.Conn has, and reports whether that was the end.
func (c *tlsConn) read(x *tlsExchange) (end bool) {
	input := append(x.input[:0], c.part...)
	if c.more = false; len(input) > 0 || c.awaitsReply() { // it may be a whole message that had to wait
		input, end = c.takeInput(x, input)
	}
	for !end && !c.more && !c.awaitsHello() {
		if len(input) == cap(input) {
			input = append(make([]byte, 0, 2*cap(input)), input...)
		}
		n, err := c.tls.Read(input[len(input):cap(input)])
		input = input[:len(input)+n]
		if n > 0 {
			input, end = c.takeInput(x, input)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		end = end || err != nil
	}
	x.input = input
	if c.part = append(c.part[:0], input...); len(c.part) == 0 {
		c.part = nil // most have none
	}
	return end
}

// takeInput handles input, and returns the rest, in the same place, and whether that was the end.
func (c *tlsConn) takeInput(x *tlsExchange, input []byte) (rest []byte, end bool) {
	used, end, more := c.listen(&x.exchange, input)
	c.more = more
	return input[:copy(input, input[used:])], end
}

// tooLate is called when the time to say hello is over. The time that the gateway itself took does
// not count.
func (c *tlsConn) tooLate() {
	g := c.gateway
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || c.established || c.socket.debt == nil {
		return
	}
	if more := c.server.arrears.owed(c.socket.debt, c.server.source.Time(time.Now())) - c.longer; more >= owedIn {
		c.longer += more
		c.deadline, _ = g.timers.AfterFunc(more, c.tooLate)
		return
	}
	g.closeLate(&c.connection)
}

// closed ends what the connection held.
func (c *tlsConn) closed() {
	defer c.socket.land()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended()
	if !c.over && c.tls != nil {
		_ = c.tls.Close()
	}
	c.over = true
	_ = c.socket.Close()
	c.socket.settle()
	c.gateway.left(&c.conversation, c.address())
	c.server.forget(c)
}
