package timer_test

import (
	"fmt"
	"math"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/timer"
)

// A fixed rate keeps its phase to the nanosecond, though deadlines are multiples of Resolution.
func TestFixedRateDoesNotDrift(t *testing.T) {
	for _, period := range []time.Duration{time.Second / 3, time.Second, resolution + 1, 41 * time.Hour / 7} {
		t.Run(period.String(), func(t *testing.T) {
			bubble(t, timer.Config{}, func(e *fixture) {
				t := e.t
				var r recorder
				const start = 12345 * time.Microsecond
				e.set(start)
				e.armed(e.group(r.handle).Repeat(start, period, timer.FixedRate, 1))
				for i := range 1000 {
					want := ceil(start + times(i+1, period))
					e.set(want - 1)
					r.want(t, "before the deadline")
					e.set(want)
					got := r.take()
					if len(got) != 1 || got[0].Deadline != want {
						t.Fatalf("period %d: expired %v, want deadline %v", i+1, got, want)
					}
				}
			})
		})
	}
}

// Instants that passed while a timer was late, or its callback ran, are made up for by one expiry;
// then the phase is as before.
func TestFixedRateLate(t *testing.T) {
	bubble(t, timer.Config{}, func(e *fixture) {
		t := e.t
		var at []time.Duration
		busy := 0 * time.Second
		e.armed(e.RepeatFunc(time.Second, timer.FixedRate, func() {
			at = append(at, e.Now().Truncate(time.Millisecond))
			e.clock.Advance(busy) // as if it took so long
			busy = 0
		}))
		e.set(5500 * time.Millisecond) // 1 to 5 s are due
		e.set(6001 * time.Millisecond)
		busy = 2500 * time.Millisecond
		e.set(7001 * time.Millisecond) // until 9.501 s: 8 and 9 s are due
		e.set(10001 * time.Millisecond)
		want := "[5.5s 6.001s 7.001s 9.501s 10.001s]"
		if got := fmt.Sprint(at); got != want {
			t.Errorf("ran at %v, want %v", got, want)
		}
	})
}

// So are those that passed while it waited for a worker: the run that comes late stands for them as
// well.
func TestFixedRateWaitsForWorker(t *testing.T) {
	bubble(t, timer.Config{}, func(e *fixture) {
		t := e.t
		var at []time.Duration
		release := make(chan struct{})
		e.armed(e.AfterFunc(0, func() { <-release }))
		e.advance(resolution)
		e.armed(e.RepeatFunc(time.Second, timer.FixedRate, func() { at = append(at, e.Now().Truncate(time.Millisecond)) }))
		e.set(1500 * time.Millisecond) // due, and behind the busy worker
		e.set(5500 * time.Millisecond)
		close(release)
		synctest.Wait()
		e.set(6001 * time.Millisecond)
		if got, want := fmt.Sprint(at), "[5.5s 6.001s]"; got != want {
			t.Errorf("ran at %v, want %v", got, want)
		}
	})
}

func TestFixedDelay(t *testing.T) {
	bubble(t, timer.Config{}, func(e *fixture) {
		t := e.t
		var at []time.Duration
		id := timer.ID(0)
		id = e.armed(e.RepeatFunc(time.Second, timer.FixedDelay, func() {
			at = append(at, e.Now())
			if d, ok := e.Deadline(id); d <= timer.MaxDeadline || !ok {
				t.Errorf("Deadline in the callback = %v, %v, want one beyond MaxDeadline", d, ok)
			}
			if !e.Touch(id, e.Now()) {
				t.Error("Touch in the callback = false")
			}
			e.clock.Advance(700 * time.Millisecond) // as if it took so long
		}))
		next := ceil(time.Second)
		for i := range 100 {
			e.set(next - 1)
			if len(at) != i {
				t.Fatalf("run %d came before %v", i, next)
			}
			e.set(next)
			if len(at) != i+1 || at[i] != next {
				t.Fatalf("runs at %v, want one at %v", at[i:], next)
			}
			next = ceil(next + 700*time.Millisecond + time.Second)
		}
	})
}

