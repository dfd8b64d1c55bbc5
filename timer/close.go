package timer

import (
	"context"
	"fmt"
)

// Close ends the engine. Timers that are not due are dropped; callbacks that are due run. Close
// waits for them until ctx is done, then it discards those that have not started, and returns the
// cause of ctx; callbacks that run are left to end by themselves. A context that is done discards
// at once. All calls meanwhile and afterwards find the engine closed. Close may be called more than
// once, and waits each time. When it returns nil, the engine's goroutines have ended.
func (e *Engine) Close(ctx context.Context) error {
	if ctx.Err() != nil {
		e.discard.Store(true)
	}
	e.shut()
	select {
	case <-e.done:
		return nil
	case <-ctx.Done():
	}
	e.discard.Store(true)
	select {
	case <-e.done: // both were ready
		return nil
	default:
		return fmt.Errorf("timer: close: %w", context.Cause(ctx))
	}
}

func (e *Engine) shut() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing {
		return
	}
	e.closing = true
	close(e.stop)
	e.clocks.Wait()
	for _, s := range e.shards {
		s.close()
	}
	e.channels.close()
	e.ready.end()
}

// close refuses new timers, hands out those that are due, and drops the others. Its watch must have
// ended.
func (s *shard) close() {
	s.refuse()
	s.expire()
	for _, stop := range s.drop() {
		stop()
	}
}

func (s *shard) refuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// drop hides the timers from Touch, and returns the functions that unbind them.
func (s *shard) drop() (stops []func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.slabs {
		s.slabs[i].Store(nil)
	}
	s.hints = hintHeap{}
	for _, x := range s.extras {
		if x.stop != nil {
			stops = append(stops, x.stop)
			x.stop = nil // one that is due is released by a worker
		}
	}
	return stops
}
