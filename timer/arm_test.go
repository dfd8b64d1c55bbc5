package timer_test

import (
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/timer"
)

// A timer expires in the first unit of Resolution that begins at or after its deadline, and not a
// nanosecond earlier.
func TestArmNeverEarly(t *testing.T) {
	for _, tt := range []struct {
		name        string
		now, period time.Duration
	}{
		{"a nanosecond", 0, 1},
		{"a tick", 0, resolution},
		{"a tick and a nanosecond", 0, resolution + 1},
		{"from within a tick", resolution/2 + 1, resolution},
		{"a second", 17, time.Second},
		{"a day and a half", 5, 39*time.Hour + 123},
		{"beyond the fine periods", 3 * time.Hour, 50 * time.Hour},
		{"beyond the keys", 0, 7*24*time.Hour + 1},
		{"years", 0, 17 * 365 * 24 * time.Hour},
		{"the last instant", 0, timer.MaxDeadline},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, timer.Config{}, func(e *fixture) {
				t := e.t
				var r recorder
				g := e.group(r.handle)
				e.set(tt.now)
				id := e.armed(g.Arm(tt.now, tt.period, 7))
				want := ceil(tt.now + tt.period)
				if at, ok := e.Deadline(id); at != want || !ok {
					t.Errorf("Deadline = %v, %v, want %v, true", at, ok, want)
				}
				e.set(want - 1)
				r.want(t, "a nanosecond before the deadline")
				e.set(want)
				r.want(t, "at the deadline", 7)
				if n := e.Len(); n != 0 {
					t.Errorf("Len = %d, want 0", n)
				}
			})
		})
	}
}

func TestArmAtOnce(t *testing.T) {
	const now = time.Hour
	arm := map[string]func(g *timer.Group) (timer.ID, error){
		"zero period":     func(g *timer.Group) (timer.ID, error) { return g.Arm(ceil(now), 0, 1) },
		"negative period": func(g *timer.Group) (timer.ID, error) { return g.Arm(ceil(now), -time.Minute, 1) },
		"least period":    func(g *timer.Group) (timer.ID, error) { return g.Arm(ceil(now), math.MinInt64, 1) },
		"least of all":    func(g *timer.Group) (timer.ID, error) { return g.Arm(math.MinInt64, math.MinInt64, 1) },
		"in the past":     func(g *timer.Group) (timer.ID, error) { return g.ArmAt(time.Minute, time.Hour, 1) },
		"before time":     func(g *timer.Group) (timer.ID, error) { return g.ArmAt(math.MinInt64, time.Hour, 1) },
		"repeat zero":     func(g *timer.Group) (timer.ID, error) { return g.Repeat(ceil(now), 0, timer.FixedRate, 1) },
		"repeat negative": func(g *timer.Group) (timer.ID, error) { return g.Repeat(ceil(now), -1, timer.FixedDelay, 1) },
	}
	for name, arm := range arm {
		t.Run(name, func(t *testing.T) {
			bubble(t, timer.Config{}, func(e *fixture) {
				t := e.t
				var r recorder
				g := e.group(r.handle)
				e.set(ceil(now))
				e.armed(arm(g))
				synctest.Wait()
				r.want(t, "at once", 1)
				e.advance(time.Hour)
				r.want(t, "later")
			})
		})
	}
}

func TestArmTooFar(t *testing.T) {
	bubble(t, timer.Config{MaxTimers: 1}, func(e *fixture) {
		t := e.t
		g := e.group(func([]timer.Expired) {})
		f := func() {}
		for name, arm := range map[string]func() (timer.ID, error){
			"Arm":        func() (timer.ID, error) { return g.Arm(0, timer.MaxDeadline+1, 0) },
			"Arm longer": func() (timer.ID, error) { return g.Arm(math.MaxInt64, math.MaxInt64, 0) },
			"ArmAt":      func() (timer.ID, error) { return g.ArmAt(math.MaxInt64, 0, 0) },
			"Repeat":     func() (timer.ID, error) { return g.Repeat(1, timer.MaxDeadline, timer.FixedRate, 0) },
			"AfterFunc":  func() (timer.ID, error) { return e.AfterFunc(math.MaxInt64, f) },
			"AtFunc":     func() (timer.ID, error) { return e.AtFunc(timer.MaxDeadline+1, f) },
			"RepeatFunc": func() (timer.ID, error) { return e.RepeatFunc(math.MaxInt64, timer.FixedDelay, f) },
		} {
			if id, err := arm(); !errors.Is(err, timer.ErrTooFar) || id != 0 {
				t.Errorf("%s = %v, %v, want 0, ErrTooFar", name, id, err)
			}
		}
		e.armed(g.ArmAt(timer.MaxDeadline, math.MaxInt64, 0)) // and no room was lost
	})
}

