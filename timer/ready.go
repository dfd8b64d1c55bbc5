package timer

import (
	"sync"
)

// readyQueue holds the batches that wait for a worker, first in, first out. It never refuses one: its length is bounded by the
// number of armed timers, since a timer has only one hint and that is either in a heap or in a batch.
type readyQueue struct {
	limit int // what it is meant to hold; more is counted as spilled

	mu      sync.Mutex // guards the fields below
	some    sync.Cond  // signalled when batches or ended change
	batches []*batch
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
	if q.ended {
		return
	}
	q.spilled += uint64(max(len(q.batches)+len(batches)-q.limit, 0) - max(len(q.batches)-q.limit, 0))
	q.batches = append(q.batches, batches...)
	q.some.Signal()
}

// take waits for batches and takes them all; it returns none once the queue has ended and is empty.
func (q *readyQueue) take() []*batch {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.batches) == 0 && !q.ended {
		q.some.Wait()
	}
	batches := q.batches
	q.batches = nil
	return batches
}

// end lets nothing more in.
func (q *readyQueue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	q.some.Broadcast()
}

func (q *readyQueue) countRefused() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.refused++
}

func (q *readyQueue) stats() (queued int, spilled, refused uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.batches), q.spilled, q.refused
}
