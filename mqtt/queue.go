package mqtt

import (
	"slices"
	"strings"
	"sync"
)

// queue holds the messages for a session. They are sent in the order in which they came, but those
// with QoS 0 do not wait for those with QoS 1 and 2 that have to (MQTT 5, 4.9). What was sent with QoS
// 1 or 2 stands in the order in which it was sent, until it is acknowledged.
type queue struct {
	inflight []entry
	qos0     fifo
	qos12    fifo
	bytes    int    // of all messages
	turn     uint32 // of the next message
}

// entry is a copy of a message in a queue.
type entry struct {
	message *message // nil once it is released
	detail  *detail  // nil for most
	turn    uint32   // among those that wait
	id      uint16   // 0 with QoS 0
	qos     uint8
	state   state
	retain  bool
	counted bool // against the client's Receive Maximum
	held    bool // against Config.MaxHeldBytes
}

// state is how far a copy has come.
type state uint8

const (
	queued   state = iota
	sent           // the client has not acknowledged it
	released       // the client has it: PUBREC has come (QoS 2)
)

// queues are queues that are empty. Few sessions need one at an instant.
type queues struct{ pool sync.Pool }

func (p *queues) get() *queue {
	if q, ok := p.pool.Get().(*queue); ok {
		return q
	}
	return &queue{}
}

// maxRoom is how many entries an empty queue may remember the room for.
const maxRoom = 64

func (p *queues) put(q *queue) {
	q.qos0.reset()
	q.qos12.reset()
	if q.inflight = q.inflight[:0]; cap(q.inflight) > maxRoom {
		q.inflight = nil
	}
	q.bytes, q.turn = 0, 0
	p.pool.Put(q)
}

func (q *queue) len() int { return len(q.inflight) + q.waiting() }

// waiting returns how many entries were not sent.
func (q *queue) waiting() int { return q.qos0.len() + q.qos12.len() }

func (q *queue) push(e entry) {
	e.turn = q.turn
	q.turn++
	q.bytes += e.message.size()
	if e.qos == 0 {
		q.qos0.push(e)
	} else {
		q.qos12.push(e)
	}
}

// next returns where the entry stands whose turn it is to be sent; nil if there is none. held says
// that those with QoS 1 and 2 have to wait.
func (q *queue) next(held bool) *fifo {
	zero, more := q.qos0.peek(), q.qos12.peek()
	switch {
	case more == nil || held:
		if zero == nil {
			return nil
		}
		return &q.qos0
	case zero == nil || int32(more.turn-zero.turn) < 0:
		return &q.qos12
	}
	return &q.qos0
}

// find returns the place of the entry in flight that has an id; -1 if there is none.
func (q *queue) find(id uint16) int {
	return slices.IndexFunc(q.inflight, func(e entry) bool { return e.id == id })
}

// fitsLocked reports whether a copy has room in the session's queue. Copies with QoS 0 are the first
// that have none.
func (s *session) fitsLocked(d *delivery) bool {
	b, away, bytes := s.broker, s.conn == nil, d.message.size()
	if q := s.queue; q != nil {
		if q.len() >= b.config.MaxQueue {
			return false
		}
		bytes += q.bytes
	}
	switch {
	case bytes > b.config.MaxQueueBytes:
		return false
	case !away && bytes <= guaranteed:
		return true
	case d.qos == 0:
		return bytes <= b.share(away)/2
	}
	return bytes <= b.share(away)
}

func (s *session) queueLocked() *queue {
	if s.queue == nil {
		s.queue = s.broker.queues.get()
	}
	return s.queue
}

// pushLocked appends a copy to the queue. It returns what must be committed before its sender may
// be told.
func (s *session) pushLocked(d delivery) (commit uint64) {
	e := entry{message: d.message, detail: d.detail, qos: d.qos, retain: d.retain}
	if d.qos > 0 {
		e.id = s.nextIDLocked()
		commit = s.storeEntryLocked(&e)
	}
	q := s.queueLocked()
	if s.conn == nil || q.bytes+d.message.size() > guaranteed {
		s.broker.hold(&e)
	}
	q.push(e)
	return commit
}

