package schedule_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holter-iot/holter/schedule"
)

// What the tests of github.com/jasonlvhit/gocron (gocron_test.go) ask of the next run after a last one, told anew.
func TestGocronContinue(t *testing.T) {
	now := at(t, "2026-01-01T12:00:00Z") // a Thursday
	angeles := mustZone(t, "America/Los_Angeles")
	e, err := schedule.New(schedule.Config{Location: time.UTC})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		plan *schedule.Plan
		last string
		want []string
	}{
		{"a day, last run in another location", e.Every(1).Day().At(20, 44), "2025-12-31T12:45:00-08:00", []string{"2026-01-01T20:44:00Z"}},
		{"a day of another location", e.Every(1).Day().At(20, 44).In(angeles), "2026-01-01T04:45:00Z", []string{"2026-01-01T20:44:00-08:00"}},
		{"a day, last run ahead", e.Every(1).Day(), "2026-01-01T14:00:00Z", []string{"2026-01-02T00:00:00Z"}},
		{"two days", e.Every(2).Days(), "2026-01-01T00:00:00Z", []string{"2026-01-03T00:00:00Z", "2026-01-05T00:00:00Z"}},
		{"tomorrow's weekday a week ago", e.Every(1).Friday(), "2025-12-26T00:00:00Z", []string{"2026-01-02T00:00:00Z", "2026-01-09T00:00:00Z"}},
		{"yesterday's weekday", e.Every(1).Wednesday(), "2025-12-31T00:00:00Z", []string{"2026-01-07T00:00:00Z"}},
		{"today's weekday, the time to come", e.Every(1).Thursday().At(12, 1), "2025-12-25T12:01:00Z", []string{"2026-01-01T12:01:00Z"}},
		{"today's weekday, the time has been", e.Every(1).Thursday().At(11, 59), "2026-01-01T11:59:00Z", []string{"2026-01-08T11:59:00Z"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, after, err := tt.plan.Continue(at(t, tt.last), 1).Resolve(now)
			if err != nil {
				t.Fatal(err)
			}
			checkInstants(t, s, after, tt.want)
		})
	}
}

// Ten periods, two workers, runs of half a period (TestScheduler_LimitMode of go-co-op/gocron): a run waits its turn, and none
// has a second one before all have had their first.
func TestGocronLimit(t *testing.T) {
	bubble(t, schedule.Config{Workers: 2}, func(e *fixture) {
		const jobs = 10
		var mu sync.Mutex // guards the variables below
		var ended []int
		var at []time.Duration
		for i := range jobs {
			e.added(e.Every(100).Milliseconds().NotImmediately().Do(func() {
				time.Sleep(ms(50))
				mu.Lock()
				defer mu.Unlock()
				ended, at = append(ended, i), append(at, time.Since(e.start).Round(time.Millisecond))
			}))
		}
		e.sleep(ms(375))
		mu.Lock()
		defer mu.Unlock()
		want := []time.Duration{ms(150), ms(150), ms(200), ms(200), ms(250), ms(250), ms(300), ms(300), ms(350), ms(350)}
		if !slices.Equal(at, want) {
			t.Errorf("runs ended after %v, want %v", at, want)
		}
		slices.Sort(ended)
		if len(slices.Compact(ended)) != jobs {
			t.Errorf("of the first %d runs some were for the same schedules: %v", jobs, ended)
		}
	})
}

// A run asked for comes at once and leaves the schedule as it was (TestScheduler_RunJobNow). One that is over has none any more,
// which is ErrEnded here.
func TestGocronRunNow(t *testing.T) {
	for _, tt := range []struct {
		name string
		plan func(e *fixture) *schedule.Plan
		took time.Duration
		err  error
		want []time.Duration // by 12 s, with a run asked for at 0.1 s
		next time.Duration   // at 0.2 s
	}{
		{"a period", func(e *fixture) *schedule.Plan { return e.Every(10).Seconds().NotImmediately() }, 0, nil, []time.Duration{ms(100), 10 * second}, 10 * second},
		{"a period that began at once", func(e *fixture) *schedule.Plan { return e.Every(5).Seconds() }, 0, nil, []time.Duration{0, ms(100), 5 * second, 10 * second}, 5 * second},
		{"a month", func(e *fixture) *schedule.Plan { return e.Cron("@monthly") }, 0, nil, []time.Duration{ms(100)}, 31 * 24 * time.Hour},
		{"during a run", func(e *fixture) *schedule.Plan { return e.Every(10).Seconds() }, ms(200), schedule.ErrBusy, []time.Duration{0, 10 * second}, 10 * second},
		{"once", func(e *fixture) *schedule.Plan { return e.Once(e.start) }, 0, schedule.ErrEnded, []time.Duration{0}, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, schedule.Config{}, func(e *fixture) {
				l := e.log()
				h := e.added(tt.plan(e).Do(func() {
					l.run()
					time.Sleep(tt.took)
				}))
				e.sleep(ms(100))
				if err := h.RunNow(); !errors.Is(err, tt.err) {
					t.Errorf("RunNow = %v, want %v", err, tt.err)
				}
				e.sleep(ms(100))
				want := e.start.Add(tt.next)
				if tt.next < 0 {
					want = time.Time{}
				}
				if got := h.Next(); !got.Equal(want) {
					t.Errorf("Next = %v, want %v", got, want)
				}
				e.sleep(12 * second)
				l.want(t, "by 12 s", tt.want...)
			})
		})
	}
}

// A run may cancel its own schedule, at its first run or at a later one, and those of others (TestScheduler_RemoveJob_RemoveSelf and
// _RemoveLotsOfJobs): that is how a schedule has a number of runs.
func TestGocronRemoveSelf(t *testing.T) {
	for _, runs := range []int{1, 3} {
		t.Run(fmt.Sprintf("runs=%d", runs), func(t *testing.T) {
			bubble(t, schedule.Config{}, func(e *fixture) {
				const others = 100
				var all []*schedule.Handle
				for range others {
					all = append(all, e.added(e.Every(1).Hour().NotImmediately().Do(func() { t.Error("a cancelled schedule ran") })))
				}
				count := 0
				self := make(chan *schedule.Handle, 1)
				self <- e.added(e.Every(1).Second().NotImmediately().Do(func() {
					if count++; count < runs {
						return
					}
					for _, h := range append(all, <-self) {
						if !h.Cancel() {
							t.Error("Cancel = false")
						}
					}
				}))
				e.sleep(2 * time.Hour)
				if count != runs || e.Stats().Schedules != 0 {
					t.Errorf("%d runs, and %d schedules are left, want %d and none", count, e.Stats().Schedules, runs)
				}
			})
		})
	}
}
