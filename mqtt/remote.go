package mqtt

import (
	"errors"
	"maps"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/internal/relay"
	"github.com/holter-iot/holter/mqtt/packet"
)

// remote is another broker that messages are exchanged with. One goroutine at a time calls the methods
// of one.
type remote struct {
	broker  *Broker
	link    relay.Link
	session *session // its subscriptions are what the other broker wants; it is in no index of sessions

	filters map[string]*subscription // of session
	before  map[string]*subscription // those that were announced before the latest begin

	// Of an upstream broker.
	taken waitlist
	alone atomic.Bool // nothing is forwarded
}

// linkWire is a link as the wire of a connection.
type linkWire struct{ link relay.Link }

func (w linkWire) Wake()           { w.link.Wake() }
func (linkWire) Close(packet.Code) {}

func (b *Broker) newRemote(name string, link relay.Link) *remote {
	r := &remote{broker: b, link: link, filters: make(map[string]*subscription)}
	r.session = &session{broker: b, id: name, number: b.numbers.Add(1)}
	r.session.conn = &Conn{session: r.session, wire: linkWire{link}, extra: &extra{remote: r}}
	return r
}

// errStore is returned by [Broker.Upstream] of a broker with a store.
var errStore = errors.New("mqtt: a broker with a store has no upstream broker")

// relaying is a broker as what connects it with others needs it.
type relaying struct{ *Broker }

// Relay returns what package internal/cluster/route needs to exchange messages with other brokers. It may change at
// any time.
func (b *Broker) Relay() relay.Broker { return relaying{b} }

// Upstream implements [relay.Broker].
func (b relaying) Upstream(link relay.Link) (relay.Remote, error) {
	if b.journal != nil {
		return nil, errStore
	}
	b.upstream = b.newRemote("upstream", link)
	b.retained.unconfirmed = make(map[string]uint64)
	b.index.changed = link.Want
	return b.upstream, nil
}

// Downstream implements [relay.Broker].
func (b relaying) Downstream(name string, link relay.Link) relay.Remote {
	r := b.newRemote(name, link)
	b.retained.mu.Lock()
	defer b.retained.mu.Unlock()
	b.retained.remotes = append(b.retained.remotes, r)
	return r
}

// Leave implements [relay.Remote].
func (r *remote) Leave() {
	x := &r.broker.retained
	x.mu.Lock()
	x.remove(r)
	x.mu.Unlock()
	r.BeginFilters()
	r.EndFilters()
}

// BeginFilters implements [relay.Remote].
func (r *remote) BeginFilters() {
	if r.before == nil {
		r.before = make(map[string]*subscription)
	}
	maps.Copy(r.before, r.filters)
	clear(r.filters)
}

// EndFilters implements [relay.Remote].
func (r *remote) EndFilters() {
	for _, sub := range r.before {
		r.end(sub)
	}
	r.before = nil
}

// Want implements [relay.Remote].
func (r *remote) Want(filter string) {
	switch sub := r.before[filter]; {
	case r.filters[filter] != nil:
		return
	case sub != nil:
		r.filters[filter] = sub
		delete(r.before, filter)
		return
	case !packet.ValidFilter([]byte(filter)) || !bounded(filter):
		return
	}
	sub := &subscription{session: r.session, filter: filter, qos: 2, noLocal: true, asPublished: true}
	r.filters[filter] = sub
	r.broker.index.put(sub, nil)
	r.broker.remoteFilters.Add(1)
}

// Unwant implements [relay.Remote].
func (r *remote) Unwant(filter string) {
	if sub := r.filters[filter]; sub != nil {
		delete(r.filters, filter)
		r.end(sub)
	}
}

func (r *remote) end(sub *subscription) {
	r.broker.index.remove(sub)
	r.broker.remoteFilters.Add(-1)
}

// Filters implements [relay.Remote].
func (r *remote) Filters(f func(filter string)) { r.broker.index.filters(f) }

// Receive implements [relay.Remote].
func (r *remote) Receive(m *relay.Message, now time.Time) (commit uint64) {
	switch m.Kind {
	case relay.Confirmed:
		r.broker.confirmed(m)
	case relay.CopyBegins:
		r.broker.retained.beginCopy()
	case relay.CopyEnds:
		r.broker.endCopy()
	case relay.Copied, relay.Published:
		return r.publish(m, now)
	}
	return 0
}

