package testmqtt

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"
)

// Simulated is a broker of MQTT 3.1.1 in memory, for a bubble of testing/synctest: it can be killed and stopped as a [Server] can, and is
// reached by way of a [Network]. It knows clean sessions, QoS 0 and 1, retained messages and last wills.
type Simulated struct {
	// Closes reports whether the broker closes the connection for a filter, and Refuses whether it refuses one. Set them before a client
	// connects; nil is for none.
	Closes, Refuses func(filter string) bool

	serving sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	goesOn   *sync.Cond
	down     bool
	stopped  bool
	sessions map[string]*session // by client identifier
	open     map[*session]bool
	retained map[string]*packets.PublishPacket
}

// way is how long a packet takes to a simulated broker. Without it, what an answer is waited for would happen at one instant for ever.
const way = 100 * time.Microsecond

// session is a connection of a client.
type session struct {
	net.Conn

	id      string
	will    *packets.PublishPacket // nil: none
	filters map[string]byte
	number  uint16
}

// NewSimulated returns a broker that runs until End.
func NewSimulated() *Simulated {
	s := &Simulated{sessions: map[string]*session{}, open: map[*session]bool{}, retained: map[string]*packets.PublishPacket{}}
	s.goesOn = sync.NewCond(&s.mu)
	return s
}

// End ends the broker for good.
func (s *Simulated) End() {
	s.Cont()
	s.Kill()
	s.serving.Wait()
}

// Kill ends all connections without a last will, and forgets what was retained.
func (s *Simulated) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = true
	for c := range s.open {
		_ = c.Close()
	}
	clear(s.open)
	clear(s.sessions)
	clear(s.retained)
}

// Restart starts a broker that was killed.
func (s *Simulated) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = false
}

// Stop stops the broker as SIGSTOP does: connections are made, and nothing is read.
func (s *Simulated) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
}

// Cont lets it go on.
func (s *Simulated) Cont() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = false
	s.goesOn.Broadcast()
}

// Serve serves the connections of a listener until that is closed.
func (s *Simulated) Serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		if !s.accept(c) {
			_ = c.Close()
		}
	}
}

// accept serves a new connection, unless the broker is down.
func (s *Simulated) accept(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return false
	}
	one := &session{Conn: c, filters: map[string]byte{}}
	s.open[one] = true
	s.serving.Go(func() { s.serve(one) })
	return true
}

// serve handles what a client sends.
func (s *Simulated) serve(one *session) {
	in := bufio.NewReader(one)
	for {
		p, err := packets.ReadPacket(in)
		<-time.After(way)
		s.mu.Lock()
		for s.stopped {
			s.goesOn.Wait()
		}
		over := err != nil || !s.open[one] || !s.handleLocked(one, p)
		if over {
			s.endLocked(one)
		}
		s.mu.Unlock()
		if over {
			return
		}
	}
}

// endLocked ends a connection, whose last will is published if there is still one.
func (s *Simulated) endLocked(one *session) {
	_ = one.Close()
	if !s.open[one] {
		return
	}
	delete(s.open, one)
	if s.sessions[one.id] == one {
		delete(s.sessions, one.id)
	}
	if one.will != nil {
		s.publishLocked(one.will)
	}
}

// handleLocked handles a packet. It reports whether the connection goes on.
func (s *Simulated) handleLocked(one *session, p packets.ControlPacket) bool {
	switch p := p.(type) {
	case *packets.ConnectPacket:
		if p.WillFlag {
			one.will = message(p.WillTopic, p.WillMessage, p.WillQos, p.WillRetain)
		}
		if before := s.sessions[p.ClientIdentifier]; before != nil {
			s.endLocked(before)
		}
		one.id = p.ClientIdentifier
		s.sessions[one.id] = one
		_ = packets.NewControlPacket(packets.Connack).Write(one)
	case *packets.SubscribePacket:
		return s.subscribeLocked(one, p)
	case *packets.UnsubscribePacket:
		for _, filter := range p.Topics {
			delete(one.filters, filter)
		}
		answer := packets.NewControlPacket(packets.Unsuback).(*packets.UnsubackPacket)
		answer.MessageID = p.MessageID
		_ = answer.Write(one)
	case *packets.PublishPacket:
		if p.Qos > 0 {
			answer := packets.NewControlPacket(packets.Puback).(*packets.PubackPacket)
			answer.MessageID = p.MessageID
			_ = answer.Write(one)
		}
		s.publishLocked(p)
	case *packets.PingreqPacket:
		_ = packets.NewControlPacket(packets.Pingresp).Write(one)
	case *packets.DisconnectPacket:
		one.will = nil
		return false
	}
	return true
}

