package timer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/timer"
)

// closed checks that everything finds an engine closed, with the identifier of a timer that was
// armed.
func closed(t *testing.T, e *timer.Engine, g *timer.Group, id timer.ID) {
	t.Helper()
	f := func() { t.Error("a callback runs though the engine is closed") }
	for name, arm := range map[string]func() (timer.ID, error){
		"Arm":        func() (timer.ID, error) { return g.Arm(0, 0, 0) },
		"ArmAt":      func() (timer.ID, error) { return g.ArmAt(0, 0, 0) },
		"Repeat":     func() (timer.ID, error) { return g.Repeat(0, 1, timer.FixedRate, 0) },
		"AfterFunc":  func() (timer.ID, error) { return e.AfterFunc(0, f) },
		"AtFunc":     func() (timer.ID, error) { return e.AtFunc(0, f) },
		"AtTime":     func() (timer.ID, error) { return e.AtTime(time.Now(), f) },
		"RepeatFunc": func() (timer.ID, error) { return e.RepeatFunc(1, timer.FixedDelay, f) },
	} {
		if id, err := arm(); !errors.Is(err, timer.ErrClosed) || id != 0 {
			t.Errorf("%s = %v, %v, want 0, ErrClosed", name, id, err)
		}
	}
	if _, err := e.Group(func([]timer.Expired) {}); !errors.Is(err, timer.ErrClosed) {
		t.Errorf("Group = %v, want ErrClosed", err)
	}
	e.Prefetch(id)
	_, known := e.Deadline(id)
	_, remains := e.Remaining(id, 0)
	if known || remains || e.Touch(id, 0) || e.TouchTo(id, 0) || e.Reset(id, 0, 1) || e.Cancel(id) || e.Bind(t.Context(), id) || e.BindChan(nil, id) {
		t.Error("a timer is armed though the engine is closed")
	}
	if st := e.Stats(); e.Len() != 0 || st.Armed != 0 || st.Hints != 0 || st.Dead != 0 || st.Queued != 0 {
		t.Errorf("Len, Armed, Hints, Dead, Queued = %d, %d, %d, %d, %d, want 0", e.Len(), st.Armed, st.Hints, st.Dead, st.Queued)
	}
}

// What is due when Close is called runs, also if no shard has looked at the clock since; what is
// not due is dropped.
func TestCloseRunsWhatIsDue(t *testing.T) {
	for _, shards := range []int{1, 16} {
		t.Run(fmt.Sprintf("shards=%d", shards), func(t *testing.T) {
			bubble(t, timer.Config{Shards: shards, MaxTimers: 200}, func(e *fixture) {
				t := e.t
				var r recorder
				var calls atomic.Int32
				g := e.group(r.handle)
				var last timer.ID
				for i := range uint64(50) {
					e.armed(g.Arm(0, time.Second, i))
					e.armed(e.AfterFunc(time.Second, func() { calls.Add(1) }))
					e.armed(e.AfterFunc(time.Hour, func() { t.Error("dropped, yet called") }))
					last = e.armed(g.Repeat(0, time.Second, timer.FixedDelay, i))
				}
				e.clock.Advance(time.Second + resolution)
				if err := e.Close(t.Context()); err != nil {
					t.Errorf("Close = %v", err)
				}
				if n := len(r.take()); n != 100 || calls.Load() != 50 {
					t.Errorf("%d timers of the group expired and %d funcs, want 100 and 50", n, calls.Load())
				}
				closed(t, e.Engine, g, last)
				if err := e.Close(t.Context()); err != nil {
					t.Errorf("second Close = %v", err)
				}
				ended, cancel := context.WithCancel(t.Context())
				cancel()
				if err := e.Close(ended); err != nil {
					t.Errorf("Close of a closed engine with a context that is done = %v", err)
				}
			})
		})
	}
}

// Room that was never given back is no reason to say something else.
func TestClosedThoughFull(t *testing.T) {
	bubble(t, timer.Config{MaxTimers: 1}, func(e *fixture) {
		t := e.t
		g := e.group(func([]timer.Expired) {})
		id := e.armed(g.Arm(0, time.Hour, 0))
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
		closed(t, e.Engine, g, id)
		if n := e.Stats().Rejected; n != 0 {
			t.Errorf("Rejected = %d, want 0", n)
		}
	})
}

