// Package commit has what goes with commits: a [Group] writes items of many goroutines together, and a
// [Queue] holds what may be said only once something is committed. It knows neither what the items are
// nor who commits.
package commit

import (
	"context"
	"sync"
	"time"
)

// Group writes items together: those that come during a transaction share the next one. Set its fields before the first use.
type Group[T any] struct {
	// Write writes items, all or none, and may change them. It is called by one goroutine at a time.
	Write func(ctx context.Context, items []*T) error
	// Most is the maximum number of items of one call, or the sum of their weights. An item that weighs
	// more has a call of its own.
	Most int
	// Weigh returns the weight of an item. Nil: each weighs 1.
	Weigh func(item *T) int
	// Patience is how long one call may take.
	Patience time.Duration

	mu      sync.Mutex // guards the fields below
	waiting []entry[T]
	writing bool
}

// entry is an item that a goroutine waits for.
type entry[T any] struct {
	item *T
	done chan error // capacity 1, sent to once
}

// Add writes an item, and returns the error of its Write. If ctx ends before, it returns the cause, and
// the item may be written nevertheless.
func (g *Group[T]) Add(ctx context.Context, item *T) error {
	mine := entry[T]{item, make(chan error, 1)}
	g.mu.Lock()
	g.waiting = append(g.waiting, mine)
	first := !g.writing
	g.writing = true
	g.mu.Unlock()
	if first {
		go g.write() //nolint:contextcheck // other goroutines wait for it, too
	}
	select {
	case err := <-mine.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// write writes until no item waits.
func (g *Group[T]) write() {
	for {
		g.mu.Lock()
		some := g.waiting[:g.fitLocked()]
		g.waiting = g.waiting[len(some):]
		if len(some) == 0 {
			g.waiting, g.writing = nil, false
			g.mu.Unlock()
			return
		}
		g.mu.Unlock()
		items := make([]*T, len(some))
		for i := range some {
			items[i] = some[i].item
		}
		ctx, cancel := context.WithTimeout(context.Background(), g.Patience)
		err := g.Write(ctx, items)
		cancel()
		for i := range some {
			some[i].done <- err
		}
	}
}

// fitLocked returns how many of the items that wait go together.
func (g *Group[T]) fitLocked() int {
	if g.Weigh == nil {
		return min(len(g.waiting), g.Most)
	}
	sum := 0
	for i := range g.waiting {
		if sum += g.Weigh(g.waiting[i].item); i > 0 && sum > g.Most {
			return i
		}
	}
	return len(g.waiting)
}