// subscribeLocked handles a SUBSCRIBE. It reports whether the connection goes on.
func (s *Simulated) subscribeLocked(one *session, p *packets.SubscribePacket) bool {
	if s.Closes != nil && slices.ContainsFunc(p.Topics, s.Closes) {
		return false
	}
	answer := packets.NewControlPacket(packets.Suback).(*packets.SubackPacket)
	answer.MessageID, answer.ReturnCodes = p.MessageID, slices.Clone(p.Qoss)
	for i, filter := range p.Topics {
		if s.Refuses != nil && s.Refuses(filter) {
			answer.ReturnCodes[i] = 0x80
		}
	}
	_ = answer.Write(one)
	for i, filter := range p.Topics {
		if answer.ReturnCodes[i] == 0x80 {
			continue
		}
		one.filters[filter] = p.Qoss[i]
		for topic, m := range s.retained {
			if fits(filter, topic) {
				one.deliver(m, p.Qoss[i], true)
			}
		}
	}
	return true
}

func message(topic string, payload []byte, qos byte, retain bool) *packets.PublishPacket {
	m := packets.NewControlPacket(packets.Publish).(*packets.PublishPacket)
	m.TopicName, m.Payload, m.Qos, m.Retain = topic, payload, qos, retain
	return m
}

func (s *Simulated) publishLocked(m *packets.PublishPacket) {
	switch {
	case m.Retain && len(m.Payload) == 0:
		delete(s.retained, m.TopicName)
	case m.Retain:
		s.retained[m.TopicName] = message(m.TopicName, m.Payload, m.Qos, true)
	}
	for _, one := range s.sessions {
		best := -1
		for filter, qos := range one.filters {
			if fits(filter, m.TopicName) {
				best = max(best, int(qos))
			}
		}
		if best >= 0 {
			one.deliver(m, byte(best), false)
		}
	}
}

func (c *session) deliver(m *packets.PublishPacket, qos byte, retained bool) {
	out := message(m.TopicName, m.Payload, min(qos, m.Qos), retained)
	if out.Qos > 0 {
		c.number = max(c.number+1, 1)
		out.MessageID = c.number
	}
	_ = out.Write(c)
}

// fits reports whether a topic matches a filter.
func fits(filter, topic string) bool {
	have := strings.Split(topic, "/")
	for i, level := range strings.Split(filter, "/") {
		switch {
		case level == "#":
			return true
		case i == len(have) || level != "+" && level != have[i]:
			return false
		case i == len(have)-1:
			rest := strings.Split(filter, "/")[i+1:]
			return len(rest) == 0 || rest[0] == "#"
		}
	}
	return false
}

// Network is a network in memory between clients and a [Simulated] broker, which can fail as a [Link] does.
type Network struct {
	broker *Simulated

	mu     sync.Mutex // guards the fields below
	broken bool
	modes  [2]mode // toward the broker, and from it
	conns  []*simConn
}

// mode is what a direction of a network does with what is sent.
type mode uint8

const (
	passes mode = iota
	holds       // until it passes again
	drops
)

// Network returns a network of its own to the broker.
func (s *Simulated) Network() *Network { return &Network{broker: s} }

// URL is what clients connect to, see [Network.Dial].
func (n *Network) URL() string { return "tcp://127.0.0.1:1883" }

