package timer_test

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/timer"
)

func TestManual(t *testing.T) {
	var c timer.Manual
	for _, step := range []struct {
		name string
		move func()
		want time.Duration
	}{
		{"zero", func() {}, 0},
		{"set", func() { c.Set(time.Second) }, time.Second},
		{"set backwards", func() { c.Set(time.Millisecond) }, time.Second},
		{"set negative", func() { c.Set(-time.Second) }, time.Second},
		{"advance", func() { c.Advance(time.Second) }, 2 * time.Second},
		{"advance by nothing", func() { c.Advance(0) }, 2 * time.Second},
		{"advance backwards", func() { c.Advance(-time.Second) }, 2 * time.Second},
		{"advance beyond the end", func() { c.Advance(math.MaxInt64) }, math.MaxInt64},
		{"advance from the end", func() { c.Advance(math.MaxInt64) }, math.MaxInt64},
	} {
		step.move()
		if now := c.Now(); now != step.want {
			t.Errorf("%s: Now = %v, want %v", step.name, now, step.want)
		}
	}
}

// Both clocks sound an alarm at its instant, once, and the one that was set last.
func TestAlarm(t *testing.T) {
	clocks := map[string]func() (c timer.Clock, advance func(time.Duration)){
		"manual": func() (timer.Clock, func(time.Duration)) {
			c := new(timer.Manual)
			return c, c.Advance
		},
		"system": func() (timer.Clock, func(time.Duration)) { return timer.System(), time.Sleep },
	}
	for name, clock := range clocks {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, advance := clock()
				a := c.Alarm()
				want := func(when string, sounds bool) {
					t.Helper()
					synctest.Wait()
					select {
					case <-a.C():
						if !sounds {
							t.Errorf("%s: the alarm sounds", when)
						}
					default:
						if sounds {
							t.Errorf("%s: the alarm does not sound", when)
						}
					}
				}
				want("not set", false)
				a.Set(c.Now())
				want("set to now", true)
				a.Set(c.Now() - time.Hour)
				want("set to the past", true)
				a.Set(c.Now() + time.Second)
				advance(time.Second - 1)
				want("too early", false)
				advance(1)
				want("in time", true)
				advance(time.Hour)
				want("once more", false)
				a.Set(c.Now() + time.Second)
				a.Set(c.Now() + time.Minute)
				advance(time.Second)
				want("set to later", false)
				a.Set(c.Now() + time.Second)
				advance(time.Second)
				want("set to earlier", true)
				a.Set(c.Now() + time.Second)
				a.Stop()
				advance(time.Hour)
				want("stopped", false)
			})
		})
	}
}

func TestSystemClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := timer.Start(timer.Config{})
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		late := map[time.Duration]time.Duration{} // by period
		periods := []time.Duration{1, time.Microsecond, time.Millisecond, time.Second, time.Minute, time.Hour}
		start := time.Now()
		for _, period := range periods {
			if _, err := e.AfterFunc(period, func() {
				mu.Lock()
				defer mu.Unlock()
				late[period] = time.Since(start) - period
			}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour + resolution)
		synctest.Wait()
		for _, period := range periods {
			if d, ok := late[period]; !ok || d < 0 || d >= resolution {
				t.Errorf("period %v: %v late, want less than %v; called: %v", period, d, resolution, ok)
			}
		}
		if late := e.Stats().Lateness.Quantile(1); late > time.Microsecond {
			t.Errorf("the greatest lateness is %v", late)
		}
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Timers that lie farther ahead than a heap's keys reach expire exactly on time, however the clock
// goes.
func TestFarAhead(t *testing.T) {
	const day = 24 * time.Hour
	days := []int{1, 3, 4, 6, 7, 10, 13, 14, 30, 100, 300, 1000}
	arm := func(e *fixture, r *recorder) {
		g := e.group(r.handle)
		now := e.Now()
		for _, d := range days {
			e.armed(g.Arm(now, times(d, day), uint64(d)))
		}
	}
	for name, start := range map[string]time.Duration{"at the origin": 0, "after years": 3*365*day + 12345} {
		t.Run("deadline by deadline/"+name, func(t *testing.T) {
			bubble(t, timer.Config{}, func(e *fixture) {
				t := e.t
				var r recorder
				e.set(start)
				arm(e, &r)
				for _, d := range days {
					e.set(ceil(start+times(d, day)) - 1)
					r.want(t, "before the deadline")
					e.set(ceil(start + times(d, day)))
					r.want(t, "at the deadline", uint64(d))
				}
			})
		})
		t.Run("hour by hour/"+name, func(t *testing.T) {
			bubble(t, timer.Config{}, func(e *fixture) {
				t := e.t
				var r recorder
				e.set(start)
				arm(e, &r)
				for hour := 1; hour <= 1001*24; hour++ {
					e.set(ceil(start + times(hour, time.Hour)))
					var want []uint64
					if hour%24 == 0 && slices.Contains(days, hour/24) {
						want = []uint64{uint64(hour / 24)}
					}
					r.want(t, fmt.Sprint("hour ", hour), want...)
				}
			})
		})
		t.Run("all at once/"+name, func(t *testing.T) {
			bubble(t, timer.Config{}, func(e *fixture) {
				t := e.t
				var r recorder
				e.set(start)
				arm(e, &r)
				e.advance(2000 * day)
				r.want(t, "after the jump", 1, 3, 4, 6, 7, 10, 13, 14, 30, 100, 300, 1000)
			})
		})
		t.Run("among short ones/"+name, func(t *testing.T) {
			bubble(t, timer.Config{}, func(e *fixture) {
				t := e.t
				var far, near recorder
				e.set(start)
				arm(e, &far)
				g := e.group(near.handle)
				touched := e.armed(g.Arm(start, 30*time.Hour, 1))
				for e.Now() < start+20*day {
					e.armed(g.Arm(e.Now(), time.Second, 0))
					e.Touch(touched, e.Now())
					e.advance(time.Second - 1)
					near.want(t, "before a second")
					e.advance(resolution)
					near.want(t, "after a second", 0)
					e.advance(5 * time.Hour)
				}
				far.want(t, "after 20 days", 1, 3, 4, 6, 7, 10, 13, 14)
			})
		})
	}
}

// An engine may begin on a clock that shows years.
func TestStartLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := new(timer.Manual)
		const start = timer.MaxDeadline / 2
		clock.Set(start)
		e, err := timer.Start(timer.Config{Clock: clock, Shards: 1, Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		var r recorder
		g, err := e.Group(r.handle)
		if err != nil {
			t.Fatal(err)
		}
		for i := range uint64(1000) {
			if _, err := g.Arm(start, time.Duration(1+i%7)*30*time.Hour, i%7); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		for i := range uint64(7) {
			r.want(t, "before the deadline")
			clock.Advance(30*time.Hour + resolution)
			synctest.Wait()
			got := r.take()
			if len(got) < 142 || got[0].Data != i {
				t.Errorf("%d of %d expired, want 142 of %d at least", len(got), got[0].Data, i)
			}
		}
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
