package rivals

import (
	"container/heap"
	"errors"
	"sync/atomic"
	"time"

	"github.com/panjf2000/ants/v2"
)

// mapsContender is a stand-in, written for this comparison from the description of a published scheduler that cannot be had as
// a module: "heap and double map". One goroutine owns container/heap of boxed tasks and two maps, from a task's original id to
// its current one and back. Every operation is a message to it over an unbuffered channel, and before each message it makes a
// new time.Timer for the earliest deadline. A cancelled task stays in the heap until it comes up. A repetition gets a new current
// id, and so does a renewal, which is a removal and an addition; ids have 32 bits. What has expired is submitted to an ants pool,
// one closure each, and when the pool is full the goroutine waits, and with it all callers. Shutdown closes the channels
// even while callers send.
//
// The stand-in keeps its heap in order, and keeps the closed channels where the description sets them to nil (on which a late
// sender would hang). arm may be called concurrently.
func mapsContender() contender {
	return contender{
		name:   "heap + two maps + channels + ants (stand-in)",
		module: "github.com/panjf2000/ants/v2",
		runs:   "an ants pool",
		renews: "remove + add",
		lacks:  "a renewal; whether a cancel won; arming while the pool is full",
		open: func(s setup) (rival, error) {
			pool, err := ants.NewPool(s.workers)
			if err != nil {
				return nil, err
			}
			m := &mapsHeap{
				setup:  s,
				ids:    make([]uint32, s.n),
				pool:   pool,
				byID:   make(map[uint32]uint32),
				toID:   make(map[uint32]uint32),
				add:    make(chan *mapsTask),
				remove: make(chan uint32),
				stop:   make(chan struct{}),
				done:   make(chan struct{}),
			}
			m.running.Store(true)
			go m.own()
			return m, nil
		},
	}
}

var errShutdown = errors.New("scheduler is shut down")

type mapsTask struct {
	original, current uint32
	at                time.Time
	period            time.Duration
	once              bool
	f                 func()
}

type mapsHeap struct {
	setup

	ids     []uint32
	last    atomic.Uint32
	running atomic.Bool
	pool    *ants.Pool

	// The fields below belong to the goroutine that own runs on.
	tasks mapsTaskHeap
	byID  map[uint32]uint32 // current by original
	toID  map[uint32]uint32 // original by current; a task that is not in it is cancelled

	// Closed by own when it stops. They are unbuffered, so that each operation waits for the goroutine.
	add    chan *mapsTask
	remove chan uint32
	stop   chan struct{}

	done chan struct{} // closed when own has returned
}

func (m *mapsHeap) arm(i int, d time.Duration) error {
	if !m.running.Load() {
		return errShutdown
	}
	id := m.last.Add(1)
	m.add <- &mapsTask{original: id, current: id, at: time.Now().Add(d), period: d, once: true, f: m.callback(i)}
	m.ids[i] = id
	return nil
}

func (m *mapsHeap) touch(i int, d time.Duration) {
	m.cancel(i)
	if err := m.arm(i, d); err != nil {
		panic(err)
	}
}

func (m *mapsHeap) cancel(i int) {
	if m.running.Load() {
		m.remove <- m.ids[i]
	}
}

func (m *mapsHeap) swap(i, j int) { m.ids[i], m.ids[j] = m.ids[j], m.ids[i] }
func (m *mapsHeap) idBytes() int  { return 4 }

func (m *mapsHeap) close() {
	if m.running.CompareAndSwap(true, false) {
		m.stop <- struct{}{}
	}
	<-m.done
}

func (m *mapsHeap) own() {
	defer close(m.done)
	for m.step() {
	}
	m.pool.Release()
	close(m.add)
	close(m.remove)
	m.tasks, m.byID, m.toID = nil, nil, nil
}

// step waits for a message or the earliest deadline; it is false after a stop.
func (m *mapsHeap) step() bool {
	wait := 24 * time.Hour
	if len(m.tasks) > 0 {
		t := m.tasks[0]
		if _, ok := m.toID[t.current]; !ok {
			heap.Pop(&m.tasks)
			return true
		}
		wait = time.Until(t.at)
	}
	alarm := time.NewTimer(wait)
	defer alarm.Stop()
	select {
	case <-alarm.C:
		t := heap.Pop(&m.tasks).(*mapsTask)
		_ = m.pool.Submit(t.f) // only a released pool refuses, and it is released after the last step
		delete(m.byID, t.original)
		delete(m.toID, t.current)
	case original := <-m.remove:
		if current, ok := m.byID[original]; ok {
			delete(m.byID, original)
			delete(m.toID, current)
		}
	case t := <-m.add:
		m.byID[t.original] = t.current
		m.toID[t.current] = t.original
		heap.Push(&m.tasks, t)
	case <-m.stop:
		return false
	}
	return true
}

// mapsTaskHeap implements heap.Interface.
type mapsTaskHeap []*mapsTask

func (q mapsTaskHeap) Len() int           { return len(q) }
func (q mapsTaskHeap) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q mapsTaskHeap) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *mapsTaskHeap) Push(x any)        { *q = append(*q, x.(*mapsTask)) }

func (q *mapsTaskHeap) Pop() any {
	n := len(*q) - 1
	t := (*q)[n]
	(*q)[n] = nil
	*q = (*q)[:n]
	return t
}