// Dial connects to the broker.
func (n *Network) Dial(context.Context, string, string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	up, down := newStream(n.modes[0]), newStream(n.modes[1])
	here, there := &simConn{in: down, out: up}, &simConn{in: up, out: down}
	if n.broken || !n.broker.accept(there) {
		return nil, syscall.ECONNREFUSED
	}
	n.conns = append(n.conns, here)
	return here, nil
}

// Cut drops everything sent in a direction, on existing and new connections. Heal closes the existing ones.
func (n *Network) Cut(d Direction) { n.set(d, drops) }

// Stall holds back what is sent in a direction until Heal.
func (n *Network) Stall(d Direction) { n.set(d, holds) }

func (n *Network) set(d Direction, to mode) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, is := range []bool{d != Down, d != Up} {
		if !is {
			continue
		}
		n.modes[i] = to
		for _, c := range n.conns {
			[]*stream{c.out, c.in}[i].set(to)
		}
	}
}

// Break closes all connections and refuses new ones until Heal.
func (n *Network) Break() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.broken = true
	for _, c := range n.conns {
		c.hangUp()
	}
	n.conns = nil
}

// Heal ends Cut, Stall and Break.
func (n *Network) Heal() {
	n.mu.Lock()
	lossy := n.modes[0] == drops || n.modes[1] == drops
	n.broken = false
	if lossy {
		for _, c := range n.conns {
			c.hangUp()
		}
		n.conns = nil
	}
	n.mu.Unlock()
	n.set(Both, passes)
}

// stream is what one side of a connection has sent and the other has not read. It has room for everything.
type stream struct {
	mu      sync.Mutex // guards the fields below
	changed *sync.Cond
	bytes   []byte
	mode    mode
	ended   bool // by the side that writes
	shut    bool // by the side that reads
	until   time.Time
}

func newStream(m mode) *stream {
	s := &stream{mode: m}
	s.changed = sync.NewCond(&s.mu)
	return s
}

func (s *stream) do(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	s.changed.Broadcast()
}

func (s *stream) set(m mode) { s.do(func() { s.mode = m }) }

// simConn is one side of a connection. Writing never blocks.
type simConn struct {
	net.Conn // nil

	in, out *stream
}

// Read implements [net.Conn].
func (c *simConn) Read(b []byte) (int, error) {
	s := c.in
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.shut:
			return 0, net.ErrClosed
		case s.mode == passes && len(s.bytes) > 0:
			n := copy(b, s.bytes)
			s.bytes = s.bytes[n:]
			return n, nil
		case s.mode == passes && s.ended:
			return 0, io.EOF
		case !s.until.IsZero() && !time.Now().Before(s.until):
			return 0, os.ErrDeadlineExceeded
		}
		s.changed.Wait()
	}
}

// Write implements [net.Conn].
func (c *simConn) Write(b []byte) (int, error) {
	s := c.out
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.shut && s.mode == passes {
		return 0, net.ErrClosed
	}
	if s.mode != drops {
		s.bytes = append(s.bytes, b...)
		s.changed.Broadcast()
	}
	return len(b), nil
}

// Close implements [net.Conn].
func (c *simConn) Close() error {
	c.in.do(func() { c.in.shut = true })
	c.out.do(func() { c.out.ended = true })
	return nil
}

// hangUp ends the connection for both sides.
func (c *simConn) hangUp() {
	for _, s := range []*stream{c.in, c.out} {
		s.do(func() { s.ended, s.mode = true, passes })
	}
}

// SetDeadline implements [net.Conn]. Only reading may take long.
func (c *simConn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetWriteDeadline implements [net.Conn].
func (c *simConn) SetWriteDeadline(time.Time) error { return nil }

// SetReadDeadline implements [net.Conn].
func (c *simConn) SetReadDeadline(t time.Time) error {
	c.in.do(func() { c.in.until = t })
	if !t.IsZero() {
		time.AfterFunc(time.Until(t), func() { c.in.do(func() {}) })
	}
	return nil
}

// RemoteAddr implements [net.Conn].
func (c *simConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1883} }

// LocalAddr implements [net.Conn].
func (c *simConn) LocalAddr() net.Addr { return c.RemoteAddr() }
