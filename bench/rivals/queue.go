package rivals

import (
	"container/heap"
	"time"
)

// task is what a stand-in keeps of a timer.
type task[K any] struct {
	key   K // what the stand-in knows it by
	at    time.Duration
	index int // in its queue
	f     func()
}

// queue is container/heap of tasks, the earliest first. Instants count from origin.
type queue[K any] struct {
	origin time.Time
	tasks  []*task[K]
}

func newQueue[K any]() queue[K] { return queue[K]{origin: time.Now()} }

func (q *queue[K]) now() time.Duration { return time.Since(q.origin) }

// wait returns the time until the first task is due; an hour if there is none.
func (q *queue[K]) wait(now time.Duration) time.Duration {
	if len(q.tasks) == 0 {
		return time.Hour
	}
	return q.tasks[0].at - now
}

func (q *queue[K]) pop() *task[K] { return heap.Pop(q).(*task[K]) }

// Len implements heap.Interface, and so do the methods below.
func (q *queue[K]) Len() int           { return len(q.tasks) }
func (q *queue[K]) Less(i, j int) bool { return q.tasks[i].at < q.tasks[j].at }

func (q *queue[K]) Swap(i, j int) {
	q.tasks[i], q.tasks[j] = q.tasks[j], q.tasks[i]
	q.tasks[i].index, q.tasks[j].index = i, j
}

func (q *queue[K]) Push(x any) {
	t := x.(*task[K])
	t.index = len(q.tasks)
	q.tasks = append(q.tasks, t)
}

func (q *queue[K]) Pop() any {
	n := len(q.tasks) - 1
	t := q.tasks[n]
	q.tasks[n] = nil
	q.tasks = q.tasks[:n]
	return t
}
