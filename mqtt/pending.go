package mqtt

import (
	"slices"
	"strings"
	"time"
)

// pending are retained messages that a session has asked for and that are not in its queue yet.
// They are put there as they can be sent, so that they do not fill the queue, and are looked up
// then, so that a newer one is sent instead.
type pending struct {
	wanted []*subscription // the first is being worked at
	begun  bool            // whether its messages were looked for
	slots  []uint32        // of them, if they are few
	next   int             // else: the slot to look on at; 0: there is none
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
	p.wanted = append(p.wanted, sub)
	s.wakeLocked()
}

// wantsLocked reports whether retained messages are to be sent that match a subscription.
func (s *session) wantsLocked(sub *subscription) bool {
	return s.pending != nil && slices.Contains(s.pending.wanted, sub)
}

// dropRetainedLocked forgets the retained messages for a filter.
func (s *session) dropRetainedLocked(filter string) {
	p := s.pending
	if p == nil {
		return
	}
	i := slices.IndexFunc(p.wanted, func(sub *subscription) bool { return sub.filter == filter })
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
// sent before what is retained of its topic, never after.
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
		sub := w.wanted[0]
		found, n := w.some(&s.broker.retained, sub.filter, p.now)
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

// some returns some of the messages that match a filter, and how many steps that took.
func (w *pending) some(r *retained, filter string, now time.Time) (found []*message, steps int) {
	if !w.begun {
		w.begun = true
		if w.slots, steps = r.find(filter); w.slots == nil {
			w.next = 1
		}
		return nil, steps
	}
	if w.next > 0 {
		found, steps = r.scan(filter, w.next, maxAhead, now)
		if w.next += steps; steps == 0 {
			w.next = 0
		}
		return found, steps
	}
	n := min(maxAhead, len(w.slots))
	found = r.lookUp(w.slots[:n], filter, now)
	w.slots = w.slots[n:]
	return found, n
}

// lookUp returns the messages in slots that match a filter: there may be others by now.
func (r *retained) lookUp(slots []uint32, filter string, now time.Time) (found []*message) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, slot := range slots {
		if m := r.slots[slot]; m != nil && !m.expired(now) && matchesFilter(filter, m.topic) {
			found = append(found, m)
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
