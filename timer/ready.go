package timer

import (
	"slices"
	"sync"
)

// readyQueue holds the batches that wait for a worker, first in, first out. It never refuses one:
// its length is bounded by the number of armed timers, since a timer has only one hint and that is
// either in a heap or in a batch, and since each shard sweeps out the entries of cancelled timers
// when they outnumber the others.
type readyQueue struct {
	limit int // what it is meant to hold; more is counted as spilled

	mu      sync.Mutex // guards the fields below; taken after a shard's
	some    sync.Cond  // signalled when batches or ended change
	batches []*batch   // those before head are gone
	head    int
	ended   bool
	spilled uint64
	refused uint64
}

func newReadyQueue(limit int) *readyQueue {
	q := &readyQueue{limit: limit}
	q.some.L = &q.mu
	return q
}

// put queues batches. It does not block.
func (q *readyQueue) put(batches []*batch) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.head > len(q.batches)/2 {
		q.batches = slices.Delete(q.batches, 0, q.head)
		q.head = 0
	}
	before := q.lenLocked()
	q.batches = append(q.batches, batches...)
	q.spilled += uint64(max(q.lenLocked()-q.limit, 0) - max(before-q.limit, 0))
	q.some.Signal()
}

// takeBatch waits for a batch; it returns nil once the queue has ended and is empty.
func (q *readyQueue) takeBatch() *batch {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.lenLocked() == 0 {
		if q.ended {
			return nil
		}
		q.some.Wait()
	}
	b := q.batches[q.head]
	q.batches[q.head] = nil
	q.head++
	q.resetLocked()
	return b
}

// filter drops the batches for which keep returns false. It calls keep with the queue's lock held.
func (q *readyQueue) filter(keep func(*batch) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	kept := slices.DeleteFunc(q.batches[q.head:], func(b *batch) bool { return !keep(b) })
	q.batches = q.batches[:q.head+len(kept)]
	q.resetLocked()
}

// resetLocked begins at the front again when the queue is empty, and gives back what a flood has
// left.
func (q *readyQueue) resetLocked() {
	if q.lenLocked() > 0 {
		return
	}
	q.batches, q.head = q.batches[:0], 0
	if cap(q.batches) > 2*q.limit {
		q.batches = nil
	}
}

func (q *readyQueue) lenLocked() int { return len(q.batches) - q.head }

// end makes take return nil once the queue is empty.
func (q *readyQueue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	q.some.Signal()
}

func (q *readyQueue) countRefused() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.refused++
}

func (q *readyQueue) stats() (queued int, spilled, refused uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lenLocked(), q.spilled, q.refused
}
