package rivals

import (
	"container/heap"
	"time"
)

// tasksContender is a stand-in, written for this comparison, of htask, which cannot be had as a module:
// container/heap of tasks on one goroutine, a channel for each task that is closed to cancel it, and a
// fixed number of workers that are handed one task at a time. A cancelled task stays in the heap until
// it is the first. While all workers are busy nothing expires, but tasks can be added. It cannot renew
// a task, and cannot say whether a cancel came in time.
func tasksContender() contender {
	return contender{
		name:    "min-heap + cancel channels, htask (stand-in)",
		version: "ours",
		runs:    "workers",
		renews:  "cancel + add",
		lacks:   "a renewal; whether a cancel won; on-time expiry while callbacks are slow",
		open: func(s setup) *rival {
			t := &tasksHeap{
				queue: newQueue[chan struct{}](),
				add:   make(chan *task[chan struct{}]),
				work:  make(chan func()),
			}
			for range s.workers {
				go t.worker()
			}
			go t.schedule()
			return hold(s, library[chan struct{}]{arm: t.arm, cancel: func(c chan struct{}) { close(c) }})
		},
	}
}

// tasksHeap knows a task by the channel that cancels it when it is closed.
type tasksHeap struct {
	queue queue[chan struct{}]      // belongs to schedule
	add   chan *task[chan struct{}] // unbuffered: an addition waits for the scheduler; never closed
	work  chan func()               // unbuffered: a task waits for an idle worker; never closed
}

func (t *tasksHeap) arm(_ int, d time.Duration, f func()) chan struct{} {
	added := &task[chan struct{}]{key: make(chan struct{}), at: t.queue.now() + d, f: f}
	t.add <- added
	return added.key
}

// schedule owns the heap.
func (t *tasksHeap) schedule() {
	alarm := time.NewTimer(time.Hour)
	for {
		var first task[chan struct{}]
		if len(t.queue.tasks) > 0 {
			first = *t.queue.tasks[0]
		}
		var work chan func() // nil while nothing is due
		if wait := t.queue.wait(t.queue.now()); wait > 0 {
			alarm.Reset(wait)
		} else {
			work = t.work
		}
		select {
		case <-first.key:
			t.queue.pop()
			continue
		default:
		}
		select {
		case added := <-t.add:
			heap.Push(&t.queue, added)
		case work <- first.f:
			t.queue.pop()
		case <-first.key:
		case <-alarm.C:
		}
	}
}

func (t *tasksHeap) worker() {
	for f := range t.work {
		f()
	}
}
