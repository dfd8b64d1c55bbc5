package rivals

import (
	"container/heap"
	"sync/atomic"
	"time"

	"github.com/panjf2000/ants/v2"
)

// mapsContender is a stand-in, written for this comparison from the description of a published
// scheduler that cannot be had as a module: "heap and double map". One goroutine owns container/heap of
// boxed tasks and two maps, from a task's original id to its current one and back. Every operation is a
// message to it over an unbuffered channel, and before each message it makes a new time.Timer for the
// earliest deadline. A cancelled task stays in the heap until it comes up. A repetition gets a new
// current id, and so does a renewal, which is a removal and an addition; ids have 32 bits. What has
// expired is submitted to an ants pool, one closure each, and when the pool is full the goroutine
// waits, and with it all callers.
func mapsContender() contender {
	return contender{
		name:    "heap + two maps + channels + ants (stand-in)",
		version: "ours, with ants ",
		module:  "github.com/panjf2000/ants/v2",
		runs:    "an ants pool",
		renews:  "remove + add",
		lacks:   "a renewal; whether a cancel won; arming while the pool is full",
		open: func(s setup) *rival {
			m := &mapsHeap{
				queue:  newQueue[mapsIDs](),
				pool:   must(ants.NewPool(s.workers)),
				byID:   make(map[uint32]uint32),
				toID:   make(map[uint32]uint32),
				add:    make(chan *task[mapsIDs]),
				remove: make(chan uint32),
			}
			go m.own()
			return hold(s, library[uint32]{arm: m.arm, cancel: func(id uint32) { m.remove <- id }})
		},
	}
}

// mapsIDs differ when a task has been repeated.
type mapsIDs struct{ original, current uint32 }

type mapsHeap struct {
	pool *ants.Pool
	last atomic.Uint32

	// The fields below belong to the goroutine that own runs on.
	queue queue[mapsIDs]
	byID  map[uint32]uint32 // current by original
	toID  map[uint32]uint32 // original by current; a task that is not in it is cancelled

	// The channels are unbuffered, so that each operation waits for the goroutine.
	add    chan *task[mapsIDs] // never closed
	remove chan uint32         // never closed
}

func (m *mapsHeap) arm(_ int, d time.Duration, f func()) uint32 {
	id := m.last.Add(1)
	m.add <- &task[mapsIDs]{key: mapsIDs{original: id, current: id}, at: m.queue.now() + d, f: f}
	return id
}

func (m *mapsHeap) own() {
	for {
		m.step()
	}
}

// step waits for a message or the earliest deadline.
func (m *mapsHeap) step() {
	if len(m.queue.tasks) > 0 {
		if _, ok := m.toID[m.queue.tasks[0].key.current]; !ok {
			m.queue.pop()
			return
		}
	}
	alarm := time.NewTimer(m.queue.wait(m.queue.now()))
	defer alarm.Stop()
	select {
	case <-alarm.C:
		if len(m.queue.tasks) > 0 {
			t := m.queue.pop()
			_ = m.pool.Submit(t.f) // only a released pool refuses
			delete(m.byID, t.key.original)
			delete(m.toID, t.key.current)
		}
	case original := <-m.remove:
		if current, ok := m.byID[original]; ok {
			delete(m.byID, original)
			delete(m.toID, current)
		}
	case t := <-m.add:
		m.byID[t.key.original] = t.key.current
		m.toID[t.key.current] = t.key.original
		heap.Push(&m.queue, t)
	}
}
