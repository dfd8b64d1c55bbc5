package mqtt

import (
	"math"
	"slices"
	"strings"
	"time"
)

// pending are retained messages that a session has asked for and that are not in its queue yet.
// They are put there as they can be sent, so that they do not fill the queue, and are looked up
// then, so that a newer one is sent instead.
type pending struct {
	wanted []want   // the first is being worked at
	begun  bool     // whether its messages were looked for
	slots  []uint32 // of them, if they are few
	next   int      // else: the slot to look on at; 0: there is none
	missed bool     // the session did not get all that was published since
}

// want is a subscription whose retained messages are wanted. What was kept after it was made, it has got as it was
// published (MQTT 5, 3.3.1.3), unless the session has missed something.
type want struct {
	*subscription

	turn uint64 // the latest of retained messages when it was made
}

const (
	// maxSlots is how many slots of retained messages a session remembers. If a filter matches
	// more, or they are not found quickly, it looks through all of them instead.
	maxSlots = 1024
	// maxSteps is how many levels or slots are looked at under one lock, and in one run of a pump,
	// which may take as many again.
	maxSteps = 4096
	// maxAhead is how many retained messages are put into a queue at once.
	maxAhead = 16
)

// wantRetainedLocked has the retained messages sent that match a subscription.
func (s *session) wantRetainedLocked(sub *subscription) {
	s.dropRetainedLocked(sub.filter)
	p := made(&s.pending)
	p.wanted = append(p.wanted, want{sub, s.broker.retained.turn.Load()}) // it is in the index: what is kept from now on finds it
	s.wakeLocked()
}

// missLocked notes that the session does not get a message that was published. If retained messages are to be sent
// yet, it may be one of them.
func (s *session) missLocked() {
	if s.pending != nil {
		s.pending.missed = true
	}
}

// wantsLocked reports whether retained messages are to be sent that match a subscription.
func (s *session) wantsLocked(sub *subscription) bool {
	return s.pending != nil && slices.ContainsFunc(s.pending.wanted, func(w want) bool { return w.subscription == sub })
}

// dropRetainedLocked forgets the retained messages for a filter.
func (s *session) dropRetainedLocked(filter string) {
	p := s.pending
	if p == nil {
		return
	}
	i := slices.IndexFunc(p.wanted, func(w want) bool { return w.filter == filter })
	if i < 0 {
		return
	}
	p.wanted = slices.Delete(p.wanted, i, i+1)
	if i == 0 {
		p.begun, p.slots, p.next = false, nil, 0
	}
	if len(p.wanted) == 0 {
		s.pending = nil
	}
}

// retained sends retained messages while nothing else waits. A message that was published since is
// sent before what is retained of its topic, never after, and not once more.
func (p *pump) retained() {
	s := p.conn.session
	steps := 0
	for s.pending != nil {
		if s.queue != nil && s.queue.waiting() > 0 { // it cannot be sent now
			return
		}
		if p.full() {
			return
		}
		if steps >= maxSteps {
			p.left = true
			return
		}
		w := s.pending
		sub := w.wanted[0].subscription
		found, n := w.some(&s.broker.retained, p.now)
		steps += n
		for _, m := range found {
			s.pushLocked(delivery{message: m, detail: sub.detail, qos: min(m.qos, sub.qos), retain: true})
		}
		if w.done() {
			s.dropRetainedLocked(sub.filter)
			s.storeSubscriptionLocked(sub, sub)
		}
		p.queued(false)
	}
}

// done reports whether all messages of the first subscription were found.
func (w *pending) done() bool { return w.begun && len(w.slots) == 0 && w.next == 0 }

// some returns some of the messages for the first subscription, and how many steps that took.
func (w *pending) some(r *retained, now time.Time) (found []*message, steps int) {
	filter, last := w.wanted[0].filter, w.wanted[0].turn
	if w.missed {
		last = math.MaxUint64
	}
	if !w.begun {
		w.begun = true
		if w.slots, steps = r.find(filter); w.slots == nil {
			w.next = 1
		}
		return nil, steps
	}
	if w.next > 0 {
		found, steps = r.scan(filter, last, w.next, maxAhead, now)
		if w.next += steps; steps == 0 {
			w.next = 0
		}
		return found, steps
	}
	n := min(maxAhead, len(w.slots))
	found = r.lookUp(w.slots[:n], filter, last, now)
	w.slots = w.slots[n:]
	return found, n
}

// lookUp returns the messages in slots that match a filter, of turns up to a last one: there may be others by
// now.
func (r *retained) lookUp(slots []uint32, filter string, last uint64, now time.Time) (found []*message) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, slot := range slots {
		if r.fitsFilterLocked(int(slot), filter, last, now) {
			found = append(found, r.slots[slot])
		}
	}
	return found
}

// find returns the slots of the messages that match a filter, nil if they are many or hard to find,
// and how many steps it took.
func (r *retained) find(filter string) (slots []uint32, steps int) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	w := walk{found: []uint32{}}
	w.match(&r.root, filter, true)
	if w.steps > maxSteps || len(w.found) > maxSlots {
		return nil, w.steps
	}
	return w.found, w.steps
}

// walk looks for the slots of messages that match a filter (MQTT 5, 4.7).
type walk struct {
	found []uint32
	steps int
}

// step counts a level that is looked at, and reports whether to go on.
func (w *walk) step() bool {
	w.steps++
	return w.steps <= maxSteps && len(w.found) <= maxSlots
}

func (w *walk) match(l *level, filter string, top bool) {
	part, rest, more := strings.Cut(filter, "/")
	switch part {
	case "#":
		w.all(l, top)
	case "+":
		for name, next := range l.below.all() {
			if !w.step() {
				return
			}
			if !top || !strings.HasPrefix(name, "$") {
				w.matchRest(next, rest, more)
			}
		}
	default:
		if next := child(&l.below, part); next != nil && w.step() {
			w.matchRest(next, rest, more)
		}
	}
}

func (w *walk) matchRest(l *level, rest string, more bool) {
	if more && rest != "#" {
		w.match(l, rest, false)
		return
	}
	w.add(l) // a/# matches a, too
	if more {
		w.all(l, false)
	}
}

func (w *walk) add(l *level) {
	if l.slot != 0 {
		w.found = append(w.found, l.slot)
	}
}

// all adds what is below a level.
func (w *walk) all(l *level, top bool) {
	for name, next := range l.below.all() {
		if !w.step() {
			return
		}
		if top && strings.HasPrefix(name, "$") {
			continue
		}
		w.add(next)
		w.all(next, false)
	}
}
