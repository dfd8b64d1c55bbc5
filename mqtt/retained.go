package mqtt

import (
	"bytes"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// retained are the retained messages: in slots, which can be looked through piece by piece, and in
// a tree of their topics.
type retained struct {
	mu           sync.RWMutex  // guards the fields below
	slots        []*message    // the first is not used; nil: free
	turns        []uint64      // by slot: that of its message; 0 if that was loaded
	turn         atomic.Uint64 // of the message that was kept last; changed with mu held
	free         []uint32
	root         level
	count, bytes int // of clients' messages

	remotes     []*remote           // downstream
	unconfirmed map[string]uint64   // by topic: the number of the latest message for the upstream broker that is to be retained, until that confirms it
	stale       map[uint32]struct{} // slots of what the upstream broker may not retain any more
}

// level is what the topics that begin with the same levels have in common.
type level struct {
	below children[level]
	slot  uint32 // of the message that is kept; 0: none
}

// keep keeps a message that is to be retained, or removes what is kept if it has no payload, and tells
// the other brokers. It returns what must be committed before the client may be told. ok is false if the
// upstream broker does not take it.
func (b *Broker) keep(p *publication, up *remote) (commit uint64, ok bool) {
	r := &b.retained
	r.mu.Lock()
	defer r.mu.Unlock()
	if up != nil {
		if commit, ok = b.keepAboveLocked(p, up); !ok {
			return 0, false
		}
	} else if p.unkept || r.hasUnconfirmedLocked(p.topic) {
		return 0, true
	}
	number, kept := b.keepLocked(p)
	b.keepBelowLocked(p, kept)
	return max(commit, number), true
}

// keepLocked keeps a message in this broker, unless there are too many.
func (b *Broker) keepLocked(p *publication) (commit uint64, kept bool) {
	r := &b.retained
	slot := r.root.find(p.topic)
	if len(p.payload) == 0 {
		if slot != 0 {
			commit = b.unkeepLocked(slot)
		}
		return commit, true
	}
	m := p.message()
	if !m.own && !r.fitsLocked(m, slot, b.config.MaxRetained, b.config.MaxRetainedBytes) {
		b.counts.retainedRefused.Add(1)
		return 0, false
	}
	var old *message
	if slot != 0 {
		old = r.slots[slot]
	}
	r.setLocked(m, slot, r.turn.Add(1))
	return b.storeRetained(m, old), true
}

// unkeepLocked removes a retained message.
func (b *Broker) unkeepLocked(slot uint32) (commit uint64) {
	r := &b.retained
	m := r.slots[slot]
	r.countLocked(m, -1)
	r.root.remove(m.topic)
	r.slots[slot] = nil
	r.free = append(r.free, slot)
	delete(r.stale, slot)
	return b.unstoreRetained(m)
}

// countLocked adds a message to the sums, or takes it out.
func (r *retained) countLocked(m *message, n int) {
	if !m.own {
		r.count += n
		r.bytes += n * retainedSize(m)
	}
}

// levelOverhead is what a level of a topic takes in the tree, roughly.
const levelOverhead = 64

func retainedSize(m *message) int {
	return m.size() + levelOverhead*(1+strings.Count(m.topic, "/"))
}

// fitsLocked reports whether a message may be kept, in place of what is in slot.
func (r *retained) fitsLocked(m *message, slot uint32, most, bytes int) bool {
	count, size := r.count, r.bytes
	if slot != 0 && !r.slots[slot].own {
		count--
		size -= retainedSize(r.slots[slot])
	}
	return count < most && size+retainedSize(m) <= bytes
}

// setLocked keeps a message with a turn in a slot; 0: a free one.
func (r *retained) setLocked(m *message, slot uint32, turn uint64) {
	r.countLocked(m, 1)
	if slot != 0 {
		r.countLocked(r.slots[slot], -1)
		r.slots[slot], r.turns[slot] = m, turn
		delete(r.stale, slot)
		return
	}
	switch n := len(r.free); {
	case n > 0:
		slot, r.free = r.free[n-1], r.free[:n-1]
	case len(r.slots) == 0:
		r.slots, r.turns, slot = make([]*message, 2), make([]uint64, 2), 1
	default:
		slot = uint32(len(r.slots))
		r.slots, r.turns = append(r.slots, nil), append(r.turns, 0)
	}
	r.slots[slot], r.turns[slot] = m, turn
	r.root.add(m.topic, slot)
}

// find returns the slot of a topic's message; 0 if there is none.
func (l *level) find(topic []byte) uint32 {
	for {
		part, rest, more := bytes.Cut(topic, []byte{'/'})
		if l = child(&l.below, part); l == nil {
			return 0
		}
		if !more {
			return l.slot
		}
		topic = rest
	}
}

func (l *level) add(topic string, slot uint32) {
	for part := range strings.SplitSeq(topic, "/") {
		next := child(&l.below, part)
		if next == nil {
			next = &level{}
			l.below.put(strings.Clone(part), next)
		}
		l = next
	}
	l.slot = slot
}

func (l *level) remove(topic string) {
	part, rest, more := strings.Cut(topic, "/")
	next := child(&l.below, part)
	if more {
		next.remove(rest)
	} else {
		next.slot = 0
	}
	if next.slot == 0 && next.below.none() {
		l.below.remove(part)
	}
}

func (r *retained) size() (count, bytes int) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.count, r.bytes
}

// chunk is how many slots are looked through under one lock.
const chunk = 1024

// scan returns at most so many messages in the slots from one on whose topics match a filter, of turns up to a
// last one. n says how many slots it has looked through; 0 when there are no more.
func (r *retained) scan(filter string, last uint64, from, most int, now time.Time) (found []*message, n int) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for n < chunk && from+n < len(r.slots) && len(found) < most {
		if slot := from + n; r.fitsFilterLocked(slot, filter, last, now) {
			found = append(found, r.slots[slot])
		}
		n++
	}
	return found, n
}

// fitsFilterLocked reports whether a slot has a message whose topic matches a filter, of a turn up to a last one.
func (r *retained) fitsFilterLocked(slot int, filter string, last uint64, now time.Time) bool {
	m := r.slots[slot]
	return m != nil && r.turns[slot] <= last && !m.expired(now) && matchesFilter(filter, m.topic)
}

// sweepRetained removes the messages that have expired.
func (b *Broker) sweepRetained(now time.Time) {
	r := &b.retained
	for at, n := 1, 1; n > 0; at += n {
		r.mu.Lock()
		n = min(chunk, len(r.slots)-at)
		for slot := at; slot < at+n; slot++ {
			if m := r.slots[slot]; m != nil && m.expired(now) {
				b.unkeepLocked(uint32(slot))
			}
		}
		r.mu.Unlock()
	}
}
