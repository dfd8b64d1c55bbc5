package timer_test

import (
	"context"
	"runtime"
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
		done := make(chan struct{})
		e.BindChan(done, e.armed(e.AfterFunc(time.Hour, func() {})))
		e.BindChan(done, e.armed(e.AfterFunc(time.Second, func() {})))
		e.BindChan(done, e.armed(e.RepeatFunc(time.Second, timer.FixedRate, func() {})))
		e.advance(time.Minute) // those of a second are due
		close(release)
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if ctx.len() != 0 || e.Channels() != 0 {
			t.Errorf("%d ties and %d channels are left", ctx.len(), e.Channels())
		}
	})
}

func TestBindChan(t *testing.T) {
	for _, tt := range []struct {
		name string
		// act does something to a timer of one minute that is bound to done.
		act      func(e *fixture, done chan struct{}, id timer.ID)
		channels int
		fired    int
		armed    int
	}{
		{"left alone", func(*fixture, chan struct{}, timer.ID) {}, 1, 0, 1},
		{"closed", func(_ *fixture, done chan struct{}, _ timer.ID) { close(done) }, 0, 0, 0},
		{"receives a value", func(_ *fixture, done chan struct{}, _ timer.ID) { done <- struct{}{} }, 0, 0, 0},
		{"cancelled", func(e *fixture, _ chan struct{}, id timer.ID) { e.Cancel(id) }, 0, 0, 0},
		{"expired", func(e *fixture, _ chan struct{}, _ timer.ID) { e.advance(time.Hour) }, 0, 1, 0},
		{"touched", func(e *fixture, _ chan struct{}, id timer.ID) {
			e.Touch(id, time.Minute)
			e.advance(time.Minute + resolution)
		}, 1, 0, 1},
		{"bound to another channel", func(e *fixture, done chan struct{}, id timer.ID) {
			e.BindChan(make(chan struct{}), id)
			close(done)
		}, 1, 0, 1},
		{"bound to a context", func(e *fixture, done chan struct{}, id timer.ID) {
			e.Bind(newTiesContext(), id)
			close(done)
		}, 0, 0, 1},
		{"bound to nil", func(e *fixture, done chan struct{}, id timer.ID) {
			e.BindChan(nil, id)
			close(done)
		}, 1, 0, 1},
		{"bound twice", func(e *fixture, done chan struct{}, id timer.ID) { e.BindChan(done, id) }, 1, 0, 1},
		{"bound twice, then closed", func(e *fixture, done chan struct{}, id timer.ID) {
			e.BindChan(done, id)
			close(done)
		}, 0, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, timer.Config{}, func(e *fixture) {
				t := e.t
				fired := 0
				id := e.armed(e.AfterFunc(time.Minute, func() { fired++ }))
				done := make(chan struct{})
				if !e.BindChan(done, id) {
					t.Fatal("BindChan = false")
				}
				tt.act(e, done, id)
				synctest.Wait()
				if e.Channels() != tt.channels || fired != tt.fired || e.Len() != tt.armed {
					t.Errorf("channels, fired, armed = %d, %d, %d, want %d, %d, %d", e.Channels(), fired, e.Len(), tt.channels, tt.fired, tt.armed)
				}
			})
		})
	}
}

// From a context to a channel.
func TestBindChanInstead(t *testing.T) {
	bubble(t, timer.Config{}, func(e *fixture) {
		t := e.t
		ctx, done := newTiesContext(), make(chan struct{})
		id := e.armed(e.AfterFunc(time.Minute, func() {}))
		e.Bind(ctx, id)
		e.BindChan(done, id)
		if ctx.len() != 0 || e.Channels() != 1 {
			t.Errorf("ties, channels = %d, %d, want 0, 1", ctx.len(), e.Channels())
		}
		close(done)
		synctest.Wait()
		if e.Len() != 0 {
			t.Error("the timer is armed though its channel is closed")
		}
	})
}

func TestBindChanNotArmed(t *testing.T) {
	bubble(t, timer.Config{}, func(e *fixture) {
		t := e.t
		id := e.armed(e.AfterFunc(0, func() {}))
		e.advance(resolution)
		if e.BindChan(make(chan struct{}), id) || e.BindChan(nil, 0) || e.Channels() != 0 {
			t.Errorf("BindChan of no timer = true, or it leaves one of %d channels", e.Channels())
		}
		closed := make(chan struct{})
		close(closed)
		e.BindChan(closed, e.armed(e.AfterFunc(time.Minute, func() { t.Error("bound to a closed channel, and expired") })))
		synctest.Wait()
		if e.Channels() != 0 {
			t.Error("a closed channel is waited for")
		}
		e.advance(time.Hour)
	})
}

// Timers of one channel share a goroutine, which goes with the last of them, and comes back with
// the next.
func TestBindChanShares(t *testing.T) {
	bubble(t, timer.Config{Shards: 4}, func(e *fixture) {
		t := e.t
		done := make(chan struct{})
		g := e.group(func([]timer.Expired) {})
		before := runtime.NumGoroutine()
		arm := func() (ids []timer.ID) {
			for range 1000 {
				id := e.armed(g.Arm(e.Now(), time.Hour, 0))
				e.BindChan(done, id)
				ids = append(ids, id)
			}
			synctest.Wait()
			return ids
		}
		for round := range 3 {
			for _, id := range arm() {
				e.Cancel(id)
			}
			synctest.Wait()
			if e.Channels() != 0 {
				t.Errorf("round %d: %d channels, want 0", round, e.Channels())
			}
		}
		arm()
		if n := runtime.NumGoroutine() - before; e.Channels() != 1 || n > 10 {
			t.Errorf("%d channels and %d more goroutines for 1000 timers of one channel", e.Channels(), n)
		}
		close(done)
		synctest.Wait()
		if e.Len() != 0 || e.Channels() != 0 {
			t.Errorf("armed, channels = %d, %d, want 0, 0", e.Len(), e.Channels())
		}
	})
}

// Everything ends in any order: channels close, timers are cancelled, bound anew and expire, and
// the engine is closed.
func TestBindChanConcurrent(t *testing.T) {
	for range 20 {
		e, err := timer.Start(timer.Config{Shards: 2, Workers: 2})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 20 {
					done := make(chan struct{})
					var ids []timer.ID
					for i := range 10 {
						id, err := e.AfterFunc(time.Duration(i%3)*time.Millisecond, func() {})
						if err != nil {
							return // closed
						}
						e.BindChan(done, id)
						e.BindChan(done, id)
						ids = append(ids, id)
					}
					e.Cancel(ids[9])
					wg.Go(func() { close(done) })
					for _, id := range ids {
						e.BindChan(done, id)
					}
				}
			})
		}
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if n := e.Channels(); n != 0 {
			t.Errorf("%d channels are left", n)
		}
		wg.Wait()
	}
}
