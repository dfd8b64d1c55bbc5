package mqtt

import (
	"strings"
	"time"

	"github.com/holter-iot/holter/mqtt/packet"
)

// pump is one run of [Conn.Pump].
type pump struct {
	conn  *Conn
	out   []byte
	limit int // no packet begins here or behind
	now   time.Time
	sent  uint64
	left  bool // something is left because of the limit
}

// Pump appends what waits for the client and may be sent: answers, and messages in the order in
// which they came. It begins no packet once room bytes are appended, so that it may append room and
// the largest packet, less a byte. It does nothing if room is not positive. more says that there is
// something left which would have been appended but for room. Nothing is appended for a client that has to
// log in again.
func (c *Conn) Pump(dst []byte, room int, now time.Time) (out []byte, more bool) {
	s := c.session
	s.mu.Lock()
	defer s.mu.Unlock()
	c.woken = false
	if s.conn != c || !c.grant.Valid() {
		return dst, false
	}
	p := pump{conn: c, out: dst, limit: len(dst) + room, now: now}
	p.acks()
	done := p.resend()
	p.queued(!done)
	if done {
		p.retained()
	}
	s.tidyLocked()
	if p.sent > 0 {
		s.broker.counts.sent.Add(p.sent)
	}
	return p.out, p.left
}

// full reports whether there is no room left, and remembers that something needs it.
func (p *pump) full() bool {
	p.left = p.left || len(p.out) >= p.limit
	return p.left
}

// acks appends the answers that need not wait any longer.
func (p *pump) acks() {
	c := p.conn
	if c.extra == nil {
		return
	}
	waiting := c.extra.acks
	for len(waiting) > 0 && !c.session.broker.awaits(c, waiting[0].commit) && !p.full() {
		p.out = append(p.out, waiting[0].packet...)
		c.free(waiting[0].frees)
		waiting = waiting[1:]
	}
	if c.extra.acks = waiting; len(waiting) == 0 {
		c.extra.acks = nil
	}
}

// resend sends what an earlier connection has left unacknowledged (MQTT 5, 4.4). It reports whether
// all of that is sent.
func (p *pump) resend() bool {
	c, s := p.conn, p.conn.session
	for s.queue != nil && int(c.resent) < len(s.queue.inflight) {
		if p.full() {
			return false
		}
		e := &s.queue.inflight[c.resent]
		switch {
		case p.awaits(e):
			return false
		case e.state == released:
			p.out = packet.AppendAck(p.out, c.version, packet.TypePubrel, e.id, packet.Success)
			c.resent++
		case c.unacknowledged >= c.quota:
			return false
		case p.send(e, true):
			e.counted = true
			c.unacknowledged++
			c.resent++
		default:
			c.resent++ // unfly counts it down
			s.unflyLocked(int(c.resent) - 1)
		}
	}
	return true
}

// queued sends what waits in the queue. held says that messages with QoS 1 and 2 have to wait.
func (p *pump) queued(held bool) {
	c, s := p.conn, p.conn.session
	for q := s.queue; q != nil; {
		if e := q.qos12.peek(); e != nil {
			held = held || c.unacknowledged >= c.quota || p.awaits(e)
		}
		from := q.next(held)
		if from == nil || p.full() {
			return
		}
		goes := !p.expired(from.peek()) && p.send(from.peek(), false)
		e := from.pop()
		if e.qos == 0 || !goes {
			s.dropLocked(&e)
			continue
		}
		e.state, e.counted = sent, true
		q.inflight = append(q.inflight, e)
		s.storeSentLocked(&e)
		c.unacknowledged++
		c.resent++
	}
}

// awaits reports whether an entry has to wait for a commit: with QoS 2, so that it does not become
// another message when the process is killed.
func (p *pump) awaits(e *entry) bool {
	return e.qos == 2 && e.detail != nil && p.conn.session.broker.awaits(p.conn, e.detail.commit)
}

// expired reports whether a message has expired, and counts it.
func (p *pump) expired(e *entry) bool {
	if !e.message.expired(p.now) {
		return false
	}
	p.conn.session.broker.counts.expired.Add(1)
	return true
}

// send appends a message. It returns false if that is larger than the client takes (MQTT 5,
// 3.1.2.11.4).
func (p *pump) send(e *entry, again bool) bool {
	c, m := p.conn, e.message
	o := packet.Out{Topic: m.topic, Payload: m.payload, ID: e.id, QoS: e.qos, Retain: e.retain, Dup: again}
	if c.version >= packet.V5 {
		if o.Properties = m.properties; e.detail != nil {
			o.Identifiers = e.detail.identifiers
		}
		if m.expires != 0 {
			o.HasExpiry, o.Expiry = true, secondsLeft(m.expires, p.now)
		}
		c.alias(&o)
	}
	if c.maxPacket > 0 && o.Size(c.version) > int(c.maxPacket) {
		c.session.broker.counts.tooLarge.Add(1)
		return false
	}
	if o.Alias != 0 && o.Topic != "" {
		c.learn(m.topic, o.Alias)
	}
	p.out = o.Append(p.out, c.version)
	p.sent++
	return true
}

// secondsLeft returns how many seconds a message has left, at least one.
func secondsLeft(expires int64, now time.Time) uint32 {
	left := time.Duration(expires - now.UnixNano())
	return uint32(max(1, left.Round(time.Second)/time.Second))
}

// alias gives a message the alias of its topic, or a new one while there are some left.
func (c *Conn) alias(o *packet.Out) {
	if c.aliases == 0 {
		return
	}
	x := c.more()
	if alias := x.outgoing[o.Topic]; alias != 0 {
		o.Topic, o.Alias = "", alias
	} else if len(x.outgoing) < int(c.aliases) {
		o.Alias = uint16(len(x.outgoing) + 1)
	}
}

// learn remembers an alias that was sent.
func (c *Conn) learn(topic string, alias uint16) {
	if c.extra.outgoing == nil {
		c.extra.outgoing = make(map[string]uint16)
	}
	c.extra.outgoing[strings.Clone(topic)] = alias
}
