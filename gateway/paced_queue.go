package gateway

import (
	"context"
	"sync"
	"time"
)

// paceStep is the time between two hand-outs of a paced queue.
const paceStep = 10 * time.Millisecond

// located is something that belongs to an event loop.
type located interface {
	// where returns the event loop; nil if there is none.
	where() *loop
}

// pacedQueue does something with items, in their order, at a bounded rate: when a site fails, all
// its devices are to be asked, or closed, at once, and the living must not notice.
//
// Pacing is done outside of the event loops: a task that puts itself off does not let I/O through.
type pacedQueue[T located] struct {
	perStep int
	// shares lets a part of the queue go at each step, one of so many, if that is more than
	// perStep: then no item waits for much longer than as many steps. 0: perStep is the bound.
	shares int
	most   int           // items; when there are more, the oldest is dropped; 0: no bound
	drop   func(T)       // is called with what was dropped, with the lock held
	do     func(item T)  // is called on the item's event loop, or by run if it has none
	some   chan struct{} // room for one; never closed; receives when there is something to do

	mu    sync.Mutex // guards items
	items []T
}

func (q *pacedQueue[T]) init(perSecond int, do func(T)) {
	q.perStep = max(perSecond/int(time.Second/paceStep), 1)
	q.do, q.some = do, make(chan struct{}, 1)
}

// add queues an item. It does not block.
func (q *pacedQueue[T]) add(item T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.most > 0 && len(q.items) == q.most {
		for _, oldest := range q.firstLocked(1) {
			q.drop(oldest)
		}
	}
	q.items = append(q.items, item)
	select {
	case q.some <- struct{}{}:
	default:
	}
}

// takeDue returns the items of one step.
func (q *pacedQueue[T]) takeDue() []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.perStep
	if q.shares > 0 {
		n = max(n, len(q.items)/q.shares)
	}
	return q.firstLocked(n)
}

// firstLocked takes up to n items off the queue.
func (q *pacedQueue[T]) firstLocked(n int) []T {
	n = min(n, len(q.items))
	taken := append([]T(nil), q.items[:n]...)
	clear(q.items[:n]) // what was taken is not held
	if q.items = q.items[n:]; len(q.items) == 0 {
		q.items = nil
	}
	return taken
}

// run hands items out until ctx is done.
func (q *pacedQueue[T]) run(ctx context.Context) error {
	tick := time.NewTicker(paceStep)
	defer tick.Stop()
	for {
		select {
		case <-q.some:
		case <-ctx.Done():
			return nil
		}
		for taken := q.takeDue(); len(taken) > 0; taken = q.takeDue() {
			onLoops(taken, q.do)
			select {
			case <-tick.C:
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// onLoops calls do with items, those of one event loop together and on that loop. It does not wait
// for the loops.
func onLoops[T located](items []T, do func(T)) {
	byLoop := make(map[*loop][]T)
	for _, item := range items {
		l := item.where()
		byLoop[l] = append(byLoop[l], item)
	}
	for l, some := range byLoop {
		l.soon(func() {
			for _, item := range some {
				do(item)
			}
		})
	}
}
