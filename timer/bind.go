package timer

import (
	"context"
	"sync"
)

// Bind cancels a timer when ctx is done, and reports whether the timer was armed. The binding ends
// with the timer. A timer is bound to at most one context or channel, the last one.
func (e *Engine) Bind(ctx context.Context, id ID) bool {
	if _, ok := e.load(id); !ok {
		return false
	}
	return e.bind(id, context.AfterFunc(ctx, func() { e.Cancel(id) }))
}

// BindChan is Bind to a channel that is closed instead of a context. A value that the channel
// receives cancels, too, but only one receiver gets it, so all that are bound to the channel should
// be bound to the same engine. A nil channel is never closed.
//
// There is one goroutine for each channel, however many timers are bound to it, and none for a
// channel to which no timer is bound any longer. It cancels them one after the other.
func (e *Engine) BindChan(done <-chan struct{}, id ID) bool {
	if _, ok := e.load(id); !ok {
		return false
	}
	stop := e.channels.tie(done, id, e.Cancel)
	return stop != nil && e.bind(id, stop)
}

// bind makes stop the function that unbinds a timer, and calls the one before. It calls stop if the
// timer has ended.
func (e *Engine) bind(id ID, stop func() bool) bool {
	before, ok := e.shards[id.shard()].bind(id, stop)
	if before != nil {
		before()
	}
	if !ok {
		stop()
	}
	return ok
}

// bind stores the function that unbinds a timer, and returns the one before.
func (s *shard) bind(id ID, stop func() bool) (before func() bool, ok bool) {
	s.mu.Lock()
	defer s.unlock()
	r := id.ref()
	if s.closed {
		return nil, false
	}
	m := s.mapLocked(r)
	if _, ok := m.Load(id.original()); !ok {
		return nil, false
	}
	x := s.extras[r]
	if x == nil {
		x = &extra{}
		s.setExtraLocked(m, r, x)
	}
	if _, ok := m.Load(id.original()); !ok { // cancelled, perhaps before it could be seen that there is an extra
		s.dropExtraLocked(m, r)
		return nil, false
	}
	before, x.stop = x.stop, stop
	return before, true
}

// channels are those that timers are bound to.
type channels struct {
	watches sync.WaitGroup // a goroutine for each channel

	mu     sync.Mutex // guards the fields below, and the ties
	closed bool
	open   map[<-chan struct{}]*channel // those with ties
}

type channel struct {
	ties   map[*ID]struct{} // a timer may have two for a moment
	unused chan struct{}    // closed when the last tie has ended
}

// tie has a timer cancelled when a channel is closed. It returns the function that ends the tie,
// which must be called once, and reports whether the timer had not been cancelled; nil if the
// channels are closed.
func (c *channels) tie(done <-chan struct{}, id ID, cancel func(ID) bool) (end func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	ch := c.open[done]
	if ch == nil {
		ch = &channel{ties: make(map[*ID]struct{}), unused: make(chan struct{})}
		if c.open == nil {
			c.open = make(map[<-chan struct{}]*channel)
		}
		c.open[done] = ch
		c.watches.Go(func() { c.watch(done, ch, cancel) })
	}
	ch.ties[&id] = struct{}{}
	return func() bool { return c.untie(done, ch, &id) }
}

// untie ends a tie, and reports whether it was one still.
func (c *channels) untie(done <-chan struct{}, ch *channel, id *ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, tied := ch.ties[id]; !tied {
		return false
	}
	delete(ch.ties, id)
	if len(ch.ties) == 0 {
		delete(c.open, done)
		close(ch.unused)
	}
	return true
}

// watch cancels the timers that are bound to a channel when it is closed.
func (c *channels) watch(done <-chan struct{}, ch *channel, cancel func(ID) bool) {
	select {
	case <-done:
		for id := range c.takeTimers(done, ch) {
			cancel(*id)
		}
	case <-ch.unused:
	}
}

// takeTimers ends all ties of a channel and returns them. If ch has none left, others may have come since: what
// the channel received is for them.
func (c *channels) takeTimers(done <-chan struct{}, ch *channel) map[*ID]struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if open := c.open[done]; open != nil && open != ch {
		close(open.unused)
		ch = open
	}
	ties := ch.ties
	ch.ties = nil
	if len(ties) > 0 { // else it is not among the open ones any longer
		delete(c.open, done)
	}
	return ties
}

// close makes tie return nil, and waits for the goroutines. All ties must end.
func (c *channels) close() {
	c.refuse()
	c.watches.Wait()
}

func (c *channels) refuse() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
}