func TestCloseDiscards(t *testing.T) {
	errWhy := errors.New("took too long")
	for _, tt := range []struct {
		name string
		ctx  func(ctx context.Context) (context.Context, context.CancelFunc)
		want error
	}{
		{"after a while", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		}, context.DeadlineExceeded},
		{"at once", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx, cancel
		}, context.Canceled},
		{"with a cause", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(ctx, time.Second, errWhy)
		}, errWhy},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, timer.Config{}, func(e *fixture) {
				t := e.t
				var r recorder
				g := e.group(r.handle)
				release := make(chan struct{})
				ended := false
				e.armed(e.AfterFunc(0, func() {
					<-release
					ended = true
				}))
				e.advance(resolution)
				var last timer.ID
				for i := range uint64(2000) {
					last = e.armed(g.Arm(0, 0, i))
					e.armed(e.AfterFunc(0, func() { t.Error("discarded, yet called") }))
				}
				synctest.Wait()
				ctx, cancel := tt.ctx(t.Context())
				defer cancel()
				if err := e.Close(ctx); !errors.Is(err, tt.want) {
					t.Errorf("Close = %v, want %v", err, tt.want)
				}
				if ended {
					t.Error("Close waited for the callback")
				}
				close(release)
				if err := e.Close(t.Context()); err != nil {
					t.Errorf("second Close = %v", err)
				}
				if !ended {
					t.Error("the second Close did not wait for the callback")
				}
				r.want(t, "after Close")
				closed(t, e.Engine, g, last)
			})
		})
	}
}

func TestCloseByMany(t *testing.T) {
	bubble(t, timer.Config{}, func(e *fixture) {
		t := e.t
		ended := false
		e.armed(e.AfterFunc(0, func() {
			time.Sleep(time.Minute)
			ended = true
		}))
		e.advance(resolution)
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if err := e.Close(t.Context()); err != nil || !ended {
					t.Errorf("Close = %v, callback ended: %v", err, ended)
				}
			})
		}
		wg.Wait()
	})
}

// A callback may close the engine if it does not wait.
func TestCloseByCallback(t *testing.T) {
	bubble(t, timer.Config{}, func(e *fixture) {
		t := e.t
		called := false
		e.armed(e.AfterFunc(0, func() {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := e.Close(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("Close = %v, want context.Canceled", err)
			}
			called = true
		}))
		e.advance(resolution)
		if !called {
			t.Error("no callback")
		}
	})
}

// Repeating timers do not keep an engine from closing.
func TestCloseWhileRepeating(t *testing.T) {
	e, err := timer.Start(timer.Config{Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	var runs sync.WaitGroup
	for range 100 {
		runs.Add(1)
		var once sync.Once
		if _, err := e.RepeatFunc(1, timer.FixedRate, func() { once.Do(runs.Done) }); err != nil {
			t.Fatal(err)
		}
	}
	runs.Wait()
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// fate counts the runs of a timer, and how many there should be.
type fate struct{ runs, want atomic.Int32 }

// Thousands arm, touch and cancel while the engine closes. Each of their timers that was due has
// run, unless it was cancelled.
func TestCloseAmongThousands(t *testing.T) {
	goroutines := 9600
	if raceEnabled {
		goroutines = 2400
	}
	const perGoroutine = 20
	clock := new(timer.Manual)
	clock.Set(time.Hour)
	e, err := timer.Start(timer.Config{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	fates := make([]fate, goroutines*perGoroutine)
	g, err := e.Group(func(expired []timer.Expired) {
		for _, x := range expired {
			fates[x.Data].runs.Add(1)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	var wg, started sync.WaitGroup
	started.Add(goroutines / 2)
	for i := range goroutines {
		wg.Go(func() {
			if i < goroutines/2 {
				started.Done()
			}
			for j := range perGoroutine {
				data := i*perGoroutine + j
				live(t, e, g, uint64(data), &fates[data])
			}
		})
	}
	started.Wait()
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
	wg.Wait()
	for i := range fates {
		if runs, want := fates[i].runs.Load(), fates[i].want.Load(); runs != want {
			t.Fatalf("timer %d ran %d times, want %d", i, runs, want)
		}
	}
	closed(t, e, g, 0)
}

// live arms a timer that is due, if data is even, or not, and does something with it.
func live(t *testing.T, e *timer.Engine, g *timer.Group, data uint64, f *fate) {
	t.Helper()
	deadline := 2 * time.Hour
	if data%2 == 0 {
		deadline = 30 * time.Minute
	}
	id, err := g.ArmAt(deadline, time.Hour, data)
	if err != nil {
		if !errors.Is(err, timer.ErrClosed) {
			t.Errorf("ArmAt = %v, want ErrClosed", err)
		}
		return
	}
	if data%2 == 0 {
		f.want.Store(1)
	}
	switch rand.IntN(4) {
	case 0:
		if e.Cancel(id) {
			f.want.Store(0)
		}
	case 1:
		if e.Touch(id, time.Hour) {
			f.want.Store(0)
		}
	case 2:
		e.Bind(t.Context(), id)
	case 3:
		if _, err := e.AfterFunc(0, func() {}); err != nil && !errors.Is(err, timer.ErrClosed) {
			t.Errorf("AfterFunc = %v", err)
		}
	}
}