func TestFuncs(t *testing.T) {
	bubble(t, timer.Config{}, func(e *fixture) {
		t := e.t
		var calls []string
		note := func(name string) func() { return func() { calls = append(calls, name) } }
		e.armed(e.AfterFunc(2*time.Second, note("after")))
		e.armed(e.AtFunc(time.Second, note("at")))
		at := e.armed(e.AtFunc(time.Hour, note("never")))
		repeat := e.armed(e.RepeatFunc(3*time.Second, timer.FixedRate, note("repeat")))
		e.advance(time.Second)
		if len(calls) != 0 {
			t.Errorf("calls = %v before the first deadline", calls)
		}
		e.advance(9 * time.Second)
		e.advance(resolution)
		if !e.Cancel(at) || !e.Cancel(repeat) {
			t.Error("Cancel found no timer")
		}
		e.advance(time.Hour)
		want := []string{"at", "after", "repeat"} // the repetitions of nine seconds are made up for by one
		if len(calls) != 3 || calls[0] != want[0] || calls[1] != want[1] || calls[2] != want[2] {
			t.Errorf("calls = %v, want %v", calls, want)
		}
	})
}

// Handlers get what expired in batches, one at a time with one worker, each in the order of the
// deadlines and of one group.
func TestBatches(t *testing.T) {
	bubble(t, timer.Config{}, func(e *fixture) {
		t := e.t
		const n = 3*timer.BatchLen + 10
		var even, odd recorder
		groups := []*timer.Group{e.group(even.handle), e.group(odd.handle)}
		for i := range uint64(n) {
			j := (i*7 + 3) % n // out of order
			e.armed(groups[j%2].ArmAt(time.Duration(j+1)*resolution, 0, j))
		}
		e.advance(n * resolution)
		for parity, r := range []*recorder{&even, &odd} {
			got := r.take()
			if len(got) != n/2 {
				t.Fatalf("group %d: %d expired, want %d", parity, len(got), n/2)
			}
			for i, x := range got {
				want := uint64(2*i + parity)
				if x.Data != want || x.Deadline != time.Duration(want+1)*resolution {
					t.Fatalf("group %d: expiry %d is of %d at %v, want %d", parity, i, x.Data, x.Deadline, want)
				}
			}
			if r.calls > 10 {
				t.Errorf("group %d: %d calls of the handler for %d expiries", parity, r.calls, n/2)
			}
		}
	})
}

func TestGroups(t *testing.T) {
	bubble(t, timer.Config{Shards: 2}, func(e *fixture) {
		t := e.t
		var last timer.Handler = func([]timer.Expired) {}
		var r recorder
		for i := range 255 {
			if i == 254 {
				last = r.handle
			}
			g := e.group(last)
			if i == 254 {
				e.armed(g.Arm(0, 0, 254))
			}
		}
		if _, err := e.Group(last); !errors.Is(err, timer.ErrGroups) {
			t.Errorf("Group = %v, want ErrGroups", err)
		}
		e.advance(resolution)
		r.want(t, "the last group", 254)
	})
}

// The order of expiry is that of the deadlines, whatever they were before, and however far the
// clock jumps.
func TestOrder(t *testing.T) {
	const day = 24 * time.Hour
	type timers struct {
		arm   func(at time.Duration, data uint64) timer.ID
		touch func(id timer.ID, deadline time.Duration) bool
	}
	for _, tt := range []struct {
		name    string
		prepare func(x timers)
		jump    time.Duration
		want    []uint64
	}{
		{"armed out of order", func(x timers) {
			x.arm(3*time.Second, 3)
			x.arm(1*time.Second, 1)
			x.arm(2*time.Second, 2)
		}, time.Minute, []uint64{1, 2, 3}},
		{"touched beyond another", func(x timers) {
			id := x.arm(time.Second, 2)
			x.arm(5*time.Second, 1)
			x.touch(id, 10*time.Second)
		}, time.Minute, []uint64{1, 2}},
		{"touched back and forth", func(x timers) {
			a, b := x.arm(time.Minute, 2), x.arm(time.Hour, 1)
			x.touch(a, time.Second)
			x.touch(a, 2*time.Hour)
			x.touch(b, 2*time.Second)
		}, day, []uint64{1, 2}},
		{"beyond the keys", func(x timers) {
			x.arm(20*day+2*time.Second, 3)
			x.arm(20*day+1*time.Second, 2)
			x.arm(1000*day, 4)
			x.arm(10*day, 1)
		}, 2000 * day, []uint64{1, 2, 3, 4}},
		{"touched beyond the keys", func(x timers) {
			x.touch(x.arm(time.Second, 2), 300*day)
			x.touch(x.arm(400*day, 1), 100*day)
		}, 2000 * day, []uint64{1, 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, timer.Config{}, func(e *fixture) {
				t := e.t
				var r recorder
				g := e.group(r.handle)
				tt.prepare(timers{
					arm:   func(at time.Duration, data uint64) timer.ID { return e.armed(g.ArmAt(at, 0, data)) },
					touch: e.TouchTo,
				})
				e.advance(tt.jump)
				r.want(t, "after the jump", tt.want...)
			})
		})
	}
}
