package link

import (
	"context"
	"sync"
)

// caller makes all calls to the owner of an ear, in their order and by one goroutine, so that
// nobody is called with a lock held.
type caller struct {
	mu    sync.Mutex // guards what follows
	calls []func()
	over  bool

	some chan struct{} // room for one; never closed; receives when there are calls
}

func (c *caller) init() { c.some = make(chan struct{}, 1) }

// add has f called. It does not block.
func (c *caller) add(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		go f() // somebody asks after the end
		return
	}
	c.calls = append(c.calls, f)
	select {
	case c.some <- struct{}{}:
	default:
	}
}

// takeCalls takes the calls that are to be made. If there are none and last is set, there will be none.
func (c *caller) takeCalls(last bool) []func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.calls
	c.calls = nil
	c.over = last && len(taken) == 0
	return taken
}

// run makes the calls until ctx is done, and then those that are left.
func (c *caller) run(ctx context.Context) {
	for last := false; ; {
		calls := c.takeCalls(last)
		for _, f := range calls {
			f()
		}
		switch {
		case len(calls) > 0:
		case last:
			return
		default:
			select {
			case <-c.some:
			case <-ctx.Done():
				last = true
			}
		}
	}
}

// shards is how many lists of sessions there are.
const shards = 16

// marked is the sessions that were heard since they were reported last.
type marked [shards]struct {
	mu       sync.Mutex // guards sessions
	sessions []*Session

	_ [32]byte // two do not share a cache line
}

// add puts a session into the list.
func (m *marked) add(s *Session) {
	list := &m[s.slot%shards]
	list.mu.Lock()
	list.sessions = append(list.sessions, s)
	list.mu.Unlock()
}

// takeMarked takes the sessions.
func (m *marked) takeMarked() []*Session {
	var all []*Session
	for i := range m {
		list := &m[i]
		list.mu.Lock()
		all = append(all, list.sessions...)
		clear(list.sessions)
		list.sessions = list.sessions[:0]
		list.mu.Unlock()
	}
	return all
}