func TestRepeatPeriodBelowResolution(t *testing.T) {
	for _, mode := range []timer.Repeat{timer.FixedRate, timer.FixedDelay} {
		bubble(t, timer.Config{}, func(e *fixture) {
			t := e.t
			var r recorder
			e.armed(e.group(r.handle).Repeat(0, 1, mode, 1))
			for i := range 10 {
				e.advance(resolution)
				if n := len(r.take()); n != 1 {
					t.Errorf("mode %d, step %d: expired %d times, want once", mode, i, n)
				}
			}
		})
	}
}

// A repeating timer can be moved, given another period, and ended, between its runs and in them.
func TestRepeatChanged(t *testing.T) {
	const second, minute = time.Second, time.Minute
	for _, mode := range []timer.Repeat{timer.FixedRate, timer.FixedDelay} {
		for _, tt := range []struct {
			name   string
			change func(e *fixture, id timer.ID) bool
			want   []time.Duration // the next runs after the change at 1 s
		}{
			{"left alone", func(*fixture, timer.ID) bool { return true }, []time.Duration{2 * second, 3 * second}},
			{"touched to later", func(e *fixture, id timer.ID) bool { return e.TouchTo(id, 10*second) }, []time.Duration{10 * second, 11 * second}},
			{
				"touched to earlier", func(e *fixture, id timer.ID) bool { return e.TouchTo(id, 1500*time.Millisecond) },
				[]time.Duration{1500 * time.Millisecond, 2500 * time.Millisecond},
			},
			{"longer", func(e *fixture, id timer.ID) bool { return e.Reset(id, second, minute) }, []time.Duration{61 * second, 121 * second}},
			{
				"shorter", func(e *fixture, id timer.ID) bool { return e.Reset(id, second, second/2) },
				[]time.Duration{1500 * time.Millisecond, 2 * second, 2500 * time.Millisecond},
			},
			{
				"once more", func(e *fixture, id timer.ID) bool { return e.Reset(id, 5*second, 0) }, []time.Duration{5 * second},
			},
			{"cancelled", func(e *fixture, id timer.ID) bool { return e.Cancel(id) }, nil},
		} {
			for _, inside := range []bool{false, true} {
				t.Run(fmt.Sprintf("mode=%d/%s/inside=%v", mode, tt.name, inside), func(t *testing.T) {
					bubble(t, timer.Config{}, func(e *fixture) {
						t := e.t
						var at []time.Duration
						var id timer.ID
						change := func() {
							if !tt.change(e, id) {
								t.Error("the timer is not armed")
							}
						}
						id = e.armed(e.RepeatFunc(second, mode, func() {
							at = append(at, e.Now())
							if inside && len(at) == 1 {
								change()
							}
						}))
						e.set(ceil(second))
						if !inside {
							change()
						}
						for step := range 2000 {
							e.set(second + time.Duration(step)*100*time.Millisecond + 50*time.Millisecond)
						}
						check(t, at[1:], tt.want, mode)
					})
				})
			}
		}
	}
}

// check compares the first instants of runs on a clock that moves by steps of 100 ms.
func check(t *testing.T, at, want []time.Duration, mode timer.Repeat) {
	t.Helper()
	if len(at) < len(want) || len(want) < 2 && len(at) != len(want) {
		t.Fatalf("ran at %v, want %v", at, want)
	}
	late := 51 * time.Millisecond
	for i := range want {
		if mode == timer.FixedDelay {
			late += 100 * time.Millisecond // each run takes to the next step
		}
		if at[i] < want[i] || at[i] > want[i]+late {
			t.Fatalf("ran at %v, want %v", at[:len(want)], want)
		}
	}
}

// A deadline set while the callback of a fixed delay runs stands, however late.
func TestFixedDelayTouchedToTheEnd(t *testing.T) {
	bubble(t, timer.Config{}, func(e *fixture) {
		t := e.t
		runs := 0
		var id timer.ID
		id = e.armed(e.RepeatFunc(time.Second, timer.FixedDelay, func() {
			runs++
			e.TouchTo(id, timer.MaxDeadline)
		}))
		e.set(2 * time.Second)
		if at, ok := e.Deadline(id); at != timer.MaxDeadline || !ok {
			t.Errorf("Deadline = %v, %v, want MaxDeadline, true", at, ok)
		}
		e.set(time.Hour)
		if runs != 1 {
			t.Errorf("%d runs, want 1", runs)
		}
	})
}

