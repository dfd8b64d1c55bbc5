package mqtt

import (
	"bytes"
	"slices"

	"github.com/holter-iot/holter/internal/relay"
)

// An upstream broker decides what is retained: its messages come in the order in which it has kept them,
// and those of clients here stand between. Such a one is kept here at once, and what comes of its topic
// before it is confirmed is older: it is passed on, but not kept.

// keepAbove forwards a message that is to be retained to the upstream broker. It returns the number that
// the sender waits for, and false if it cannot be retained.
func (b *Broker) keepAboveLocked(p *publication, up *remote) (commit uint64, ok bool) {
	m := p.message()
	number, ok := up.link.Forward(m.outgoing())
	if !ok {
		b.counts.retainedRefused.Add(1)
		return 0, false
	}
	b.retained.unconfirmed[m.topic] = number
	return number, true
}

// hasUnconfirmedLocked reports whether a message of a topic was forwarded and is not confirmed.
func (r *retained) hasUnconfirmedLocked(topic []byte) bool {
	_, has := r.unconfirmed[string(topic)]
	return has
}

// keepBelowLocked forwards a message that is to be retained to the downstream brokers; kept reports whether
// it is.
func (b *Broker) keepBelowLocked(p *publication, kept bool) {
	for _, to := range b.retained.remotes {
		out := p.message().outgoing()
		if out.Kept = kept; p.from == to.session {
			out = relay.Message{Kind: relay.Confirmed, Number: p.number, Topic: out.Topic, Kept: kept}
		}
		to.link.Forward(out)
	}
}

// confirmed handles what the upstream broker says of a message that was to be retained.
func (b *Broker) confirmed(m *relay.Message) {
	x := &b.retained
	x.mu.Lock()
	defer x.mu.Unlock()
	number, has := x.unconfirmed[m.Topic]
	if !has || number > m.Number {
		return
	}
	delete(x.unconfirmed, m.Topic)
	if slot := x.root.find([]byte(m.Topic)); slot != 0 && !m.Kept {
		b.unkeepLocked(slot)
	}
}

// beginCopy begins to look for what the upstream broker does not retain any more.
func (r *retained) beginCopy() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stale = make(map[uint32]struct{})
	for slot, m := range r.slots {
		if m != nil && !r.hasUnconfirmedLocked([]byte(m.topic)) {
			r.stale[uint32(slot)] = struct{}{}
		}
	}
}

// endCopy removes what the upstream broker does not retain any more.
func (b *Broker) endCopy() {
	x := &b.retained
	x.mu.Lock()
	defer x.mu.Unlock()
	for slot := range x.stale {
		b.unkeepLocked(slot)
	}
	x.stale = nil
}

// copied keeps what the upstream broker retains. It reports whether that is news.
func (b *Broker) copied(p *publication) bool {
	x := &b.retained
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.hasUnconfirmedLocked(p.topic) {
		return false
	}
	if slot := x.root.find(p.topic); slot != 0 {
		delete(x.stale, slot)
		if m := x.slots[slot]; m.qos == p.qos && bytes.Equal(m.payload, p.payload) && bytes.Equal(m.properties, p.properties) {
			return false
		}
	}
	b.keepLocked(p)
	return true
}

// remove removes a downstream broker.
func (r *retained) remove(gone *remote) {
	r.remotes = slices.DeleteFunc(r.remotes, func(other *remote) bool { return other == gone })
}
