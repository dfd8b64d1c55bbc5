package timer_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/timer"
)

func TestTouch(t *testing.T) {
	const period = 10 * time.Second
	for _, tt := range []struct {
		name     string
		deadline time.Duration // of the arming
		period   time.Duration
		now      time.Duration // of the touch
		want     time.Duration
	}{
		{"moves", period, period, time.Second, ceil(time.Second) + ceil(period)},
		{"by a nanosecond", period, period, 1, resolution + ceil(period)},
		{"never shortens", time.Hour, period, time.Second, ceil(time.Hour)},
		{"from the past", period, period, -time.Hour, resolution + ceil(period)},
		{"to the last instant", period, period, timer.MaxDeadline - 1, timer.MaxDeadline},
		{"beyond the last instant", period, period, math.MaxInt64, timer.MaxDeadline},
		{"long period", period, math.MaxInt64, 0, timer.MaxDeadline},
		{"without a period", period, 0, time.Second, ceil(period)},
		{"without a period, overdue", period, 0, 11 * time.Second, ceil(11 * time.Second)},
		{"negative period", period, -5, 11 * time.Second, ceil(11 * time.Second)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, timer.Config{}, func(e *fixture) {
				t := e.t
				var r recorder
				id := e.armed(e.group(r.handle).ArmAt(tt.deadline, tt.period, 1))
				if !e.Touch(id, tt.now) {
					t.Fatal("Touch = false")
				}
				if at, _ := e.Deadline(id); at != tt.want {
					t.Errorf("Deadline = %v, want %v", at, tt.want)
				}
				e.set(tt.want - 1)
				r.want(t, "before the deadline")
				e.set(tt.want)
				r.want(t, "at the deadline", 1)
				if e.Touch(id, tt.want) {
					t.Error("Touch after the expiry = true")
				}
			})
		})
	}
}

// Periods above a day and a half are kept in units of some two seconds, rounded up.
func TestTouchCoarsePeriod(t *testing.T) {
	bubble(t, timer.Config{}, func(e *fixture) {
		t := e.t
		const period = 72*time.Hour + 1
		id := e.armed(e.group(func([]timer.Expired) {}).Arm(0, period, 1))
		e.Touch(id, time.Hour)
		at, _ := e.Deadline(id)
		if want := period + time.Hour; at < want || at > want+3*time.Second {
			t.Errorf("Deadline = %v, want %v to 3s more", at, want)
		}
	})
}

// A batch does to each timer what a touch does, and says which ones had ended.
func TestTouchBatch(t *testing.T) {
	const n, period = 3*timer.TouchAhead + 7, 10 * time.Second
	for _, tt := range []struct {
		name  string
		ended []int
	}{
		{"all armed", nil},
		{"first", []int{0}},
		{"last", []int{n - 1}},
		{"around the reads ahead", []int{timer.TouchAhead - 1, timer.TouchAhead, 2 * timer.TouchAhead}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, timer.Config{Shards: 4}, func(e *fixture) {
				t := e.t
				var r recorder
				g := e.group(r.handle)
				var ids []timer.ID
				for i := range uint64(n) {
					ids = append(ids, e.armed(g.Arm(0, period, i)))
				}
				for _, i := range tt.ended {
					e.Cancel(ids[i])
				}
				e.set(time.Second)
				if got := e.TouchBatch(ids, time.Second, []int{-1}); !slices.Equal(got, append([]int{-1}, tt.ended...)) {
					t.Errorf("TouchBatch = %v, want those that were there, and %v", got, tt.ended)
				}
				for i, id := range ids {
					at, armed := e.Deadline(id)
					if armed == slices.Contains(tt.ended, i) || armed && at != ceil(time.Second)+ceil(period) {
						t.Errorf("Deadline of timer %d = %v, %v", i, at, armed)
					}
				}
				e.set(period + resolution)
				r.want(t, "at the first deadline")
				e.set(ceil(time.Second) + ceil(period))
				if got := len(r.take()); got != n-len(tt.ended) {
					t.Errorf("%d expired, want %d", got, n-len(tt.ended))
				}
			})
		})
	}
	t.Run("one timer twice", func(t *testing.T) {
		bubble(t, timer.Config{}, func(e *fixture) {
			id := e.armed(e.AfterFunc(period, func() {}))
			if got := e.TouchBatch([]timer.ID{id, id, 0, id}, time.Second, nil); !slices.Equal(got, []int{2}) {
				e.t.Errorf("TouchBatch = %v, want [2]", got)
			}
		})
	})
	t.Run("nothing", func(t *testing.T) {
		bubble(t, timer.Config{}, func(e *fixture) {
			if got := e.TouchBatch(nil, time.Second, nil); got != nil {
				e.t.Errorf("TouchBatch of nothing = %v", got)
			}
		})
	})
}