// publish publishes a message of the other broker.
func (r *remote) publish(m *relay.Message, now time.Time) (commit uint64) {
	b, up := r.broker, r == r.broker.upstream
	p := publication{
		from: r.session, topic: []byte(m.Topic), payload: m.Payload, properties: m.Properties, qos: min(m.QoS, 2), retain: m.Retain,
		number: m.Number, unkept: up && !m.Kept,
	}
	if !m.Expires.IsZero() {
		p.expires = m.Expires.UnixNano()
	}
	switch {
	case !packet.ValidTopic(p.topic) || !bounded(m.Topic) || !up && b.config.reserved(m.Topic):
		b.counts.denied.Add(1)
		return 0
	case m.Share != "":
		b.passShared(m.Share, &p, now)
		return 0
	case m.Kind == relay.Copied:
		if b.copied(&p) {
			b.pass(&p, now)
		}
		return 0
	}
	b.journal.hold()
	defer b.journal.unhold()
	return b.route(&p, now).commit
}

// passShared passes a message on to a member of a group, for which it was chosen elsewhere.
func (b *Broker) passShared(filter string, p *publication, now time.Time) {
	if g := b.index.groupOf(filter); len(g.members) > 0 {
		b.deliverShared(g, p.message(), p.qos, p.retain, now)
		return
	}
	b.counts.dropped.Add(1) // the last member has left meanwhile
}

// Awaits implements [relay.Remote].
func (r *remote) Awaits(commit uint64) bool { return r.broker.awaits(r.session.conn, commit) }

// Full implements [relay.Remote].
func (r *remote) Full() bool { return r.broker.journal.full() }

// Taken implements [relay.Remote].
func (r *remote) Taken(number uint64) { r.taken.reach(number) }

// Alone implements [relay.Remote].
func (r *remote) Alone() { r.alone.Store(true) }

// Joined implements [relay.Remote].
func (r *remote) Joined(received uint64, reserved string) {
	b := r.broker
	b.reservedAbove.Store(&reserved)
	x := &b.retained
	x.mu.Lock()
	defer x.mu.Unlock()
	received = max(received, r.taken.reached.Load())
	for topic, number := range x.unconfirmed {
		if number <= received {
			delete(x.unconfirmed, topic)
		}
	}
	r.alone.Store(false)
}

// Reserved implements [relay.Remote].
func (r *remote) Reserved() string { return r.broker.config.Reserved }

// copyBytes is how much of what is retained is copied at once, but for the last message.
const copyBytes = 128 << 10

// Copy implements [relay.Remote].
func (r *remote) Copy(from int) (next int) {
	x, now := &r.broker.retained, time.Now()
	x.mu.RLock()
	defer x.mu.RUnlock()
	size := 0
	for next = from; next < len(x.slots); next++ {
		if next-from >= chunk || size >= copyBytes {
			return next
		}
		if m := x.slots[next]; m != nil && !m.expired(now) {
			out := m.outgoing()
			out.Kind, out.Retain, out.Kept = relay.Copied, true, true
			r.link.Forward(out)
			size += m.size()
		}
	}
	return 0
}

// outgoing returns a message as other brokers get it.
func (m *message) outgoing() relay.Message {
	out := relay.Message{Topic: m.topic, Payload: m.payload, Properties: m.properties, QoS: m.qos, Retain: m.retain}
	if m.expires != 0 {
		out.Expires = time.Unix(0, m.expires)
	}
	return out
}

// above returns the upstream broker that a message goes to; nil if it goes to none.
func (b *Broker) above(p *publication) *remote {
	if up := b.upstream; up != nil && p.from != up.session && !up.alone.Load() {
		return up
	}
	return nil
}

// fullAbove reports whether the upstream broker takes nothing at the moment.
func (b *Broker) fullAbove() bool {
	return b.upstream != nil && !b.upstream.alone.Load() && b.upstream.link.Full()
}

// deliver forwards a copy to the other broker. What is retained was forwarded when it was kept.
func (r *remote) deliver(d delivery, to audience) outcome {
	m, shared := d.message, d.detail != nil && d.detail.group != nil
	switch {
	case m.retain && !shared:
		return taken
	case to == toAway:
		return absent
	}
	out := m.outgoing()
	out.QoS = d.qos
	if shared {
		out.Share = d.detail.group.filter
	}
	if _, ok := r.link.Forward(out); !ok {
		return absent
	}
	return taken
}
