package mqtt

import (
	"math"
	"slices"
	"time"
)

// routed says what became of a message.
type routed struct {
	found     bool   // there is a subscription,
	delivered bool   // it is in a queue,
	full      bool   // a queue was full
	commit    uint64 // what must be committed before it is acknowledged; 0: nothing
}

// routing is a message that is being passed on.
type routing struct {
	publication
	routed

	above *remote // that it goes to, too; nil if it goes to none
	found *matches
	next  int // of the subscriptions in found.plain
	now   time.Time
}

const (
	// maxCopies is how many sessions are gone through in one step: that takes about 0.1 ms.
	maxCopies = 256
	// maxUnderWay is how many subscriptions the messages may have found that are passed on in steps, 8
	// bytes each. While there are more, a message is passed on in one step.
	maxUnderWay = 4 << 20
)

// route passes a message on to all who want it, here and at other brokers. If it goes to an upstream
// broker, it is not known whether anybody does.
func (b *Broker) route(p *publication, now time.Time) routed {
	r := b.begin(p, now)
	b.step(&r, math.MaxInt)
	return r.routed
}

// begin passes a message on to the upstream broker, if it goes there, and finds out who wants it here.
func (b *Broker) begin(p *publication, now time.Time) routing {
	up, ok := b.above(p), true
	var number uint64
	switch {
	case p.retain:
		number, ok = b.keep(p, up)
	case up != nil:
		number, ok = up.link.Forward(p.message().outgoing())
	}
	r := b.find(p, up, now)
	r.routed = routed{found: up != nil, delivered: up != nil && ok, commit: number}
	return r
}

// find finds out who wants a message here.
func (b *Broker) find(p *publication, up *remote, now time.Time) routing {
	r := routing{publication: *p, above: up, found: b.found.Get().(*matches), now: now}
	b.index.match(r.topic, r.found)
	r.found.group()
	return r
}

// pass passes a message on to all subscribers here.
func (b *Broker) pass(p *publication, now time.Time) {
	r := b.find(p, nil, now)
	b.step(&r, math.MaxInt)
}

// step passes a message on to up to so many sessions more, and reports whether those were all. The
// upstream broker, if it has the message, chooses the members of groups.
func (b *Broker) step(r *routing, most int) (done bool) {
	for ; r.next < len(r.found.plain); most-- {
		if most == 0 {
			return false
		}
		subs := r.found.plain[r.next:]
		n := first(subs)
		if d, ok := r.delivery(subs[:n]); ok {
			r.add(b.deliver(subs[0].session, d, toAll, r.now))
		}
		r.next += n
	}
	for _, s := range r.found.shares {
		if r.above != nil || b.upstream != nil && r.from == b.upstream.session {
			break
		}
		r.add(b.deliverShared(s, r.message(), r.qos, r.retain, r.now))
	}
	r.found.clear()
	b.found.Put(r.found)
	return true
}

// pass passes a message with QoS 0 on. If it is for many, [Conn.Continue] goes on with that.
func (c *Conn) pass(p *publication, now time.Time) {
	b := c.session.broker
	r := b.begin(p, now)
	most := maxCopies
	if b.underWay.Load() > maxUnderWay {
		most = math.MaxInt
	}
	if !b.step(&r, most) {
		b.underWay.Add(int64(len(r.found.plain)))
		c.more().routing = r.kept()
	}
}

// kept returns a routing that is independent of what came in.
func (r *routing) kept() *routing {
	k := *r
	k.message()
	k.topic, k.payload, k.properties = nil, nil, nil
	return &k
}

// Unfinished reports whether a message of the client's, with QoS 0, is not passed on to all yet who
// want it, or subscriptions of its are not made yet.
func (c *Conn) Unfinished() bool {
	return c.extra != nil && (c.extra.routing != nil || c.extra.subscribing != nil)
}

// Continue passes the message on to some more, or makes some more subscriptions, if there is something
// unfinished. It reports whether it still is.
func (c *Conn) Continue() (more bool) {
	if !c.Unfinished() {
		return false
	}
	if c.extra.subscribing != nil {
		return c.goOnSubscribing()
	}
	b, r := c.session.broker, c.extra.routing
	found := len(r.found.plain)
	if !b.step(r, maxCopies) {
		return true
	}
	b.underWay.Add(-int64(found))
	c.extra.routing = nil
	return false
}

// finish passes on to all what is unfinished.
func (c *Conn) finish() {
	for c.Continue() {
	}
}

