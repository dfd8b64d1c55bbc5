package mqtt

import (
	"slices"
	"sync"
)

// queue holds the messages for a session. What is not sent waits in the order in which it is to be
// sent; what was sent with QoS 1 or 2 stands in the order in which it was sent, until it is
// acknowledged.
type queue struct {
	inflight []entry
	waiting  []entry
	head     int // where waiting begins
	bytes    int // of all messages
}

// entry is a copy of a message in a queue.
type entry struct {
	message *message // nil once it is released
	detail  *detail  // nil for most
	id      uint16   // 0 with QoS 0
	qos     uint8
	state   state
	retain  bool
	counted bool // against the client's Receive Maximum
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
	return &queue{waiting: make([]entry, 0, 4)}
}

// maxRoom is how many entries an empty queue may remember the room for.
const maxRoom = 64

func (p *queues) put(q *queue) {
	if cap(q.waiting) > maxRoom || cap(q.inflight) > maxRoom {
		return
	}
	*q = queue{waiting: q.waiting[:0], inflight: q.inflight[:0]}
	p.pool.Put(q)
}

func (q *queue) len() int { return len(q.inflight) + len(q.waiting) - q.head }

func (q *queue) push(e entry) {
	if len(q.waiting) == cap(q.waiting) && q.head > len(q.waiting)/2 {
		n := copy(q.waiting, q.waiting[q.head:])
		clear(q.waiting[n:])
		q.waiting, q.head = q.waiting[:n], 0
	}
	q.waiting = append(q.waiting, e)
	q.bytes += e.message.size()
}

// peek returns the next entry to send; nil if there is none.
func (q *queue) peek() *entry {
	if q.head == len(q.waiting) {
		return nil
	}
	return &q.waiting[q.head]
}

// pop takes the next entry out of what waits. Its bytes stay counted.
func (q *queue) pop() entry {
	e := q.waiting[q.head]
	q.waiting[q.head] = entry{}
	if q.head++; q.head == len(q.waiting) {
		q.waiting, q.head = q.waiting[:0], 0
	}
	return e
}

// find returns the place of the entry in flight that has an id; -1 if there is none.
func (q *queue) find(id uint16) int {
	return slices.IndexFunc(q.inflight, func(e entry) bool { return e.id == id })
}

// fitsLocked reports whether a message has room in the session's queue.
func (s *session) fitsLocked(m *message) bool {
	b, size := s.broker, m.size()
	if s.conn == nil && b.awayBytes.Load()+int64(size) > int64(b.config.MaxAwayBytes) {
		return false
	}
	q := s.queue
	return q == nil || q.len() < b.config.MaxQueue && q.bytes+size <= b.config.MaxQueueBytes
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
	s.queueLocked().push(e)
	s.countAwayLocked(d.message.size())
	return commit
}

// dropLocked forgets an entry that was taken out of the queue.
func (s *session) dropLocked(e *entry) {
	if e.message != nil {
		size := e.message.size()
		s.queue.bytes -= size
		s.countAwayLocked(-size)
	}
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

// shrinkLocked drops the newest messages that were not sent until at most so many bytes are left.
// It reports whether that could be done.
func (s *session) shrinkLocked(most int) bool {
	q := s.queue
	for q != nil && q.bytes > most && q.peek() != nil {
		last := len(q.waiting) - 1
		e := q.waiting[last]
		q.waiting[last] = entry{}
		q.waiting = q.waiting[:last]
		s.dropLocked(&e)
		s.broker.counts.dropped.Add(1)
	}
	return q == nil || q.bytes <= most
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
	for _, entries := range [][]entry{s.queue.inflight, s.queue.waiting[s.queue.head:]} {
		for i := range entries {
			if has := entries[i].id; has >= id {
				distance = min(distance, has-id)
			}
		}
	}
	return distance
}
