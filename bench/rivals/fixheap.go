package rivals

import (
	"container/heap"
	"sync"
	"time"
)

// fixHeapContender is how most services that need leases do it, etcd's lessor among them:
// container/heap of pointers, a map by id, one mutex, and heap.Fix for a renewal. Written for this
// comparison. etcd looks for expired leases each 500 ms; this one sleeps until the earliest deadline.
// Like etcd's it passes on what has expired in batches, on a channel of 16. When the channel is full it
// waits, so that slow callbacks delay the clock, but never an arming.
func fixHeapContender() contender {
	return contender{
		name:    "container/heap + map + mutex",
		version: "ours",
		runs:    "workers",
		renews:  "heap.Fix",
		lacks:   "on-time expiry while callbacks are slow",
		open: func(s setup) *rival {
			h := &fixHeap{
				queue: newQueue[uint64](),
				byID:  make(map[uint64]*task[uint64]),
				wake:  make(chan struct{}, 1),
				due:   startWorkers(s.workers),
			}
			go h.drive()
			return hold(s, library[uint64]{arm: h.arm, touch: h.touch, cancel: h.cancel})
		},
	}
}

type fixHeap struct {
	mu    sync.Mutex // guards the fields below
	queue queue[uint64]
	byID  map[uint64]*task[uint64]
	last  uint64

	wake chan struct{} // room for one; never closed
	due  batches
}

func (h *fixHeap) arm(_ int, d time.Duration, f func()) uint64 {
	t := &task[uint64]{at: h.queue.now() + d, f: f}
	h.mu.Lock()
	h.last++
	t.key = h.last
	h.byID[t.key] = t
	heap.Push(&h.queue, t)
	first := t.index == 0
	h.mu.Unlock()
	if first {
		select {
		case h.wake <- struct{}{}:
		default:
		}
	}
	return t.key
}

func (h *fixHeap) touch(id uint64, d time.Duration) {
	at := h.queue.now() + d
	h.mu.Lock()
	defer h.mu.Unlock()
	if t, ok := h.byID[id]; ok {
		t.at = at
		heap.Fix(&h.queue, t.index)
	}
}

func (h *fixHeap) cancel(id uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t, ok := h.byID[id]; ok {
		heap.Remove(&h.queue, t.index)
		delete(h.byID, id)
	}
}

// drive sleeps until the earliest deadline and passes on what is due.
func (h *fixHeap) drive() {
	alarm := time.NewTimer(time.Hour)
	for {
		funcs, wait := h.expire()
		if len(funcs) > 0 {
			h.due.pass(funcs)
			continue
		}
		alarm.Reset(wait)
		select {
		case <-alarm.C:
		case <-h.wake:
		}
	}
}

// expire takes at most a batch of timers that are due, or returns for how long none is.
func (h *fixHeap) expire() (funcs []func(), wait time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.queue.now()
	for wait = h.queue.wait(now); wait <= 0 && len(funcs) < batchSize; wait = h.queue.wait(now) {
		t := h.queue.pop()
		delete(h.byID, t.key)
		funcs = append(funcs, t.f)
	}
	return funcs, wait
}