// A timer that was prefetched is as it was, whatever became of it meanwhile.
func TestPrefetch(t *testing.T) {
	bubble(t, timer.Config{Shards: 2}, func(e *fixture) {
		t := e.t
		var r recorder
		g := e.group(r.handle)
		armed, cancelled, expired := e.armed(g.Arm(0, time.Minute, 1)), e.armed(g.Arm(0, time.Minute, 2)), e.armed(g.Arm(0, time.Second, 3))
		fetch := func() {
			t.Helper()
			for _, id := range []timer.ID{armed, cancelled, expired, 0, armed ^ 1<<23, armed ^ 1<<31, armed ^ 1<<41, armed ^ 1<<63, math.MaxUint64} {
				e.Prefetch(id)
			}
		}
		fetch()
		e.Cancel(cancelled)
		fetch()
		e.advance(2 * time.Second)
		fetch()
		r.want(t, "after all", 3)
		if at, ok := e.Deadline(armed); !ok || at != ceil(time.Minute) || e.Touch(cancelled, 0) || e.Touch(expired, 0) {
			t.Errorf("the deadline of a timer that was prefetched = %v, %v", at, ok)
		}
		if n := testing.AllocsPerRun(100, fetch); n != 0 {
			t.Errorf("Prefetch allocates %g times", n)
		}
	})
}

func TestTouchTo(t *testing.T) {
	for _, tt := range []struct {
		name     string
		deadline time.Duration
		want     time.Duration
	}{
		{"later", time.Hour, ceil(time.Hour)},
		{"earlier", time.Second, ceil(time.Second)},
		{"where it is", time.Minute, ceil(time.Minute)},
		{"a tick later", time.Minute + resolution, ceil(time.Minute) + resolution},
		{"a tick earlier", time.Minute - resolution, ceil(time.Minute) - resolution},
		{"multiple of 2^15 ticks earlier", time.Minute - resolution<<15, ceil(time.Minute) - resolution<<15},
		{"beyond the keys", 100 * 24 * time.Hour, ceil(100 * 24 * time.Hour)},
		{"last", timer.MaxDeadline, timer.MaxDeadline},
		{"too far", math.MaxInt64, timer.MaxDeadline},
	} {
		for _, eager := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/eager=%v", tt.name, eager), func(t *testing.T) {
				bubble(t, timer.Config{Eager: eager}, func(e *fixture) {
					t := e.t
					var r recorder
					id := e.armed(e.group(r.handle).Arm(0, time.Minute, 1))
					if !e.TouchTo(id, tt.deadline) {
						t.Fatal("TouchTo = false")
					}
					if left, ok := e.Remaining(id, time.Second); left != tt.want-time.Second || !ok {
						t.Errorf("Remaining = %v, %v, want %v, true", left, ok, tt.want-time.Second)
					}
					e.set(tt.want - 1)
					r.want(t, "before the deadline")
					e.set(tt.want)
					r.want(t, "at the deadline", 1)
					if e.TouchTo(id, tt.want) {
						t.Error("TouchTo after the expiry = true")
					}
				})
			})
		}
	}
	t.Run("into the past", func(t *testing.T) {
		bubble(t, timer.Config{}, func(e *fixture) {
			t := e.t
			var r recorder
			e.set(time.Hour)
			id := e.armed(e.group(r.handle).Arm(time.Hour, time.Minute, 1))
			e.TouchTo(id, math.MinInt64)
			synctest.Wait()
			r.want(t, "at once", 1)
		})
	})
}

func TestReset(t *testing.T) {
	for _, tt := range []struct {
		name   string
		period time.Duration
		want   time.Duration // after now, one second
	}{
		{"longer", time.Hour, time.Hour},
		{"shorter", 5 * time.Second, 5 * time.Second},
		{"the same", time.Minute, time.Minute},
		{"coarse", 72*time.Hour + 1, 72*time.Hour + 1},
		{"too long", math.MaxInt64, timer.MaxDeadline - time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, timer.Config{}, func(e *fixture) {
				t := e.t
				var r recorder
				id := e.armed(e.group(r.handle).Arm(0, time.Minute, 1))
				e.set(time.Second)
				if !e.Reset(id, time.Second, tt.period) {
					t.Fatal("Reset = false")
				}
				want := ceil(time.Second + tt.want)
				e.set(want - 1)
				r.want(t, "before the deadline")
				if tt.period < time.Hour*24 { // finer than the units of long periods
					e.Touch(id, want-1)
					want += ceil(tt.period)
					if at, _ := e.Deadline(id); at != want {
						t.Errorf("Deadline after a touch = %v, want %v", at, want)
					}
				}
				e.set(want - 1)
				r.want(t, "before the deadline")
				e.set(want)
				r.want(t, "at the deadline", 1)
				if e.Reset(id, want, time.Second) {
					t.Error("Reset after the expiry = true")
				}
			})
		})
	}
	for _, period := range []time.Duration{0, -time.Second, math.MinInt64} {
		t.Run(fmt.Sprint("at once by ", int64(period)), func(t *testing.T) {
			bubble(t, timer.Config{}, func(e *fixture) {
				t := e.t
				var r recorder
				g := e.group(r.handle)
				e.armed(g.Arm(0, time.Minute, 1))
				id := e.armed(g.Arm(0, time.Minute, 2))
				e.Reset(id, 0, period)
				e.advance(resolution)
				r.want(t, "at once", 2)
			})
		})
	}
}

