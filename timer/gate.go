package timer

import "sync/atomic"

// gate bounds the tasks that run at a time. Only one goroutine, feed, waits at it.
//
// The pool does not: it gives work to any worker that is idle, also when it has been told to have
// fewer of them.
type gate struct {
	limit   atomic.Int64 // Unlimited: none
	running atomic.Int64
	changed chan struct{} // room for one; never closed; receives when there may be room that was not there
}

func newGate(limit int) *gate {
	g := &gate{changed: make(chan struct{}, 1)}
	g.limit.Store(int64(limit))
	return g
}

// resize changes the limit. Tasks that run are not disturbed.
func (g *gate) resize(limit int) {
	g.limit.Store(int64(limit))
	g.signal()
}

func (g *gate) unlimited() bool { return g.limit.Load() == Unlimited }

// tryEnter counts one more task and reports whether there was room for it.
func (g *gate) tryEnter() bool {
	if limit := g.limit.Load(); limit != Unlimited && g.running.Load() >= limit {
		return false
	}
	g.running.Add(1)
	return true
}

// over reports whether more tasks run than may.
func (g *gate) over() bool {
	limit := g.limit.Load()
	return limit != Unlimited && g.running.Load() > limit
}

// enter is tryEnter, and waits for room.
func (g *gate) enter() {
	for !g.tryEnter() {
		<-g.changed
	}
}

// join counts more tasks, without waiting.
func (g *gate) join(tasks int) { g.running.Add(int64(tasks)) }

// leave counts a task that has ended.
func (g *gate) leave() {
	g.running.Add(-1)
	g.signal()
}

// drain waits until no task runs. No other may enter meanwhile.
func (g *gate) drain() {
	for g.running.Load() > 0 {
		<-g.changed
	}
}

func (g *gate) signal() {
	select {
	case g.changed <- struct{}{}:
	default:
	}
}
