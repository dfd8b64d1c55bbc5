package mqtt

import (
	"slices"
	"sync"
	"time"

	"github.com/holter-iot/holter/mqtt/packet"
)

// session is what a broker keeps of a client, connected or not. Fields that few sessions need are
// pointers.
type session struct {
	broker *Broker
	id     string
	user   string
	number uint64 // no two sessions have the same

	mu       sync.Mutex // guards the fields below
	conn     *Conn      // nil while the client is away
	filters  *filters
	queue    *queue
	pending  *pending            // retained messages to send
	received map[uint16]struct{} // ids of messages with QoS 2 that are not released yet
	away     *away               // nil while the client is connected
	expiry   uint32              // seconds
	lastID   uint16              // packet id that was given last,
	freeIDs  uint16              // and how many after it are free for certain
	warned   uint32              // when the log said that the queue is full, in Unix seconds
	version  packet.Version
	gone     bool // the session has ended
	stored   bool // it has a record
}

// away is what is known of a client that is away.
type away struct {
	session *session
	will    *will // that is delayed; nil without
	willAt  time.Time
	endsAt  time.Time
	due     time.Time // when it is looked at next; guarded by the lock of deadlines
	at      int       // its place there
}

// filters are the subscriptions of a session.
type filters struct {
	few  []*subscription
	many map[string]*subscription // nil while there are few
}

// manyFilters is how many subscriptions of a session are looked up in a map.
const manyFilters = 8

func (f *filters) get(filter string) *subscription {
	if f == nil {
		return nil
	}
	if f.many != nil {
		return f.many[filter]
	}
	for _, sub := range f.few {
		if sub.filter == filter {
			return sub
		}
	}
	return nil
}

func (f *filters) len() int {
	if f == nil {
		return 0
	}
	return len(f.few) + len(f.many)
}

// put adds a subscription, in place of old if that is not nil.
func (f *filters) put(sub, old *subscription) {
	switch {
	case f.many != nil:
		f.many[sub.filter] = sub
	case old != nil:
		f.few[slices.Index(f.few, old)] = sub
	case len(f.few) < manyFilters:
		f.few = append(f.few, sub)
	default:
		f.many = map[string]*subscription{sub.filter: sub}
		for _, s := range f.few {
			f.many[s.filter] = s
		}
		f.few = nil
	}
}

func (f *filters) remove(sub *subscription) {
	if f.many != nil {
		delete(f.many, sub.filter)
		return
	}
	f.few = slices.DeleteFunc(f.few, func(s *subscription) bool { return s == sub })
}

// all returns the subscriptions.
func (f *filters) all() []*subscription {
	if f == nil {
		return nil
	}
	all := slices.Clone(f.few)
	for _, sub := range f.many {
		all = append(all, sub)
	}
	return all
}

// wakeLocked has what waits sent soon.
func (s *session) wakeLocked() {
	if c := s.conn; c != nil && !c.woken {
		c.woken = true
		c.wire.Wake()
	}
}

// countAwayLocked adds to the bytes that wait for clients that are away, if this one is.
func (s *session) countAwayLocked(n int) {
	if s.away != nil {
		s.broker.awayBytes.Add(int64(n))
	}
}

// leaveLocked begins the absence of a client. It returns the will if that is to be published at
// once.
func (s *session) leaveLocked(w *will, now time.Time) (due *will) {
	expiry := time.Duration(s.expiry) * time.Second
	s.away = &away{session: s, endsAt: now.Add(expiry)}
	if w != nil && w.delay > 0 {
		s.away.will, s.away.willAt = w, now.Add(min(w.delay, expiry))
		w = nil
	}
	s.broker.away.Add(1)
	if s.queue != nil {
		s.countAwayLocked(s.queue.bytes)
	}
	s.broker.deadlines.add(s.away)
	return w
}

// returnLocked ends the absence of a client. It returns the will that was delayed.
func (s *session) returnLocked() *will {
	a := s.away
	if a == nil {
		return nil
	}
	s.broker.deadlines.remove(a)
	if s.queue != nil {
		s.countAwayLocked(-s.queue.bytes)
	}
	s.broker.away.Add(-1)
	s.away = nil
	return a.will
}

// endLocked marks the end of a session. The caller calls [Broker.clear] once it holds no lock.
func (s *session) endLocked() *will {
	s.gone = true
	s.conn = nil
	return s.returnLocked()
}

// movesOn reports whether a shared message goes to another member of the group when the session of
// this one ends. With QoS 2 it does not once its delivery has begun (MQTT 5, 4.8.2).
func (e *entry) movesOn() bool {
	shared := e.detail != nil && e.detail.group != nil
	return shared && (e.qos == 1 || e.qos == 2 && e.state == queued)
}

// clear removes what is left of a session that has ended, and passes on what was shared.
func (b *Broker) clear(s *session, now time.Time) {
	b.journal.hold()
	defer b.journal.unhold()
	s.mu.Lock()
	subs, q := s.filters.all(), s.queue
	s.filters, s.queue, s.pending = nil, nil, nil
	s.unstoreLocked(subs)
	s.mu.Unlock()
	b.sessions.remove(s)
	for _, sub := range subs {
		b.index.remove(sub)
	}
	if q == nil {
		return
	}
	for _, e := range slices.Concat(q.inflight, q.qos12.all()) {
		if e.movesOn() {
			if g := b.index.membersOf(e.detail.group); len(g.members) > 0 {
				b.deliverShared(g, e.message, e.qos, e.retain, now)
			}
		}
		s.unstoreEntryLocked(&e)
	}
}
