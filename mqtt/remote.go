package mqtt

import (
	"errors"
	"maps"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/mqtt/packet"
)

// MessageKind says what a [Message] is. The zero MessageKind is one that was published.
type MessageKind uint8

// The kinds.
const (
	Published  MessageKind = iota
	Copied                 // it is what is retained for its topic, and the other broker may have it
	CopyBegins             // all that is retained follows, as Copied, among others
	CopyEnds               // all of it was sent
	Confirmed              // a message of the other broker's that was to be retained has come; Kept says whether it is
)

// Message is a message on its way from one broker to another. Nothing that it leads to is changed.
type Message struct {
	Kind                MessageKind
	Number              uint64 // given by the sender's [Link]; of a Confirmed the one that is confirmed
	Topic               string
	Payload, Properties []byte // properties as subscribers get them, but for the expiry
	Expires             time.Time
	QoS                 uint8
	Retain              bool   // as it was published
	Kept                bool   // it is retained for its topic; without a payload nothing is any more
	Share               string // the filter, with $share/, of the group that it is for; "": not for a group
}

// Link takes what is for another broker. Its methods are called by any goroutine, with locks of the
// broker held: they must not block, and call nothing of the broker.
type Link interface {
	// Forward takes a message, and returns the number that it gives it; these rise. ok is false if it
	// is dropped: there is no room, or nobody to take it. A link to an upstream broker drops only what
	// has QoS 0.
	Forward(m Message) (number uint64, ok bool)
	// Full reports whether there is no room. Only that of a link to an upstream broker is called, as is
	// Want.
	Full() bool
	// Want is told that clients here want what matches a filter, or that none does any more.
	Want(filter string, wanted bool)
	// Wake is called after [Remote.Awaits] has returned true: it may return something else now.
	Wake()
}

// Remote is another broker that messages are exchanged with. One goroutine at a time calls the methods
// of one.
type Remote struct {
	broker  *Broker
	link    Link
	session *session // its subscriptions are what the other broker wants; it is in no index of sessions

	filters map[string]*subscription // of session
	before  map[string]*subscription // those that were announced before the latest begin

	// Of an upstream broker.
	taken waitlist
	alone atomic.Bool // nothing is forwarded
}

// linkWire is a link as the wire of a connection.
type linkWire struct{ link Link }

func (w linkWire) Wake()           { w.link.Wake() }
func (linkWire) Close(packet.Code) {}

func (b *Broker) newRemote(name string, link Link) *Remote {
	r := &Remote{broker: b, link: link, filters: make(map[string]*subscription)}
	r.session = &session{broker: b, id: name, number: b.numbers.Add(1)}
	r.session.conn = &Conn{session: r.session, wire: linkWire{link}, extra: &extra{remote: r}}
	return r
}

// errStore is returned by [Broker.Upstream] of a broker with a store.
var errStore = errors.New("mqtt: a broker with a store has no upstream broker")

// Upstream makes another broker the one that all messages of clients go to, and that decides what is
// retained, and which member of a group gets a message. Messages with QoS 1 and 2 are acknowledged once
// that broker has taken them, see [Remote.Taken]. It is called once, before any client connects.
func (b *Broker) Upstream(link Link) (*Remote, error) {
	if b.journal != nil {
		return nil, errStore
	}
	b.upstream = b.newRemote("upstream", link)
	b.retained.unconfirmed = make(map[string]uint64)
	b.index.changed = link.Want
	return b.upstream, nil
}

// Downstream adds a broker that has this one as its upstream broker, until [Remote.Leave] is called.
func (b *Broker) Downstream(name string, link Link) *Remote {
	r := b.newRemote(name, link)
	b.retained.mu.Lock()
	defer b.retained.mu.Unlock()
	b.retained.remotes = append(b.retained.remotes, r)
	return r
}

// Leave ends a downstream broker.
func (r *Remote) Leave() {
	x := &r.broker.retained
	x.mu.Lock()
	x.remove(r)
	x.mu.Unlock()
	r.BeginFilters()
	r.EndFilters()
}

