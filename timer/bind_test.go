package timer_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/timer"
)

// tiesContext is a context that knows how many funcs wait for its end.
type tiesContext struct {
	done  chan struct{}
	onTie func() // called by AfterFunc, if not nil

	mu   sync.Mutex // guards the fields below
	ties map[*func()]bool
}

func newTiesContext() *tiesContext {
	return &tiesContext{done: make(chan struct{}), ties: map[*func()]bool{}}
}

func (c *tiesContext) Deadline() (time.Time, bool) { return time.Time{}, false }

func (c *tiesContext) Value(any) any { return nil }

func (c *tiesContext) Done() <-chan struct{} { return c.done }

func (c *tiesContext) Err() error {
	select {
	case <-c.done:
		return context.Canceled
	default:
		return nil
	}
}

// AfterFunc is what context.AfterFunc calls.
func (c *tiesContext) AfterFunc(f func()) (stop func() bool) {
	if c.onTie != nil {
		c.onTie()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	tie := &f
	c.ties[tie] = true
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		waited := c.ties[tie]
		delete(c.ties, tie)
		return waited
	}
}

func (c *tiesContext) cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.done)
	for f := range c.ties {
		go (*f)()
	}
	clear(c.ties)
}

func (c *tiesContext) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.ties)
}

func TestBind(t *testing.T) {
	for _, tt := range []struct {
		name string
		// act does something to a timer of one minute that is bound to ctx.
		act   func(e *fixture, ctx *tiesContext, id timer.ID)
		ties  int
		fired int
		armed int
	}{
		{"left alone", func(*fixture, *tiesContext, timer.ID) {}, 1, 0, 1},
		{"context ends", func(_ *fixture, ctx *tiesContext, _ timer.ID) { ctx.cancel() }, 0, 0, 0},
		{"cancelled", func(e *fixture, _ *tiesContext, id timer.ID) { e.Cancel(id) }, 0, 0, 0},
		{"expired", func(e *fixture, _ *tiesContext, _ timer.ID) { e.advance(time.Hour) }, 0, 1, 0},
		{"expired, then the context ends", func(e *fixture, ctx *tiesContext, _ timer.ID) {
			e.advance(time.Hour)
			ctx.cancel()
		}, 0, 1, 0},
		{"touched", func(e *fixture, _ *tiesContext, id timer.ID) {
			e.Touch(id, time.Minute)
			e.advance(time.Minute + resolution)
		}, 1, 0, 1},
		{"reset", func(e *fixture, ctx *tiesContext, id timer.ID) {
			e.Reset(id, 0, time.Hour)
			e.advance(time.Minute + resolution)
			ctx.cancel()
		}, 0, 0, 0},
		{"bound to another", func(e *fixture, _ *tiesContext, id timer.ID) { e.Bind(newTiesContext(), id) }, 0, 0, 1},
		{"bound twice", func(e *fixture, ctx *tiesContext, id timer.ID) { e.Bind(ctx, id) }, 1, 0, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, timer.Config{}, func(e *fixture) {
				t := e.t
				fired := 0
				id := e.armed(e.AfterFunc(time.Minute, func() { fired++ }))
				ctx := newTiesContext()
				if !e.Bind(ctx, id) {
					t.Fatal("Bind = false")
				}
				tt.act(e, ctx, id)
				synctest.Wait()
				if ctx.len() != tt.ties || fired != tt.fired || e.Len() != tt.armed {
					t.Errorf("ties, fired, armed = %d, %d, %d, want %d, %d, %d", ctx.len(), fired, e.Len(), tt.ties, tt.fired, tt.armed)
				}
			})
		})
	}
}

func TestBindRepeating(t *testing.T) {
	bubble(t, timer.Config{}, func(e *fixture) {
		t := e.t
		fired := 0
		ctx, cancel := context.WithCancel(t.Context())
		id := e.armed(e.RepeatFunc(time.Minute, timer.FixedRate, func() { fired++ }))
		e.Bind(ctx, id)
		for range 3 {
			e.advance(time.Minute + resolution)
		}
		e.Reset(id, e.Now(), time.Hour)
		e.advance(time.Hour + resolution)
		cancel()
		synctest.Wait()
		e.advance(24 * time.Hour)
		if fired != 4 || e.Len() != 0 {
			t.Errorf("fired, armed = %d, %d, want 4, 0", fired, e.Len())
		}
	})
}

func TestBindNotArmed(t *testing.T) {
	bubble(t, timer.Config{}, func(e *fixture) {
		t := e.t
		id := e.armed(e.AfterFunc(0, func() {}))
		e.advance(resolution)
		ctx := newTiesContext()
		if e.Bind(ctx, id) || e.Bind(ctx, 0) {
			t.Error("Bind of no timer = true")
		}
		ended := e.armed(e.AfterFunc(time.Minute, func() {}))
		ctx.onTie = func() { e.Cancel(ended) }
		if e.Bind(ctx, ended) {
			t.Error("Bind of a timer that ends meanwhile = true")
		}
		if ctx.len() != 0 {
			t.Errorf("%d ties of no timer", ctx.len())
		}
		done, cancel := context.WithCancel(t.Context())
		cancel()
		e.Bind(done, e.armed(e.AfterFunc(time.Minute, func() { t.Error("bound to a context that is done, and expired") })))
		synctest.Wait()
		e.advance(time.Hour)
	})
}

// The tie is to the timer, not to its slot.
func TestBindEndsWithTimer(t *testing.T) {
	bubble(t, timer.Config{MaxTimers: 1}, func(e *fixture) {
		t := e.t
		ctx, cancel := context.WithCancel(t.Context())
		id := e.armed(e.AfterFunc(time.Minute, func() {}))
		e.Bind(ctx, id)
		e.Cancel(id)
		fired := false
		e.armed(e.AfterFunc(time.Minute, func() { fired = true })) // in the same slot
		cancel()
		synctest.Wait()
		e.advance(time.Hour)
		if !fired {
			t.Error("the next timer in the slot was cancelled")
		}
	})
}

func TestCloseEndsTies(t *testing.T) {
	bubble(t, timer.Config{}, func(e *fixture) {
		t := e.t
		ctx := newTiesContext()
		release := make(chan struct{})
		e.armed(e.AfterFunc(0, func() { <-release }))
		e.advance(resolution)
		e.Bind(ctx, e.armed(e.AfterFunc(time.Hour, func() {})))
		e.Bind(ctx, e.armed(e.RepeatFunc(time.Second, timer.FixedRate, func() {})))
		e.advance(time.Minute) // the second one is due
		close(release)
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if ctx.len() != 0 {
			t.Errorf("%d ties are left", ctx.len())
		}
	})
}