// Where no deadline can lie any more, a repeating timer ends; it does not run round and round.
func TestRepeatAtTheEndOfTime(t *testing.T) {
	for _, mode := range []timer.Repeat{timer.FixedRate, timer.FixedDelay} {
		t.Run(fmt.Sprintf("mode=%d", mode), func(t *testing.T) {
			bubble(t, timer.Config{}, func(e *fixture) {
				t := e.t
				var r recorder
				const start = timer.MaxDeadline - 3*time.Hour
				e.set(start)
				id := e.armed(e.group(r.handle).Repeat(start, 2*time.Hour, mode, 1))
				e.advance(2*time.Hour + resolution)
				r.want(t, "after two hours", 1)
				if e.Cancel(id) || e.Len() != 0 {
					t.Error("the timer is armed, though its next deadline would lie too far")
				}
				e.set(math.MaxInt64)
				r.want(t, "at the end")
				e.armed(e.group(r.handle).Arm(timer.MaxDeadline, 0, 2))
				synctest.Wait()
				r.want(t, "armed at the end", 2)
			})
		})
	}
}

// A handler may do with its slice what it likes; the timers go on all the same.
func TestRepeatHandlerUsesSlice(t *testing.T) {
	for _, mode := range []timer.Repeat{timer.FixedRate, timer.FixedDelay} {
		t.Run(fmt.Sprintf("mode=%d", mode), func(t *testing.T) {
			bubble(t, timer.Config{}, func(e *fixture) {
				t := e.t
				runs := map[uint64]int{}
				g := e.group(func(expired []timer.Expired) {
					odd := expired[:0]
					for _, x := range expired {
						runs[x.Data]++
						if x.Data%2 == 1 {
							odd = append(odd, x)
						}
					}
					clear(expired[len(odd):])
				})
				const n, rounds = 10, 5
				for i := range uint64(n) {
					e.armed(g.Repeat(0, time.Second, mode, i))
				}
				for range rounds {
					e.advance(time.Second + resolution)
				}
				for i := range uint64(n) {
					if runs[i] != rounds {
						t.Errorf("timer %d ran %d times, want %d", i, runs[i], rounds)
					}
				}
				if st := e.Stats(); st.Armed != n || st.Hints != n {
					t.Errorf("Armed, Hints = %d, %d, want %d of each", st.Armed, st.Hints, n)
				}
			})
		})
	}
}

// A repeating timer goes on after a callback that panics, or ends its goroutine.
func TestRepeatAfterBadCallback(t *testing.T) {
	for name, bad := range map[string]func(){"panic": func() { panic("bad") }, "Goexit": runtime.Goexit} {
		for _, mode := range []timer.Repeat{timer.FixedRate, timer.FixedDelay} {
			t.Run(fmt.Sprintf("%s/mode=%d", name, mode), func(t *testing.T) {
				bubble(t, timer.Config{}, func(e *fixture) {
					t := e.t
					runs := 0
					e.armed(e.RepeatFunc(time.Second, mode, func() {
						runs++
						bad()
					}))
					for range 5 {
						e.advance(time.Second + resolution)
					}
					if runs != 5 {
						t.Errorf("%d runs, want 5", runs)
					}
				})
			})
		}
	}
}

// A timer never expires while its callback runs, however many workers are free.
func TestRepeatOneRunAtATime(t *testing.T) {
	bubble(t, timer.Config{Workers: 4}, func(e *fixture) {
		t := e.t
		running, runs := 0, 0
		release := make(chan struct{})
		e.armed(e.RepeatFunc(time.Second, timer.FixedRate, func() {
			running, runs = running+1, runs+1
			if running != 1 {
				t.Errorf("%d callbacks of one timer run", running)
			}
			<-release
			running--
		}))
		for range 10 {
			e.advance(time.Second)
		}
		if st := e.Stats(); runs != 1 || st.Queued != 0 || st.Armed != 1 {
			t.Errorf("runs, Queued, Armed = %d, %d, %d, want 1, 0, 1", runs, st.Queued, st.Armed)
		}
		close(release)
		synctest.Wait()
		if runs != 2 {
			t.Errorf("%d runs, want 2", runs)
		}
	})
}
