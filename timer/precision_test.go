package timer_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/holter-iot/holter/timer"
)

// With a finer unit, the deadlines of a shard keep their order where Resolution would make them
// equal, and they are that exact.
func TestPrecisionOrder(t *testing.T) {
	for _, unit := range []time.Duration{1, 1 << 10, 1 << 16} {
		for _, mode := range []string{"handler", "func"} {
			t.Run(fmt.Sprintf("%v/%s", unit, mode), func(t *testing.T) {
				bubble(t, timer.Config{Precision: unit}, func(e *fixture) {
					const n = 1000
					var r recorder
					g := e.group(r.handle)
					for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(n) {
						at := time.Millisecond + times(i, unit)
						if mode == "func" {
							e.armed(e.AtFunc(at, func() { r.handle([]timer.Expired{{Data: uint64(i), Deadline: at}}) }))
						} else {
							e.armed(g.ArmAt(at, 0, uint64(i)))
						}
					}
					e.set(ceilTo(time.Millisecond, unit) - 1)
					r.want(e.t, "before all deadlines")
					e.advance(1)
					r.want(e.t, "at the first deadline", 0)
					e.advance(3 * unit)
					r.want(e.t, "three units later", 1, 2, 3)
					e.advance(n * unit)
					got := r.take()
					if len(got) != n-4 || !slices.IsSortedFunc(got, func(a, b timer.Expired) int { return int(a.Data) - int(b.Data) }) {
						e.t.Errorf("%d expired, want %d in order: %v", len(got), n-4, dataOf(got))
					}
					for _, x := range got {
						if want := time.Millisecond + times(int(x.Data), unit); mode == "handler" && x.Deadline != ceilTo(want, unit) {
							e.t.Errorf("deadline %v, want %v", x.Deadline, want)
						}
					}
				})
			})
		}
	}
}

// What can be done at the last instants of an engine's range, and after them.
func TestPrecisionRange(t *testing.T) {
	for _, unit := range []time.Duration{1, 1 << 10, timer.Resolution} {
		t.Run(unit.String(), func(t *testing.T) {
			bubble(t, timer.Config{Precision: unit, Wall: func() time.Time { return wallStart }}, func(e *fixture) {
				t := e.t
				last := times(int(timer.MaxDeadline/timer.Resolution), unit)
				var r recorder
				g := e.group(r.handle)
				tooFar := func(when string) {
					t.Helper()
					if _, err := g.ArmAt(last+1, 0, 0); !errors.Is(err, timer.ErrTooFar) {
						t.Errorf("%s: ArmAt = %v, want ErrTooFar", when, err)
					}
					if _, err := e.AfterFunc(last+1-e.Now(), func() {}); !errors.Is(err, timer.ErrTooFar) {
						t.Errorf("%s: AfterFunc = %v, want ErrTooFar", when, err)
					}
					if _, err := g.Arm(e.Now(), math.MaxInt64, 0); !errors.Is(err, timer.ErrTooFar) {
						t.Errorf("%s: Arm = %v, want ErrTooFar", when, err)
					}
				}
				tooFar("at first")
				first := e.armed(g.ArmAt(last, time.Second, 1))
				touched := e.armed(g.Arm(0, last/2, 2))
				rate := e.armed(g.Repeat(0, last/3, timer.FixedRate, 3))
				delay := e.armed(g.Repeat(0, last/3, timer.FixedDelay, 4))
				wall := e.armed(e.AtTime(wallStart.Add(last), func() { r.handle([]timer.Expired{{Data: 5}}) }))
				e.set(last/3 + unit)
				r.want(t, "after a third", 3, 4)
				if !e.Touch(touched, last-unit) || !e.TouchTo(first, math.MaxInt64) {
					t.Error("a timer is not armed")
				}
				for _, id := range []timer.ID{touched, first, wall} {
					if at, _ := e.Deadline(id); at != last {
						t.Errorf("Deadline = %v, want %v", at, last)
					}
				}
				e.set(2*(last/3) + 4*unit)
				r.want(t, "after two thirds", 3, 4)
				if _, armed := e.Deadline(delay); armed {
					t.Error("a timer is armed though its next deadline would lie beyond the last")
				}
				tooFar("after two thirds")
				e.Cancel(rate)
				e.set(last - 1)
				r.want(t, "before the last instant")
				e.set(last)
				got := dataOf(r.take())
				slices.Sort(got)
				if !slices.Equal(got, []uint64{1, 2, 5}) {
					t.Errorf("at the last instant %v expired, want 1, 2 and 5", got)
				}
				e.advance(time.Hour)
				tooFar("after the last instant")
				overdue := e.armed(g.ArmAt(last, time.Second, 6))
				e.Touch(overdue, e.Now())
				e.advance(time.Hour)
				r.want(t, "an overdue one", 6)
				if n := e.Len(); n != 0 {
					t.Errorf("Len = %d, want 0", n)
				}
			})
		})
	}
}

// Deadlines beyond the range of a heap's keys, 4.3 s with the finest unit, are as exact.
func TestPrecisionFarAhead(t *testing.T) {
	bubble(t, timer.Config{Precision: 1}, func(e *fixture) {
		var r recorder
		g := e.group(r.handle)
		periods := []time.Duration{1, time.Second, 4 * time.Second, 5 * time.Second, time.Minute + 1, time.Hour + 3}
		for i, d := range periods {
			e.armed(g.ArmAt(d, 0, uint64(i)))
		}
		for i, d := range periods {
			for e.Now() < d-2*time.Second {
				e.advance(time.Second)
			}
			e.set(d - 1)
			r.want(e.t, fmt.Sprint("before ", d))
			e.set(d)
			r.want(e.t, fmt.Sprint("at ", d), uint64(i))
		}
	})
}
