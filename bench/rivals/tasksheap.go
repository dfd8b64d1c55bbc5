package rivals

import (
	"errors"
	"sync"
	"time"
)

// tasksContender is a stand-in, written for this comparison, of htask, which cannot be had as a module: a min-heap of tasks on one
// goroutine, a channel for each task that is closed to cancel it, and a fixed number of workers that are handed one task at a
// time. A cancelled task stays in the heap until it is the first. While all workers are busy nothing expires, but tasks can be
// added. It cannot renew a task, and cannot say whether a cancel came in time. Closing drops what is left.
func tasksContender() contender {
	return contender{
		name:   "min-heap + cancel channels, htask (stand-in)",
		runs:   "workers",
		renews: "cancel + add",
		lacks:  "a renewal; whether a cancel won; on-time expiry while callbacks are slow",
		open: func(s setup) (rival, error) {
			t := &tasksHeap{
				setup:   s,
				cancels: make([]chan struct{}, s.n),
				add:     make(chan task),
				work:    make(chan task),
				stop:    make(chan struct{}),
			}
			for range s.workers {
				t.running.Go(t.worker)
			}
			t.running.Go(t.schedule)
			return t, nil
		},
	}
}

var errStopped = errors.New("scheduler is closed")

type task struct {
	cancelled chan struct{}
	at        time.Time
	f         func()
}

func (t task) isCancelled() bool {
	select {
	case <-t.cancelled:
		return true
	default:
		return false
	}
}

type tasksHeap struct {
	setup

	cancels []chan struct{} // closed by cancel

	add     chan task     // unbuffered: an addition waits for the scheduler; never closed
	work    chan task     // unbuffered: a task waits for an idle worker; never closed
	stop    chan struct{} // closed by close
	running sync.WaitGroup
}

func (t *tasksHeap) arm(i int, d time.Duration) error {
	t.cancels[i] = make(chan struct{})
	select {
	case t.add <- task{cancelled: t.cancels[i], at: time.Now().Add(d), f: t.callback(i)}:
		return nil
	case <-t.stop:
		return errStopped
	}
}

func (t *tasksHeap) touch(i int, d time.Duration) {
	t.cancel(i)
	if err := t.arm(i, d); err != nil {
		panic(err)
	}
}

func (t *tasksHeap) cancel(i int)  { close(t.cancels[i]) }
func (t *tasksHeap) swap(i, j int) { t.cancels[i], t.cancels[j] = t.cancels[j], t.cancels[i] }
func (t *tasksHeap) idBytes() int  { return 8 }

func (t *tasksHeap) close() {
	close(t.stop)
	t.running.Wait()
}

// schedule owns the heap.
func (t *tasksHeap) schedule() {
	var tasks []task
	alarm := time.NewTimer(time.Hour)
	defer alarm.Stop()
	for {
		for len(tasks) > 0 && tasks[0].isCancelled() {
			tasks = popTask(tasks)
		}
		var first task
		var work chan task // nil while nothing is due
		if len(tasks) > 0 {
			first = tasks[0]
			if wait := time.Until(first.at); wait > 0 {
				alarm.Reset(wait)
			} else {
				work = t.work
			}
		}
		select {
		case added := <-t.add:
			tasks = pushTask(tasks, added)
		case work <- first:
			tasks = popTask(tasks)
		case <-first.cancelled:
		case <-alarm.C:
		case <-t.stop:
			return
		}
	}
}

func (t *tasksHeap) worker() {
	for {
		select {
		case due := <-t.work:
			due.f()
		case <-t.stop:
			return
		}
	}
}

// pushTask adds a task to a binary min-heap.
func pushTask(q []task, added task) []task {
	q = append(q, added)
	i := len(q) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !added.at.Before(q[parent].at) {
			break
		}
		q[i] = q[parent]
		i = parent
	}
	q[i] = added
	return q
}

// popTask removes the first task of a binary min-heap.
func popTask(q []task) []task {
	n := len(q) - 1
	last := q[n]
	q[n] = task{}
	q = q[:n]
	if n == 0 {
		return q
	}
	i := 0
	for child := 1; child < n; child = 2*i + 1 {
		if child+1 < n && q[child+1].at.Before(q[child].at) {
			child++
		}
		if !q[child].at.Before(last.at) {
			break
		}
		q[i] = q[child]
		i = child
	}
	q[i] = last
	return q
}
