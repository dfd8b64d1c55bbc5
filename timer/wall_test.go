package timer_test

import (
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/timer"
)

var wallStart = time.Date(2026, 3, 29, 0, 30, 0, 0, time.UTC)

// fakeWall is a wall clock that is moved by hand.
type fakeWall struct {
	mu  sync.Mutex // guards now
	now time.Time
}

func (w *fakeWall) read() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *fakeWall) add(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// wallFixture is an engine on a hand-moved clock with a wall clock beside it.
type wallFixture struct {
	*fixture

	wall *fakeWall
	got  recorder
}

func wallBubble(t *testing.T, cfg timer.Config, f func(e *wallFixture)) {
	t.Helper()
	w := &fakeWall{now: wallStart}
	cfg.Wall = w.read
	bubble(t, cfg, func(e *fixture) { f(&wallFixture{fixture: e, wall: w}) })
}

// pass lets both clocks go on, in steps of a second at most.
func (e *wallFixture) pass(d time.Duration) {
	for d > 0 {
		step := min(d, time.Second)
		e.wall.add(step)
		e.advance(step)
		d -= step
	}
}

// at starts a timer for an instant after the start on the wall clock.
func (e *wallFixture) at(d time.Duration, data uint64) timer.ID {
	e.t.Helper()
	return e.armed(e.AtTime(wallStart.Add(d), func() {
		if now := e.wall.read().Sub(wallStart); now < d {
			e.t.Errorf("timer %d was called at %v, want %v or later", data, now, d)
		}
		e.got.handle([]timer.Expired{{Data: data}})
	}))
}

func TestAtTime(t *testing.T) {
	const check = time.Second + resolution // how late a change of the wall clock is noticed
	for _, tt := range []struct {
		name string
		act  func(e *wallFixture, id timer.ID) // with a timer that is due after a minute
	}{
		{"left alone", func(e *wallFixture, _ timer.ID) {
			e.pass(time.Minute - 1)
			e.got.want(e.t, "before its time")
			e.pass(resolution)
			e.got.want(e.t, "at its time", 1)
		}},
		{"set forward", func(e *wallFixture, _ timer.ID) {
			e.pass(10 * time.Second)
			e.wall.add(30 * time.Second)
			e.pass(20*time.Second - 1)
			e.got.want(e.t, "before its time")
			e.pass(resolution)
			e.got.want(e.t, "at its time", 1)
		}},
		{"set forward beyond it", func(e *wallFixture, _ timer.ID) {
			e.wall.add(time.Hour)
			e.pass(check)
			e.got.want(e.t, "a second later", 1)
		}},
		{"set forward while the clock stands still", func(e *wallFixture, _ timer.ID) {
			e.wall.add(time.Hour)
			synctest.Wait()
			e.got.want(e.t, "at once")
			e.advance(check)
			e.got.want(e.t, "when the clock goes on", 1)
		}},
		{"set back", func(e *wallFixture, _ timer.ID) {
			e.pass(59 * time.Second)
			e.wall.add(-time.Hour)
			e.pass(time.Hour + time.Second - 1)
			e.got.want(e.t, "before its time")
			e.pass(2 * resolution)
			e.got.want(e.t, "at its time", 1)
		}},
		{"set back when it is nearly due", func(e *wallFixture, _ timer.ID) {
			e.pass(time.Minute - time.Millisecond)
			e.wall.add(-time.Minute)
			e.pass(time.Minute)
			e.got.want(e.t, "before its time")
			e.pass(2 * time.Millisecond)
			e.got.want(e.t, "at its time", 1)
		}},
		{"set there and back", func(e *wallFixture, _ timer.ID) {
			for _, d := range []time.Duration{-24 * time.Hour, 12 * time.Hour, 11 * time.Hour, time.Hour} {
				e.wall.add(d)
				e.pass(5 * time.Second)
			}
			e.pass(40*time.Second - 1)
			e.got.want(e.t, "before its time")
			e.pass(2 * resolution)
			e.got.want(e.t, "at its time", 1)
		}},
		{"slewed", func(e *wallFixture, _ timer.ID) {
			for range 50 {
				e.pass(time.Second)
				e.wall.add(time.Millisecond) // too little to be noticed at once
			}
			e.pass(10*time.Second - 50*time.Millisecond - 1)
			e.got.want(e.t, "before its time")
			e.pass(10 * time.Millisecond)
			e.got.want(e.t, "at its time", 1)
		}},
		{"the clock runs ahead", func(e *wallFixture, _ timer.ID) {
			e.advance(24 * time.Hour)
			e.got.want(e.t, "before its time")
			e.pass(time.Minute + 2*resolution)
			e.got.want(e.t, "at its time", 1)
		}},
		{"cancelled", func(e *wallFixture, id timer.ID) {
			if !e.Cancel(id) {
				e.t.Error("Cancel = false")
			}
			e.wall.add(time.Hour)
			e.pass(time.Minute)
			e.got.want(e.t, "after a cancellation")
		}},
		{"bound", func(e *wallFixture, id timer.ID) {
			done := make(chan struct{})
			e.BindChan(done, id)
			e.wall.add(-time.Second)
			e.pass(time.Minute)
			e.got.want(e.t, "before its time")
			close(done)
			e.pass(time.Minute)
			e.got.want(e.t, "after its channel was closed")
		}},
		{"bound, and set forward", func(e *wallFixture, id timer.ID) {
			e.Bind(e.t.Context(), id)
			e.wall.add(time.Hour)
			e.pass(check)
			e.got.want(e.t, "a second later", 1)
		}},
		{"reset", func(e *wallFixture, id timer.ID) {
			e.Reset(id, 0, 2*time.Minute)
			e.wall.add(time.Hour)
			e.pass(2*time.Minute - 1)
			e.got.want(e.t, "before its deadline")
			e.pass(resolution)
			e.got.want(e.t, "at its deadline", 1)
		}},
		{"moved", func(e *wallFixture, id timer.ID) {
			e.TouchTo(id, 2*time.Minute)
			e.wall.add(time.Hour)
			e.pass(2*time.Minute - 1)
			e.got.want(e.t, "before its deadline")
			e.pass(resolution)
			e.got.want(e.t, "at its deadline", 1)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, eager := range []bool{false, true} {
				wallBubble(t, timer.Config{Eager: eager}, func(e *wallFixture) {
					tt.act(e, e.at(time.Minute, 1))
					if n := e.Len(); n != 0 {
						e.t.Errorf("%d timers are armed at the end", n)
					}
				})
			}
		})
	}
}

// What lies in the past on the wall clock is due at once; order is that of the wall clock.
func TestAtTimePast(t *testing.T) {
	wallBubble(t, timer.Config{}, func(e *wallFixture) {
		e.pass(time.Minute)
		for i, d := range []time.Duration{time.Hour, 59 * time.Second, time.Minute, 61 * time.Second} {
			e.at(d, uint64(i))
		}
		e.armed(e.AtTime(time.Unix(0, 0), func() { e.got.handle([]timer.Expired{{Data: 9}}) }))
		e.pass(resolution)
		if got := e.got.take(); len(got) != 3 {
			e.t.Errorf("%v expired at once, want 1, 2 and 9", dataOf(got))
		}
		e.pass(time.Hour)
		e.got.want(e.t, "later", 3, 0)
	})
}

// Many timers of all shards are moved, and other timers are not.
func TestAtTimeMany(t *testing.T) {
	wallBubble(t, timer.Config{Shards: 4}, func(e *wallFixture) {
		const n = 500
		for i := range n {
			e.at(time.Hour+times(i, time.Minute), uint64(i))
		}
		repeats := 0
		e.armed(e.RepeatFunc(time.Minute, timer.FixedRate, func() { repeats++ }))
		e.wall.add(-time.Hour)
		e.pass(2 * time.Second)
		e.wall.add(2 * time.Hour)
		e.pass(57 * time.Second)
		e.got.want(e.t, "before a minute", 0)
		if repeats != 0 {
			e.t.Errorf("%d repeats before a minute", repeats)
		}
		e.pass(time.Second + resolution)
		e.got.want(e.t, "after a minute", 1) // at 1:01
		e.wall.add(n * time.Minute)
		e.pass(2 * time.Second)
		if got := e.got.take(); len(got) != n-2 {
			e.t.Errorf("%d expired, want %d", len(got), n-2)
		}
		if repeats != 1 {
			e.t.Errorf("%d repeats after a minute, want 1", repeats)
		}
	})
}

// The monotonic reading of an instant does not count, and the real clocks agree.
func TestAtTimeReal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := timer.Start(timer.Config{})
		if err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(90 * time.Minute)
		var called time.Time
		if _, err := e.AtTime(at, func() { called = time.Now() }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if late := called.Sub(at); late < 0 || late > resolution {
			t.Errorf("called %v late", late)
		}
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	w := &fakeWall{now: time.Now().Add(-time.Hour)} // with a monotonic reading
	bubble(t, timer.Config{Wall: w.read}, func(e *fixture) {
		called := false
		e.armed(e.AtTime(w.read().Add(time.Minute), func() { called = true }))
		w.mu.Lock()
		w.now = w.now.Round(0).Add(time.Hour)
		w.mu.Unlock()
		e.advance(time.Second + resolution)
		if !called {
			e.t.Error("the wall clock was set forward, and nothing is called")
		}
	})
}

// A timer that was moved follows the wall clock no longer, also if it was moved to where it was.
func TestAtTimeMoved(t *testing.T) {
	wallBubble(t, timer.Config{}, func(e *wallFixture) {
		called := false
		id := e.armed(e.AtTime(wallStart.Add(time.Hour), func() { called = true }))
		if at, _ := e.Deadline(id); !e.TouchTo(id, at) {
			e.t.Fatal("TouchTo = false")
		}
		e.wall.add(2 * time.Hour)
		e.pass(time.Minute)
		if called {
			e.t.Error("it is called when the wall clock says so")
		}
		e.pass(time.Hour)
		if !called {
			e.t.Error("it is not called when the engine's clock says so")
		}
	})
}

func TestAtTimeRejected(t *testing.T) {
	wallBubble(t, timer.Config{MaxTimers: 1}, func(e *wallFixture) {
		t := e.t
		if _, err := e.AtTime(wallStart, nil); !errors.Is(err, timer.ErrNil) || !strings.Contains(err.Error(), "AtTime") {
			t.Errorf("AtTime of nil = %v, want ErrNil", err)
		}
		if _, err := e.AtTime(time.Time{}, func() {}); !errors.Is(err, timer.ErrNoTime) {
			t.Errorf("AtTime of the zero time = %v, want ErrNoTime", err)
		}
		for _, at := range []time.Time{wallStart.AddDate(30, 0, 0), wallStart.AddDate(3000, 0, 0), time.Unix(math.MaxInt64/4, 0)} {
			if _, err := e.AtTime(at, func() {}); !errors.Is(err, timer.ErrTooFar) {
				t.Errorf("AtTime(%v) = %v, want ErrTooFar", at, err)
			}
		}
		last := wallStart.Add(timer.MaxDeadline)
		id := e.armed(e.AtTime(last, func() {}))
		if _, err := e.AtTime(last, func() {}); !errors.Is(err, timer.ErrFull) {
			t.Errorf("AtTime = %v, want ErrFull", err)
		}
		e.wall.add(-time.Hour) // now it lies beyond MaxDeadline
		e.pass(2 * time.Second)
		if at, ok := e.Deadline(id); at != timer.MaxDeadline || !ok {
			t.Errorf("Deadline = %v, %v, want MaxDeadline", at, ok)
		}
		e.wall.add(time.Hour + time.Minute)
		e.pass(2 * time.Second)
		if at, _ := e.Deadline(id); at > timer.MaxDeadline-time.Minute+time.Second {
			t.Errorf("Deadline = %v, want a minute before MaxDeadline", at)
		}
	})
}

// Timers are armed while the wall clock is set all the time.
func TestAtTimeConcurrent(t *testing.T) {
	const n = 200
	w := &fakeWall{now: wallStart}
	e, err := timer.Start(timer.Config{Wall: w.read, Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	var called, arming sync.WaitGroup
	for range 4 {
		arming.Go(func() {
			for range n {
				called.Add(1)
				if _, err := e.AtTime(w.read().Add(time.Minute), called.Done); err != nil {
					t.Error(err)
				}
				w.add(time.Second)
			}
		})
	}
	arming.Wait()
	w.add(time.Hour)
	called.Wait()
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
