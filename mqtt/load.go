package mqtt

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"time"
)

// Open loads what the store keeps. It is called once, before any other method but those that need
// no session, and blocks while the store loads. Without a store it does nothing. Clients that were
// connected when the records were written count as having left now. A record that is damaged is
// logged and left out.
func (b *Broker) Open(ctx context.Context) error {
	if b.journal == nil {
		return nil
	}
	l := loading{
		broker: b, now: time.Now(),
		sessions: make(map[uint64]*session), left: make(map[uint64]time.Time), wills: make(map[uint64]*will), messages: make(map[uint64]*message),
		groups: make(map[string]*group),
	}
	err := b.config.Store.Load(ctx, func(c Change) error {
		if err := l.read(c); err != nil {
			b.config.Logger.Error("a stored record is left out", "err", err, "kind", c.Kind, "key", hex.EncodeToString(c.Key))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("load sessions and retained messages: %w", err)
	}
	l.finish()
	return nil
}

// loading is what a store has said so far, which says it in any order.
type loading struct {
	broker   *Broker
	now      time.Time
	most     uint64 // the highest number
	sessions map[uint64]*session
	left     map[uint64]time.Time // when the client of a session left
	wills    map[uint64]*will     // that are delayed, by session
	messages map[uint64]*message
	groups   map[string]*group // by filter

	entries  []storedEntry
	received []Change
	subs     []storedSubscription
}

func (l *loading) read(c Change) error {
	switch c.Kind {
	case KindSession:
		s, left, err := parseSession(c.Key, c.Value)
		if err != nil {
			return err
		}
		s.broker, s.stored = l.broker, true
		l.sessions[s.number], l.left[s.number] = s, left
		l.most = max(l.most, s.number)
	case KindSubscription:
		sub, err := parseSubscription(c.Key, c.Value)
		if err != nil {
			return err
		}
		l.subs = append(l.subs, sub)
	case KindMessage:
		m, err := parseMessage(c.Value)
		k := fields{rest: c.Key}
		if m == nil || k.fixed() == 0 {
			return cmp.Or(err, errDamaged)
		}
		m.number = (&fields{rest: c.Key}).fixed()
		l.messages[m.number] = m
		l.most = max(l.most, m.number)
	case KindEntry:
		e, err := parseEntry(c.Key, c.Value)
		if err != nil {
			return err
		}
		l.entries = append(l.entries, e)
		l.most = max(l.most, e.detail.order)
	case KindReceived:
		if len(c.Key) != 10 {
			return errDamaged
		}
		l.received = append(l.received, Change{Key: slices.Clone(c.Key)})
	case KindWill:
		session, w, err := parseWill(c.Key, c.Value)
		if err != nil {
			return err
		}
		l.wills[session] = w
	case KindRetained:
		m, err := parseMessage(c.Value)
		if err != nil {
			return err
		}
		l.broker.retained.mu.Lock()
		defer l.broker.retained.mu.Unlock()
		l.broker.retained.setLocked(m, 0, 0)
	default:
		return errDamaged
	}
	return nil
}

// finish puts together what was loaded, and deletes what belongs to nothing.
func (l *loading) finish() {
	b := l.broker
	b.numbers.Store(l.most)
	for _, s := range l.sessions {
		l.place(s)
	}
	for _, sub := range l.subs {
		l.subscribe(sub)
	}
	for _, c := range l.received {
		l.receive(c.Key)
	}
	slices.SortFunc(l.entries, func(a, b storedEntry) int { return cmp.Compare(a.detail.order, b.detail.order) })
	for i := range l.entries {
		l.enqueue(&l.entries[i])
	}
	for number, m := range l.messages {
		if m.records == 0 {
			b.journal.remove(KindMessage, numberKey(number))
		}
	}
	for number := range l.wills {
		if l.sessions[number] == nil {
			b.journal.remove(KindWill, numberKey(number))
		}
	}
	for number, s := range l.sessions {
		left := l.left[number]
		if left.IsZero() {
			left = l.now
		}
		s.mu.Lock()
		s.leaveLocked(l.wills[number], left, l.now)
		s.storeLocked()
		s.mu.Unlock()
	}
}

// place puts a session into its shard. Of two that have the same client the one that began first
// has ended.
func (l *loading) place(s *session) {
	sh := l.broker.sessions.shard(s.id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if other := sh.byID[s.id]; other != nil {
		if other.number > s.number {
			s, other = other, s
		}
		l.broker.journal.remove(KindSession, numberKey(other.number))
		delete(l.sessions, other.number)
	}
	sh.byID[s.id] = s
}

func (l *loading) subscribe(sub storedSubscription) {
	s := l.sessions[sub.session]
	if s == nil {
		l.broker.journal.remove(KindSubscription, subscriptionKey(sub.session, sub.filter))
		return
	}
	sub.subscription.session = s
	if s.addLocked(sub.subscription, nil); sub.detail != nil && sub.detail.group != nil {
		l.groups[sub.filter] = sub.detail.group
	}
	if sub.wanting {
		s.wantRetainedLocked(sub.subscription)
	}
}

func (l *loading) receive(key []byte) {
	f := fields{rest: key}
	s := l.sessions[f.fixed()]
	if s == nil {
		l.broker.journal.remove(KindReceived, key)
		return
	}
	if s.received == nil {
		s.received = make(map[uint16]struct{})
	}
	s.received[uint16(f.rest[0])<<8|uint16(f.rest[1])] = struct{}{}
	s.countReceivedLocked(len(s.received) - 1)
}

// enqueue puts an entry into the queue of its session. What was sent comes before what was not.
func (l *loading) enqueue(e *storedEntry) {
	s, m := l.sessions[e.session], l.messages[e.message]
	if s == nil || m == nil && e.state != released {
		l.broker.journal.remove(KindEntry, entryKey(e.session, e.detail.order))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e.detail.group = l.groups[e.share]
	s.lastID = e.id
	q, got := s.queueLocked(), e.entry
	got.message = m
	if m != nil {
		m.records++
	}
	if e.state == queued {
		q.push(got)
		return
	}
	if q.inflight = append(q.inflight, got); m != nil {
		q.bytes += m.size()
	}
}