func TestCancel(t *testing.T) {
	for _, eager := range []bool{false, true} {
		t.Run(fmt.Sprintf("eager=%v", eager), func(t *testing.T) {
			bubble(t, timer.Config{Eager: eager}, func(e *fixture) {
				t := e.t
				var r recorder
				g := e.group(r.handle)
				a, b := e.armed(g.Arm(0, time.Second, 1)), e.armed(g.Arm(0, time.Second, 2))
				if !e.Cancel(a) {
					t.Error("Cancel = false, want true")
				}
				if e.Cancel(a) || e.Touch(a, 0) || e.TouchTo(a, time.Hour) || e.Reset(a, 0, time.Hour) {
					t.Error("a cancelled timer is armed")
				}
				if at, ok := e.Deadline(a); at != 0 || ok {
					t.Errorf("Deadline of a cancelled timer = %v, %v, want 0, false", at, ok)
				}
				if left, ok := e.Remaining(a, time.Second); left != 0 || ok {
					t.Errorf("Remaining of a cancelled timer = %v, %v, want 0, false", left, ok)
				}
				if n := e.Len(); n != 1 {
					t.Errorf("Len = %d, want 1", n)
				}
				e.advance(time.Minute)
				r.want(t, "after a cancellation", 2)
				if e.Cancel(b) {
					t.Error("Cancel after the expiry = true, want false")
				}
			})
		})
	}
}

// What happens to timers that are due but wait for the only worker: they are still armed, and their
// deadline is not final.
func TestChangedWhileDue(t *testing.T) {
	for _, eager := range []bool{false, true} {
		t.Run(fmt.Sprintf("eager=%v", eager), func(t *testing.T) {
			bubble(t, timer.Config{Eager: eager}, func(e *fixture) {
				t := e.t
				var r recorder
				g := e.group(r.handle)
				release := make(chan struct{})
				e.armed(e.AfterFunc(0, func() { <-release }))
				e.advance(resolution)
				var ids []timer.ID
				for i := range uint64(7) {
					ids = append(ids, e.armed(g.Arm(0, time.Second, i)))
				}
				e.advance(2 * time.Second)
				if n := e.Len(); n != 7 {
					t.Errorf("Len = %d while 7 timers wait for a worker", n)
				}
				ok := e.Touch(ids[1], 2*time.Second) && e.TouchTo(ids[2], time.Minute) && e.Reset(ids[3], 2*time.Second, time.Hour) &&
					e.Cancel(ids[4]) && e.TouchTo(ids[5], time.Millisecond)
				if !ok {
					t.Error("a timer that waits for a worker is not armed")
				}
				e.armed(g.Arm(0, time.Minute, 8)) // perhaps in the slot of the cancelled one
				close(release)
				synctest.Wait()
				r.want(t, "when the worker was free", 0, 5, 6)
				e.advance(time.Second + 2*resolution)
				r.want(t, "after the touch", 1)
				e.set(time.Minute + resolution)
				r.want(t, "after a minute", 2, 8)
				e.set(2*time.Hour + resolution)
				r.want(t, "after an hour", 3)
			})
		})
	}
}

// Identifiers that the engine never gave out.
func TestForeignID(t *testing.T) {
	bubble(t, timer.Config{Shards: 2}, func(e *fixture) {
		t := e.t
		var r recorder
		own := e.armed(e.group(r.handle).Arm(0, time.Second, 1))
		for _, id := range []timer.ID{
			0, 1, math.MaxUint64,
			own ^ 1, own ^ 1<<23, // slots
			own ^ 1<<24, own ^ 1<<31, // groups
			own ^ 1<<32, own ^ 1<<41, // shards
			own ^ 1<<42, own ^ 1<<63, // generations
		} {
			e.Prefetch(id)
			_, ok := e.Deadline(id)
			if ok || e.Touch(id, 0) || e.TouchTo(id, 0) || e.Reset(id, 0, 1) || e.Cancel(id) || e.Bind(t.Context(), id) || e.BindChan(nil, id) {
				t.Errorf("%x is taken for a timer", uint64(id))
			}
		}
		e.advance(2 * time.Second)
		r.want(t, "after all", 1)
	})
}