// BeginFilters begins to announce all filters of a downstream broker; those before count until EndFilters.
func (r *Remote) BeginFilters() {
	if r.before == nil {
		r.before = make(map[string]*subscription)
	}
	maps.Copy(r.before, r.filters)
	clear(r.filters)
}

// EndFilters says that all filters are announced.
func (r *Remote) EndFilters() {
	for _, sub := range r.before {
		r.end(sub)
	}
	r.before = nil
}

// Want announces a filter of a downstream broker, with $share/ or without. What is none is ignored.
func (r *Remote) Want(filter string) {
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

// Unwant says that a downstream broker does not want a filter any more.
func (r *Remote) Unwant(filter string) {
	if sub := r.filters[filter]; sub != nil {
		delete(r.filters, filter)
		r.end(sub)
	}
}

func (r *Remote) end(sub *subscription) {
	r.broker.index.remove(sub)
	r.broker.remoteFilters.Add(-1)
}

// Filters calls f for each filter that clients have subscribed to. The caller may hold no lock that the
// link takes but in f.
func (r *Remote) Filters(f func(filter string)) { r.broker.index.filters(f) }

// Receive applies a message of the other broker. It returns what must be committed before the other one
// may be told that it was taken, see Awaits.
func (r *Remote) Receive(m *Message, now time.Time) (commit uint64) {
	switch m.Kind {
	case Confirmed:
		r.broker.confirmed(m)
	case CopyBegins:
		r.broker.retained.beginCopy()
	case CopyEnds:
		r.broker.endCopy()
	case Copied, Published:
		return r.publish(m, now)
	}
	return 0
}

// publish publishes a message of the other broker.
func (r *Remote) publish(m *Message, now time.Time) (commit uint64) {
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
	case m.Kind == Copied:
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

// Awaits reports whether something is not committed yet. If so, the link is woken when it may be.
func (r *Remote) Awaits(commit uint64) bool { return r.broker.awaits(r.session.conn, commit) }

// Full reports whether too much waits for the store: then nothing should be received.
func (r *Remote) Full() bool { return r.broker.journal.full() }

// Taken says that the upstream broker has taken all messages up to a number.
func (r *Remote) Taken(number uint64) { r.taken.reach(number) }

// Alone says that there is no upstream broker: nothing is forwarded, until Joined is called.
func (r *Remote) Alone() { r.alone.Store(true) }

// Joined says that there is an upstream broker, and that it has received all messages up to a number. It
// copies next what is retained. Clients may not publish to topics that begin with reserved; "": all are
// free.
func (r *Remote) Joined(received uint64, reserved string) {
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

// Reserved returns what the topics begin with under which only the program publishes; "" if there are none.
func (r *Remote) Reserved() string { return r.broker.config.Reserved }

// copyBytes is how much of what is retained is copied at once, but for the last message.
const copyBytes = 128 << 10

// Copy forwards some of what is retained, as Copied, beginning in slot from, which is 1 at first. It
// returns where to go on; 0 if all is copied.
func (r *Remote) Copy(from int) (next int) {
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
			out.Kind, out.Retain, out.Kept = Copied, true, true
			r.link.Forward(out)
			size += m.size()
		}
	}
	return 0
}

// outgoing returns a message as other brokers get it.
func (m *message) outgoing() Message {
	out := Message{Topic: m.topic, Payload: m.payload, Properties: m.properties, QoS: m.qos, Retain: m.retain}
	if m.expires != 0 {
		out.Expires = time.Unix(0, m.expires)
	}
	return out
}

// above returns the upstream broker that a message goes to; nil if it goes to none.
func (b *Broker) above(p *publication) *Remote {
	if up := b.upstream; up != nil && p.from != up.session && !up.alone.Load() {
		return up
	}
	return nil
}

// fullAbove reports whether the upstream broker takes nothing at the moment.
func (b *Broker) fullAbove() bool {
	return b.upstream != nil && !b.upstream.alone.Load() && b.upstream.link.Full()
}

// take forwards a copy to the other broker. What is retained was forwarded when it was kept.
func (r *Remote) take(d delivery, to audience) outcome {
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
