package mqtt

import (
	"slices"
	"strings"
	"time"
)

// pending are retained messages that a session has asked for and that are not in its queue yet. They are put there as they can be
// sent, so that they do not fill the queue, and are looked up then, so that a newer one is sent instead.
type pending struct {
	wanted []*subscription // the first is being worked at
	begun  bool            // whether its messages were looked for
	topics []string        // of them, if they are few
	slot   int             // else: where to look on; 0: at none
}

const (
	// maxTopics is how many topics of retained messages a session remembers. If a filter matches more, or they are not found quickly, it looks
	// through all retained messages instead.
	maxTopics = 1024
	// maxSteps is how many levels of topics are looked at under one lock, and maxScans how many slots in one run of a pump.
	maxSteps, maxScans = 4096, 4 * chunk
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
		p.begun, p.topics, p.slot = false, nil, 0
	}
	if len(p.wanted) == 0 {
		s.pending = nil
	}
}

// retained sends retained messages while nothing else waits. A message that was published since is sent before what is retained of its
// topic, never after.
func (p *pump) retained() {
	s := p.conn.session
	scans := 0
	for s.pending != nil {
		if s.queue != nil && s.queue.peek() != nil { // it cannot be sent now
			return
		}
		if p.full() {
			return
		}
		if scans >= maxScans {
			p.left = true
			return
		}
		w := s.pending
		sub := w.wanted[0]
		found, n := w.next(&s.broker.retained, sub.filter, p.now)
		scans += n
		for _, m := range found {
			s.pushLocked(delivery{message: m, detail: sub.detail, qos: min(m.qos, sub.qos), retain: true})
		}
		if found == nil && w.done() {
			s.dropRetainedLocked(sub.filter)
		}
		p.queued()
	}
}

// done reports whether all messages of the first subscription were found.
func (w *pending) done() bool { return w.begun && len(w.topics) == 0 && w.slot == 0 }

// next returns some of the messages that match a filter, and how many slots it has looked through.
func (w *pending) next(r *retained, filter string, now time.Time) (found []*message, scanned int) {
	if !w.begun {
		w.begun = true
		if w.topics = r.topics(filter); w.topics == nil {
			w.slot = 1
		}
	}
	if w.slot > 0 {
		found, scanned = r.scan(filter, w.slot, maxAhead, now)
		if w.slot += scanned; scanned == 0 {
			w.slot = 0
		}
		return found, scanned
	}
	n := min(maxAhead, len(w.topics))
	found = r.lookUp(w.topics[:n], now)
	w.topics = w.topics[n:]
	return found, n
}

// lookUp returns the messages that are kept for topics.
func (r *retained) lookUp(topics []string, now time.Time) (found []*message) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, topic := range topics {
		if slot := r.root.find([]byte(topic)); slot != 0 && !r.slots[slot].expired(now) {
			found = append(found, r.slots[slot])
		}
	}
	return found
}

// topics returns the topics that match a filter; nil if they are many or hard to find.
func (r *retained) topics(filter string) []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	w := walk{retained: r, found: []string{}}
	w.match(&r.root, filter, true)
	if w.steps > maxSteps || len(w.found) > maxTopics {
		return nil
	}
	return w.found
}

// walk looks for the topics that match a filter (MQTT 5, 4.7).
type walk struct {
	retained *retained
	found    []string
	steps    int
}

// step counts a level that is looked at, and reports whether to go on.
func (w *walk) step() bool {
	w.steps++
	return w.steps <= maxSteps && len(w.found) <= maxTopics
}

func (w *walk) match(l *level, filter string, top bool) {
	part, rest, more := strings.Cut(filter, "/")
	switch part {
	case "#":
		w.all(l, top)
	case "+":
		for name, next := range l.below {
			if !w.step() {
				return
			}
			if !top || !strings.HasPrefix(name, "$") {
				w.matchRest(next, rest, more)
			}
		}
	default:
		if next := l.below[part]; next != nil && w.step() {
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
		w.found = append(w.found, w.retained.slots[l.slot].topic)
	}
}

// all adds the topics below a level.
func (w *walk) all(l *level, top bool) {
	for name, next := range l.below {
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
