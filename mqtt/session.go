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

// remoteLocked returns the broker whose session it is; nil if it is a client's.
func (s *session) remoteLocked() *remote {
	if s.conn == nil || s.conn.extra == nil {
		return nil
	}
	return s.conn.extra.remote
}

// wakeLocked has what waits sent soon.
func (s *session) wakeLocked() {
	if c := s.conn; c != nil && !c.woken {
		c.woken = true
		c.wire.Wake()
	}
}

// leaveLocked begins the absence of a client that left at an instant. It returns the will if that is
// to be published at once; a delay begins now.
func (s *session) leaveLocked(w *will, left, now time.Time) (due *will) {
	s.away = &away{session: s, endsAt: left.Add(time.Duration(s.expiry) * time.Second)}
	if w != nil && w.delay > 0 {
		s.away.will, s.away.willAt = w, now.Add(w.delay)
		w = nil
	}
	s.broker.away.Add(1)
	s.broker.held.Add(int64(s.sizeAwayLocked(s.away.will)))
	s.holdAllLocked()
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
	w := s.takeWillLocked()
	s.broker.held.Add(-int64(s.sizeAwayLocked(nil)))
	s.broker.away.Add(-1)
	s.away = nil
	return w
}

// takeWillLocked takes the delayed will of a client that is away, if there is one.
func (s *session) takeWillLocked() *will {
	w := s.away.will
	if w != nil {
		s.away.will = nil
		s.broker.held.Add(-int64(w.size()))
		s.unstoreWillLocked()
	}
	return w
}

// endLocked marks the end of a session. The caller calls [Broker.clear] once it holds no lock but
// the journal.
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

// moveOn passes a message on to another member of its group that a session gives up, if it [entry.movesOn].
// The caller holds no lock but the journal.
func (b *Broker) moveOn(e *entry, now time.Time) {
	if !e.movesOn() {
		return
	}
	if g := b.index.membersOf(e.detail.group); len(g.members) > 0 {
		b.deliverShared(g, e.message, e.qos, e.retain, now)
	}
}

// clear removes what is left of a session that has ended, and passes on what was shared. The caller
// holds the journal.
func (b *Broker) clear(s *session, now time.Time) {
	s.mu.Lock()
	subs, q := s.filters.all(), s.queue
	s.filters, s.queue, s.pending = nil, nil, nil
	s.unstoreLocked(subs)
	before := len(s.received)
	s.received = nil
	s.countReceivedLocked(before)
	s.mu.Unlock()
	b.sessions.remove(s)
	for _, sub := range subs {
		b.removeSubscription(sub)
	}
	if q == nil {
		return
	}
	for _, e := range slices.Concat(q.inflight, q.qos12.all()) {
		b.moveOn(&e, now)
		b.release(&e)
		s.unstoreEntryLocked(&e)
	}
	for i := range q.qos0.all() {
		b.release(&q.qos0.all()[i])
	}
}
