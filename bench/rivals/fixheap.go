package rivals

import (
	"container/heap"
	"sync"
	"time"
)

// fixHeapContender is how most services that need leases do it, etcd's lessor among them: container/heap of pointers, a map by
// id, one mutex, and heap.Fix for a renewal. Written for this comparison. etcd looks for expired leases each 500 ms; this one
// sleeps until the earliest deadline. Like etcd's it passes on what has expired in batches, on a channel of 16. When the channel is full
// it waits, so that slow callbacks delay the clock, but never an arming.
func fixHeapContender() contender {
	return contender{
		name:   "container/heap + map + mutex",
		runs:   "workers",
		renews: "heap.Fix",
		lacks:  "on-time expiry while callbacks are slow",
		open: func(s setup) (rival, error) {
			h := &fixHeap{
				setup:  s,
				ids:    make([]uint64, s.n),
				byID:   make(map[uint64]*lease),
				wake:   make(chan struct{}, 1),
				stop:   make(chan struct{}),
				due:    make(chan []func(), 16),
				origin: time.Now(),
			}
			for range s.workers {
				h.running.Go(h.work)
			}
			h.driver.Go(h.drive)
			return h, nil
		},
	}
}

type lease struct {
	id    uint64
	at    time.Duration
	index int
	f     func()
}

type fixHeap struct {
	setup

	ids    []uint64
	origin time.Time

	mu     sync.Mutex // guards the fields below
	leases leaseHeap
	byID   map[uint64]*lease
	last   uint64

	wake    chan struct{} // room for one; never closed
	stop    chan struct{} // closed by close
	due     chan []func() // closed by close, when the driver has ended
	driver  sync.WaitGroup
	running sync.WaitGroup
}

func (h *fixHeap) arm(i int, d time.Duration) error {
	l := &lease{at: time.Since(h.origin) + d, f: h.callback(i)}
	h.mu.Lock()
	h.last++
	l.id = h.last
	h.byID[l.id] = l
	heap.Push(&h.leases, l)
	first := l.index == 0
	h.mu.Unlock()
	h.ids[i] = l.id
	if first {
		select {
		case h.wake <- struct{}{}:
		default:
		}
	}
	return nil
}

func (h *fixHeap) touch(i int, d time.Duration) {
	at := time.Since(h.origin) + d
	h.mu.Lock()
	defer h.mu.Unlock()
	if l, ok := h.byID[h.ids[i]]; ok {
		l.at = at
		heap.Fix(&h.leases, l.index)
	}
}

func (h *fixHeap) cancel(i int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l, ok := h.byID[h.ids[i]]; ok {
		heap.Remove(&h.leases, l.index)
		delete(h.byID, l.id)
	}
}

func (h *fixHeap) swap(i, j int) { h.ids[i], h.ids[j] = h.ids[j], h.ids[i] }
func (h *fixHeap) idBytes() int  { return 8 }

func (h *fixHeap) close() {
	close(h.stop)
	h.driver.Wait()
	close(h.due)
	h.running.Wait()
}

// drive sleeps until the earliest deadline and passes on what is due.
func (h *fixHeap) drive() {
	t := time.NewTimer(time.Hour)
	defer t.Stop()
	for {
		funcs, wait := h.expire()
		if len(funcs) > 0 {
			select {
			case h.due <- funcs:
				continue
			case <-h.stop:
				return
			}
		}
		t.Reset(wait)
		select {
		case <-t.C:
		case <-h.wake:
		case <-h.stop:
			return
		}
	}
}

// expire takes at most 256 timers that are due, or returns for how long none is.
func (h *fixHeap) expire() (funcs []func(), wait time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Since(h.origin)
	for len(h.leases) > 0 && len(funcs) < 256 {
		l := h.leases[0]
		if l.at > now {
			return funcs, l.at - now
		}
		heap.Pop(&h.leases)
		delete(h.byID, l.id)
		funcs = append(funcs, l.f)
	}
	return funcs, time.Hour
}

func (h *fixHeap) work() {
	for funcs := range h.due {
		for _, f := range funcs {
			f()
		}
	}
}

// leaseHeap implements heap.Interface.
type leaseHeap []*lease

func (q leaseHeap) Len() int           { return len(q) }
func (q leaseHeap) Less(i, j int) bool { return q[i].at < q[j].at }

func (q leaseHeap) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *leaseHeap) Push(x any) {
	l := x.(*lease)
	l.index = len(*q)
	*q = append(*q, l)
}

func (q *leaseHeap) Pop() any {
	n := len(*q) - 1
	l := (*q)[n]
	(*q)[n] = nil
	*q = (*q)[:n]
	return l
}