// add adds what became of one copy.
func (r *routed) add(got outcome, commit uint64) {
	r.found = true
	r.delivered = r.delivered || got == taken
	r.full = r.full || got == full
	r.commit = max(r.commit, commit)
}

// delivery is one copy of a message, for one session.
type delivery struct {
	message *message
	detail  *detail
	qos     uint8
	retain  bool
}

// detail is what few copies have. It is not shared, and may be changed, if it has an order.
type detail struct {
	identifiers []uint32 // of the subscriptions
	group       *group   // of the shared subscription
	order       uint64   // of the record of the queue's entry; 0: there is none
	commit      uint64   // what must be committed before the copy, or its PUBREL, is sent (QoS 2)
}

// in returns the detail with a group.
func (d *detail) in(g *group) *detail {
	in := detail{group: g}
	if d != nil {
		in.identifiers = d.identifiers
	}
	return &in
}

// delivery returns the copy for a session with these subscriptions (MQTT 5, 3.3.4). ok is false if
// it gets none.
func (p *publication) delivery(subs []*subscription) (d delivery, ok bool) {
	joined := false // the detail is this copy's own
	for _, sub := range subs {
		if sub.noLocal && sub.session == p.from {
			continue
		}
		d.qos = max(d.qos, min(sub.qos, p.qos))
		d.retain = d.retain || sub.asPublished && p.retain
		switch {
		case !ok || d.detail == nil:
			d.detail = sub.detail
		case sub.detail != nil:
			if !joined {
				joined, d.detail = true, &detail{identifiers: slices.Clone(d.detail.identifiers)}
			}
			d.detail.identifiers = append(d.detail.identifiers, sub.detail.identifiers...)
		}
		ok = true
	}
	if ok {
		d.message = p.message()
	}
	return d, ok
}

// outcome is what became of a copy.
type outcome uint8

const (
	taken  outcome = iota
	full           // dropped: the queue is full
	absent         // not for a session in this state
)

// audience says which sessions a copy is for.
type audience uint8

const (
	toAll audience = iota
	toConnected
	toAway
)

// deliver puts a copy into the queue of a session. It returns what must be committed before the
// sender may be told.
func (b *Broker) deliver(s *session, d delivery, to audience, now time.Time) (outcome, uint64) {
	s.mu.Lock()
	got, commit, warn := s.takeLocked(d, to, now)
	s.mu.Unlock()
	if got == full && to == toAll {
		b.counts.dropped.Add(1)
	}
	if warn {
		b.config.Logger.Warn("a queue is full, messages are dropped", "client", s.id)
	}
	return got, commit
}

// warnLocked reports whether the log is to say now that the queue is full: once a minute.
func (s *session) warnLocked(now time.Time) bool {
	if seconds := uint32(now.Unix()); seconds-s.warned >= 60 {
		s.warned = seconds
		return true
	}
	return false
}

func (s *session) takeLocked(d delivery, to audience, now time.Time) (got outcome, commit uint64, warn bool) {
	if r := s.remoteLocked(); r != nil {
		return r.deliver(d, to), 0, false
	}
	away := s.conn == nil
	switch {
	case s.gone, to == toConnected && away, to == toAway && !away, away && d.qos == 0:
		got = absent
	case !s.fitsLocked(&d):
		got, warn = full, to == toAll && s.warnLocked(now)
	}
	if got != taken {
		if to == toAll { // else it was another's as well, of the same group
			s.missLocked()
		}
		return got, 0, warn
	}
	commit = s.pushLocked(d)
	s.wakeLocked()
	return taken, commit, false
}

// deliverShared passes a message on to one member of a group: the next that is connected and has
// room, else the next that is away and has.
func (b *Broker) deliverShared(s share, m *message, qos uint8, retain bool, now time.Time) (outcome, uint64) {
	turn, n := int(s.group.next.Add(1)), len(s.members)
	got := absent
	for _, to := range []audience{toConnected, toAway} {
		for i := range n {
			sub := s.members[(turn+i)%n]
			d := delivery{message: m, detail: sub.detail, qos: min(sub.qos, qos), retain: sub.asPublished && retain}
			switch g, commit := b.deliver(sub.session, d, to, now); g {
			case taken:
				return taken, commit
			case full:
				got = full
			case absent:
			}
		}
	}
	if got == full {
		b.counts.dropped.Add(1)
	}
	return got, 0
}