// dropLocked forgets an entry that was taken out of the queue.
func (s *session) dropLocked(e *entry) {
	if e.message != nil {
		s.queue.bytes -= e.message.size()
	}
	s.broker.release(e)
	s.unstoreEntryLocked(e)
}

// unflyLocked takes an entry in flight out of the queue.
func (s *session) unflyLocked(i int) {
	q := s.queue
	e := q.inflight[i]
	if c := s.conn; c != nil {
		if i < int(c.resent) {
			c.resent--
		}
		if e.counted {
			c.unacknowledged--
		}
	}
	s.dropLocked(&e)
	q.inflight = slices.Delete(q.inflight, i, i+1)
	s.tidyLocked()
}

// shrinkLocked drops messages that were not sent, those with QoS 0 and the newest first, until at
// most so many bytes are left.
// It reports whether that could be done.
func (s *session) shrinkLocked(most int) bool {
	q := s.queue
	for q != nil && q.bytes > most && q.waiting() > 0 {
		last := &q.qos0
		if last.len() == 0 {
			last = &q.qos12
		}
		e := last.popLast()
		s.dropLocked(&e)
		s.missLocked()
		s.broker.counts.dropped.Add(1)
	}
	return q == nil || q.bytes <= most
}

// dropForbiddenLocked drops the messages that the client may not read any more, and returns those that
// [Broker.moveOn] has to look at. One with QoS 2 that was sent stays: the client may have it, and waits for
// the rest of its exchange.
func (s *session) dropForbiddenLocked(g Grant) (dropped []entry) {
	q := s.queue
	if q == nil {
		return nil
	}
	forbidden := func(e *entry) bool {
		if e.message == nil || e.qos == 2 && e.state != queued || g.MaySubscribe(e.readAs()) {
			return false
		}
		if e.movesOn() {
			dropped = append(dropped, *e)
		} else {
			s.broker.counts.dropped.Add(1)
		}
		s.dropLocked(e)
		return true
	}
	q.inflight = slices.DeleteFunc(q.inflight, func(e entry) bool { return forbidden(&e) })
	q.qos0.drop(forbidden)
	q.qos12.drop(forbidden)
	s.tidyLocked()
	return dropped
}

// readAs returns a filter for the topic of the entry's message: by it a grant reports whether that may be read.
func (e *entry) readAs() string {
	if e.detail == nil || e.detail.group == nil {
		return e.message.topic
	}
	_, shared := splitShare(e.detail.group.filter)
	return strings.TrimSuffix(e.detail.group.filter, shared) + e.message.topic
}

// tidyLocked gives an empty queue back.
func (s *session) tidyLocked() {
	if q := s.queue; q != nil && q.len() == 0 {
		s.broker.queues.put(q)
		s.queue = nil
	}
}

// nextIDLocked returns a packet id that no entry has. It looks at all entries only when those ids
// are used up that were free when it did so before: once in many calls.
func (s *session) nextIDLocked() uint16 {
	for s.freeIDs == 0 {
		if s.lastID++; s.lastID == 0 {
			s.lastID = 1
		}
		s.freeIDs = s.distanceLocked(s.lastID)
		if s.freeIDs > 0 {
			s.freeIDs--
			return s.lastID
		}
	}
	s.freeIDs--
	s.lastID++
	return s.lastID
}

// distanceLocked returns how many ids from id on no entry has, up to the last id.
func (s *session) distanceLocked(id uint16) uint16 {
	distance := 65_535 - id + 1
	if s.queue == nil {
		return distance
	}
	for _, entries := range [][]entry{s.queue.inflight, s.queue.qos12.all()} {
		for i := range entries {
			if has := entries[i].id; has >= id {
				distance = min(distance, has-id)
			}
		}
	}
	return distance
}
