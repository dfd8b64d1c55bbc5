package commit

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// patience is how long an item is held at most.
	patience = 2 * time.Second
	// maxAsked is how many calls of the func that New was given may be outstanding.
	maxAsked = 1024
)

// Queue holds items until all that had happened when they were added is committed. Make one with [New],
// and keep [Queue.Run] running.
type Queue[T any] struct {
	afterCommit func(done func(committed bool))
	settle      func(items []T, committed bool)

	mu    sync.Mutex // guards fresh
	fresh []T

	some  chan struct{} // room for one; never closed; receives when there are fresh items, or a wait has ended
	asked atomic.Int64  // how many times afterCommit was called and has not answered yet
}

// New returns an empty queue. afterCommit calls its argument once all that has happened is committed, or,
// with false, will not be; it is liveness.Registry.AfterCommit. settle lets items go, which are its own
// from then on. They are not committed if afterCommit says so, or has not answered for 2 s. It is called
// by the goroutine of Run, with the items in the order in which they were added, and must not block.
func New[T any](afterCommit func(done func(committed bool)), settle func(items []T, committed bool)) *Queue[T] {
	return &Queue[T]{afterCommit: afterCommit, settle: settle, some: make(chan struct{}, 1)}
}

// Add takes items. It does not block, and may be called concurrently.
func (q *Queue[T]) Add(items ...T) {
	if len(items) == 0 {
		return
	}
	q.mu.Lock()
	q.fresh = append(q.fresh, items...)
	q.mu.Unlock()
	q.wake()
}

func (q *Queue[T]) wake() {
	select {
	case q.some <- struct{}{}:
	default:
	}
}

func (q *Queue[T]) takeDue() []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	taken := q.fresh
	q.fresh = nil
	return taken
}

// held is items that wait for one call of afterCommit.
type held[T any] struct {
	items   []T
	since   time.Time
	asked   bool
	outcome atomic.Int32 // 0 while there is no answer, then one of those below
}

const (
	isCommitted = 1 + iota
	isLost
)

// ask has it reported when all that the items tell of is committed.
func (q *Queue[T]) ask(g *held[T]) {
	if g.asked || q.asked.Load() >= maxAsked {
		return
	}
	g.asked = true
	q.asked.Add(1)
	q.afterCommit(func(committed bool) {
		if committed {
			g.outcome.Store(isCommitted)
		} else {
			g.outcome.Store(isLost)
		}
		q.asked.Add(-1)
		q.wake()
	})
}

// Run lets items go until ctx is done. Call it once.
func (q *Queue[T]) Run(ctx context.Context) {
	alarm := time.NewTimer(patience)
	defer alarm.Stop()
	for groups := []*held[T](nil); ; {
		select {
		case <-q.some:
		case <-alarm.C:
		case <-ctx.Done():
			return
		}
		now := time.Now()
		if fresh := q.takeDue(); len(fresh) > 0 {
			if n := len(groups); n > 0 && !groups[n-1].asked { // as there is no answer for so many, these may wait for less long
				groups[n-1].items = append(groups[n-1].items, fresh...)
			} else {
				groups = append(groups, &held[T]{items: fresh, since: now})
			}
		}
		if n := len(groups); n > 0 {
			q.ask(groups[n-1])
		}
		for len(groups) > 0 {
			g := groups[0]
			outcome := g.outcome.Load()
			if outcome == 0 && now.Sub(g.since) < patience {
				alarm.Reset(g.since.Add(patience).Sub(now))
				break
			}
			q.settle(g.items, outcome == isCommitted)
			g.items, groups = nil, groups[1:] // afterCommit may keep g for long
		}
	}
}
