package schedule_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/schedule"
)

func TestPeriods(t *testing.T) {
	tests := []struct {
		name string
		plan func(e *fixture) *schedule.Plan
		want []time.Duration // in the first 5.5 s
	}{
		{"at once", func(e *fixture) *schedule.Plan { return e.Every(2).Seconds() }, []time.Duration{0, 2 * second, 4 * second}},
		{"not immediately", func(e *fixture) *schedule.Plan { return e.Every(2).Seconds().NotImmediately() }, []time.Duration{2 * second, 4 * second}},
		{"from", func(e *fixture) *schedule.Plan { return e.Every(2).Seconds().From(e.start.Add(3 * second)) }, []time.Duration{3 * second, 5 * second}},
		{
			"from, not immediately",
			func(e *fixture) *schedule.Plan {
				return e.Every(2).Seconds().From(e.start.Add(3 * second)).NotImmediately()
			},
			[]time.Duration{5 * second},
		},
		{"from before", func(e *fixture) *schedule.Plan { return e.Every(2).Seconds().From(e.start.Add(-second)) }, []time.Duration{second, 3 * second, 5 * second}},
		{"below a second", func(e *fixture) *schedule.Plan { return e.Every(1500).Milliseconds() }, []time.Duration{0, 1500 * time.Millisecond, 3 * second, 4500 * time.Millisecond}},
		{"cron every", func(e *fixture) *schedule.Plan { return e.Cron("@every 2s") }, []time.Duration{2 * second, 4 * second}},
		{"cron", func(e *fixture) *schedule.Plan { return e.Cron("*/3 * * * * *") }, []time.Duration{3 * second}},
		{"once", func(e *fixture) *schedule.Plan { return e.Once(e.start.Add(time.Second)) }, []time.Duration{second}},
		{"once, passed", func(e *fixture) *schedule.Plan { return e.Once(e.start.Add(-time.Hour)) }, []time.Duration{0}},
		{"custom", func(e *fixture) *schedule.Plan { return e.Schedule(mustParse(t, "TZ=UTC */4 * * * * *")) }, []time.Duration{4 * second}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, schedule.Config{}, func(e *fixture) {
				l := e.log()
				e.added(tt.plan(e).Do(l.run))
				e.sleep(5500 * time.Millisecond)
				l.want(t, "after 5.5 s", tt.want...)
			})
		})
	}
}

func TestManyPeriodsBelowASecond(t *testing.T) {
	bubble(t, schedule.Config{}, func(e *fixture) {
		var runs atomic.Int64
		e.added(e.Every(1).Milliseconds().Do(func() { runs.Add(1) }))
		e.sleep(2 * second)
		if got := runs.Load(); got < 1999 || got > 2001 {
			t.Errorf("%d runs in 2 s, want 2000", got)
		}
	})
}

func TestDays(t *testing.T) {
	berlin := mustZone(t, "Europe/Berlin")
	start := at(t, "2026-03-26T12:00:00Z") // a Thursday; the clock changes on Sunday
	e, err := schedule.New(schedule.Config{Location: time.UTC})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		plan *schedule.Plan
		want []string
	}{
		{"day", e.Every(1).Day(), []string{"2026-03-27T00:00:00Z", "2026-03-28T00:00:00Z"}},
		{"day at", e.Every(1).Day().At(10, 11).In(berlin), []string{"2026-03-27T10:11:00+01:00", "2026-03-28T10:11:00+01:00", "2026-03-29T10:11:00+02:00"}},
		{"day at, later today", e.Every(1).Day().At(12, 0), []string{"2026-03-27T12:00:00Z"}},
		{"day at, in the gap", e.Every(1).Day().At(2, 30).In(berlin).From(at(t, "2026-03-28T12:00:00Z")), []string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"}},
		{"three days", e.Every(3).Days().At(13, 0), []string{"2026-03-26T13:00:00Z", "2026-03-29T13:00:00Z", "2026-04-01T13:00:00Z"}},
		{"three days, from", e.Every(3).Days().At(13, 0).From(at(t, "2026-03-20T13:00:01Z")), []string{"2026-03-27T13:00:00Z", "2026-03-30T13:00:00Z"}},
		{"two weeks", e.Every(2).Weeks().At(8, 0), []string{"2026-03-27T08:00:00Z", "2026-04-10T08:00:00Z"}},
		{"week", e.Every(1).Week().At(8, 0), []string{"2026-03-27T08:00:00Z", "2026-04-03T08:00:00Z"}},
		{"Monday", e.Every(1).Monday().At(9, 0).In(berlin), []string{"2026-03-30T09:00:00+02:00", "2026-04-06T09:00:00+02:00"}},
		{"Thursday, later today", e.Every(1).Thursday().At(13, 0), []string{"2026-03-26T13:00:00Z", "2026-04-02T13:00:00Z"}},
		{"Thursday, passed today", e.Every(2).Thursday().At(11, 0), []string{"2026-04-02T11:00:00Z", "2026-04-16T11:00:00Z"}},
		{"Tuesday", e.Every(1).Tuesday(), []string{"2026-03-31T00:00:00Z"}},
		{"Wednesday", e.Every(1).Wednesday(), []string{"2026-04-01T00:00:00Z"}},
		{"Friday", e.Every(1).Friday(), []string{"2026-03-27T00:00:00Z"}},
		{"Saturday", e.Every(1).Saturday(), []string{"2026-03-28T00:00:00Z"}},
		{"Sunday", e.Every(1).Sunday(), []string{"2026-03-29T00:00:00Z"}},
		{"second", e.Every(1).Second(), []string{"2026-03-26T12:00:00Z", "2026-03-26T12:00:01Z"}},
		{"minute", e.Every(1).Minute(), []string{"2026-03-26T12:00:00Z", "2026-03-26T12:01:00Z"}},
		{"minutes", e.Every(5).Minutes(), []string{"2026-03-26T12:00:00Z", "2026-03-26T12:05:00Z"}},
		{"hour", e.Every(1).Hour(), []string{"2026-03-26T12:00:00Z", "2026-03-26T13:00:00Z"}},
		{"hours", e.Every(6).Hours(), []string{"2026-03-26T12:00:00Z", "2026-03-26T18:00:00Z"}},
		{"cron in", e.Cron("0 9 * * *").In(berlin), []string{"2026-03-27T09:00:00+01:00"}},
		{"continue", e.Every(1).Hour().Continue(at(t, "2026-03-26T09:30:00Z"), 3), []string{"2026-03-26T10:30:00Z"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, after, err := tt.plan.Resolve(start)
			if err != nil {
				t.Fatal(err)
			}
			checkInstants(t, s, after, tt.want)
		})
	}
}

func TestPlanErrors(t *testing.T) {
	now := at(t, "2026-01-01T00:00:00Z")
	e, err := schedule.New(schedule.Config{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	nothing := func() {}
	tests := []struct {
		name string
		plan *schedule.Plan
		f    func()
		want string
	}{
		{"zero", e.Every(0).Seconds(), nothing, "Every(0): want 1 to"},
		{"too many hours", e.Every(1 << 40).Hours(), nothing, "want 1 to 2562047 of this unit"},
		{"too many weeks", e.Every(6000).Weeks(), nothing, "want 1 to 5214 of this unit"},
		{"hour", e.Every(1).Day().At(24, 0), nothing, "At: the hour is 24: want 0 to 23"},
		{"minute", e.Every(1).Day().At(0, -1), nothing, "At: the minute is -1: want 0 to 59"},
		{"both are told", e.Every(0).Day().At(24, 0), nothing, "At: the hour is 24"},
		{"at of a period", e.Every(1).Hour().At(1, 0), nothing, "At: only days, weeks and weekdays"},
		{"in of a period", e.Every(1).Hour().In(time.UTC), nothing, "In: only days"},
		{"nil location", e.Every(1).Day().In(nil), nothing, "In: the location is nil"},
		{"two zones", e.Cron("TZ=UTC @daily").In(time.UTC), nothing, "names its time zone itself"},
		{"expression", e.Cron("0 25 * * *"), nothing, "field 2 (hour) is 25: want 0 to 23"},
		{"jitter", e.Every(1).Hour().Jitter(-1), nothing, "Jitter is -1ns"},
		{"queue", e.Every(1).Hour().Overlap(schedule.OverlapQueue(0)), nothing, "overlap policy"},
		{"queue too long", e.Every(1).Hour().Overlap(schedule.OverlapQueue(1001)), nothing, "overlap policy"},
		{"misfires", e.Every(1).Hour().Misfire(schedule.MisfireAll(101)), nothing, "misfire policy"},
		{"no func", e.Every(1).Hour(), nil, "the func is nil"},
		{"no schedule", e.Schedule(nil), nothing, "the schedule is nil"},
		{"never again", e.Schedule(stuck{}), nothing, "it never fires"},
		{"passed, not immediately", e.Once(now.Add(-time.Hour)).NotImmediately(), nothing, "never fires: all its instants have passed"},
		{"passed, skip", e.Once(now.Add(-time.Hour)).Misfire(schedule.MisfireSkip), nothing, "never fires: all its instants have passed"},
		{"too far", e.Once(now.AddDate(300, 0, 0)), nothing, "it never fires"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, err := tt.plan.Do(tt.f)
			if h != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Do = %v, %v, want an error with %q", h, err, tt.want)
			}
		})
	}
	if n := e.Stats().Schedules; n != 0 {
		t.Errorf("%d schedules, want 0", n)
	}
}

// stuck is a schedule that breaks its promise.
type stuck struct{}

func (stuck) Next(after time.Time) time.Time { return after }

func TestConfigErrors(t *testing.T) {
	_, err := schedule.New(schedule.Config{Workers: -2, MaxSchedules: 1<<24 + 1, Grace: -1})
	for _, want := range []string{"Workers is -2", "MaxSchedules is 16777217", "Grace is -1ns"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New: %v, want %q", err, want)
		}
	}
}

func TestOverlap(t *testing.T) {
	tests := []struct {
		policy  schedule.Overlap
		want    []time.Duration // with a period of 1 s and runs of 2.5 s, five instants
		skipped uint64
	}{
		{schedule.OverlapSkip, []time.Duration{0, 3 * second}, 3},
		{schedule.OverlapQueue(1), []time.Duration{0, 2500 * time.Millisecond, 5 * second}, 2},
		{schedule.OverlapQueue(9), []time.Duration{0, 2500 * time.Millisecond, 5 * second, 7500 * time.Millisecond, 10 * second}, 0},
		{schedule.OverlapAllow, []time.Duration{0, second, 2 * second, 3 * second, 4 * second}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.policy.String(), func(t *testing.T) {
			bubble(t, schedule.Config{}, func(e *fixture) {
				l := e.log()
				h := e.added(e.Every(1).Second().Overlap(tt.policy).Do(func() {
					l.run()
					time.Sleep(2500 * time.Millisecond)
				}))
				e.sleep(4500 * time.Millisecond)
				h.Pause()
				e.sleep(time.Minute)
				l.want(t, "after all", tt.want...)
				if s := e.Stats(); s.Skipped != tt.skipped || s.Running != 0 || s.Ready != 0 {
					t.Errorf("stats %+v, want %d skipped", s, tt.skipped)
				}
			})
		})
	}
}

// A worker that is held up holds up other schedules only when there is no other worker.
func TestResize(t *testing.T) {
	bubble(t, schedule.Config{Workers: 1}, func(e *fixture) {
		release := make(chan struct{})
		for range 3 {
			e.added(e.Once(e.start).Do(func() { <-release }))
		}
		e.sleep(second)
		check := func(running, ready int) {
			t.Helper()
			if s := e.Stats(); s.Running != running || s.Ready != ready {
				t.Errorf("%d run and %d wait, want %d and %d", s.Running, s.Ready, running, ready)
			}
		}
		check(1, 2)
		if err := e.Resize(2); err != nil {
			t.Fatal(err)
		}
		e.sleep(second)
		check(2, 1)
		if err := e.Resize(3); err != nil {
			t.Fatal(err)
		}
		e.sleep(second)
		check(3, 0)
		for _, workers := range []int{0, -2, 1 << 31, 1 << 32, math.MaxInt} {
			if err := e.Resize(workers); err == nil {
				t.Errorf("Resize(%d): no error", workers)
			}
		}
		if got := e.Stats().Workers; got != 3 {
			t.Errorf("%d workers, want 3", got)
		}
		close(release)
		e.sleep(second)
		check(0, 0)
	})
}

// The number of workers counts from the next run on, to no limit and back.
func TestResizeUnlimited(t *testing.T) {
	bubble(t, schedule.Config{Workers: schedule.Unlimited}, func(e *fixture) {
		const many = 500
		burst := func() (most int) {
			var running, peak atomic.Int64
			for range many {
				e.added(e.Once(e.start).Do(func() {
					for n := running.Add(1); ; {
						if most := peak.Load(); n <= most || peak.CompareAndSwap(most, n) {
							break
						}
					}
					time.Sleep(second)
					running.Add(-1)
				}))
			}
			e.sleep((many + 2) * second)
			return int(peak.Load())
		}
		for _, workers := range []int{schedule.Unlimited, 1, 3, schedule.Unlimited, 2} {
			if err := e.Resize(workers); err != nil {
				t.Fatal(err)
			}
			want := workers
			if workers == schedule.Unlimited {
				want = many
			}
			if most := burst(); most != want {
				t.Errorf("Resize(%d): %d at a time", workers, most)
			}
			if got := e.Stats().Workers; got != workers {
				t.Errorf("Resize(%d): Stats has %d", workers, got)
			}
		}
		// Fewer workers than runs that go on: these end, and no other begins before there is room.
		var begun atomic.Int64
		release := make(chan struct{})
		hold := func(n int) {
			for range n {
				e.added(e.Once(e.start).Do(func() { begun.Add(1); <-release }))
			}
			e.sleep(second)
		}
		if err := e.Resize(schedule.Unlimited); err != nil {
			t.Fatal(err)
		}
		hold(40)
		if err := e.Resize(2); err != nil {
			t.Fatal(err)
		}
		hold(40)
		if n := begun.Load(); n != 40 {
			t.Errorf("%d began, want 40", n)
		}
		for _, step := range []struct{ ends, want int64 }{{38, 40}, {1, 41}, {1, 42}} {
			for range step.ends {
				release <- struct{}{}
			}
			e.sleep(second)
			if n := begun.Load(); n != step.want {
				t.Errorf("%d began, want %d", n, step.want)
			}
		}
		close(release)
		e.sleep(second)
		if n := begun.Load(); n != 80 {
			t.Errorf("%d began, want 80", n)
		}
	})
}

func TestFull(t *testing.T) {
	bubble(t, schedule.Config{MaxSchedules: 2}, func(e *fixture) {
		h := e.added(e.Every(1).Hour().Do(func() {}))
		e.added(e.Every(1).Hour().Do(func() {}))
		if _, err := e.Every(1).Hour().Do(func() {}); !errors.Is(err, schedule.ErrFull) {
			t.Errorf("the third: %v, want ErrFull", err)
		}
		if !h.Cancel() || h.Cancel() {
			t.Error("Cancel: want true, then false")
		}
		e.added(e.Once(e.start.Add(second)).Do(func() {}))
		e.sleep(2 * second) // it has ended
		e.added(e.Every(1).Hour().Do(func() {}))
		if got := e.Stats().Schedules; got != 2 {
			t.Errorf("%d schedules, want 2", got)
		}
	})
}

func TestPauseResumeCancel(t *testing.T) {
	bubble(t, schedule.Config{}, func(e *fixture) {
		l := e.log()
		h := e.added(e.Every(2).Seconds().Do(l.run))
		e.sleep(second)
		if got := h.Next(); !got.Equal(e.start.Add(2 * second)) {
			t.Errorf("Next = %v, want 2 s", got)
		}
		if !h.Pause() || h.Pause() || !h.Next().IsZero() || !h.Status().Paused {
			t.Error("Pause does not pause")
		}
		e.sleep(6 * second)
		l.want(t, "paused", 0)
		if !h.Resume() || h.Resume() {
			t.Error("Resume: want true, then false")
		}
		e.sleep(4 * second)
		l.want(t, "resumed", 8*second, 10*second)
		if !h.Cancel() {
			t.Error("Cancel: false")
		}
		e.sleep(time.Minute)
		l.want(t, "cancelled")
		if h.Pause() || h.Resume() || !h.Status().Ended || !errors.Is(h.RunNow(), schedule.ErrEnded) {
			t.Errorf("after Cancel: %+v", h.Status())
		}

		once := e.added(e.Once(e.start.Add(2 * time.Hour)).Do(l.run))
		once.Pause()
		e.sleep(3 * time.Hour)
		if !once.Resume() || !once.Status().Ended || e.Stats().Schedules != 0 {
			t.Errorf("a single instant that passed during the pause: %+v", once.Status())
		}
	})
}

func TestRunNow(t *testing.T) {
	bubble(t, schedule.Config{}, func(e *fixture) {
		l := e.log()
		h := e.added(e.Every(1).Hour().NotImmediately().Name("sweep").DoRun(func(ctx context.Context, r schedule.Run) {
			l.note(ctx, r)
			time.Sleep(second)
		}))
		h.Pause()
		e.sleep(minute)
		if err := h.RunNow(); err != nil {
			t.Fatal(err)
		}
		if err := h.RunNow(); !errors.Is(err, schedule.ErrBusy) {
			t.Errorf("the second: %v, want ErrBusy", err)
		}
		e.sleep(minute)
		_, runs := l.take()
		want := schedule.Run{Name: "sweep", Number: 1, Scheduled: e.start.Add(minute).UTC(), Manual: true}
		if len(runs) != 1 || runs[0] != want {
			t.Errorf("runs %+v, want %+v", runs, want)
		}
		if s := h.Status(); s.Runs != 1 || !s.Last.Equal(want.Scheduled) {
			t.Errorf("status %+v", s)
		}
	})
}

// A run of a cancelled schedule does not begin, though it waits for a worker.
func TestCancelWhatWaits(t *testing.T) {
	bubble(t, schedule.Config{Workers: 1}, func(e *fixture) {
		l := e.log()
		release := make(chan struct{})
		e.added(e.Once(e.start).Do(func() { <-release }))
		e.sleep(second)
		h := e.added(e.Once(e.start).Do(l.run))
		behind := e.added(e.Every(1).Hour().Do(l.run))
		e.sleep(second)
		if h.Cancel() || !behind.Cancel() { // the one has ended, as it has no instant left
			t.Error("Cancel: want false and true")
		}
		close(release)
		e.sleep(second)
		l.want(t, "cancelled")
	})
}

func TestPanic(t *testing.T) {
	var reports []string
	cfg := schedule.Config{Workers: 1, OnPanic: func(r schedule.Run, v any, stack []byte) {
		if strings.Contains(string(stack), "TestPanic") {
			reports = append(reports, r.Name+": "+v.(string))
		}
	}}
	bubble(t, cfg, func(e *fixture) {
		e.added(e.Every(2).Seconds().Name("bad").Do(func() { panic("no") }))
		e.added(e.Every(2).Seconds().Name("gone").Do(runtime.Goexit))
		e.sleep(3 * second)
		if s := e.Stats(); s.Panics != 2 || s.Runs != 4 || s.Running != 0 {
			t.Errorf("stats %+v, want 2 panics in 4 runs", s)
		}
	})
	if want := []string{"bad: no", "bad: no"}; !slices.Equal(reports, want) {
		t.Errorf("reports %v, want %v", reports, want)
	}
}

// A schedule of somebody's own that panics ends, and takes nothing else with it.
func TestPanickingSchedule(t *testing.T) {
	var reports []string
	cfg := schedule.Config{Workers: 1, OnPanic: func(r schedule.Run, v any, _ []byte) {
		reports = append(reports, r.Name+": "+v.(string))
	}}
	bubble(t, cfg, func(e *fixture) {
		l := e.log()
		bad := e.added(e.Schedule(&brittle{calls: 1}).Name("brittle").Do(l.run))
		e.added(e.Cron("* * * * * *").Do(l.run))
		e.sleep(2500 * time.Millisecond)
		l.want(t, "the other", second, 2*second)
		if s := bad.Status(); !s.Ended || e.Stats().Schedules != 1 {
			t.Errorf("status %+v, %d schedules, want it ended", s, e.Stats().Schedules)
		}
	})
	if want := []string{"brittle: broken"}; !slices.Equal(reports, want) {
		t.Errorf("reports %v, want %v", reports, want)
	}
}

// One that panics when it goes on after a pause ends as well, and one that does so at once is refused.
func TestPanickingScheduleAsked(t *testing.T) {
	var reports []string
	cfg := schedule.Config{OnPanic: func(r schedule.Run, v any, _ []byte) {
		reports = append(reports, r.Name+": "+v.(string))
	}}
	bubble(t, cfg, func(e *fixture) {
		bad := e.added(e.Schedule(&brittle{calls: 1}).Name("brittle").Do(func() {}))
		if bad.Resume() || !bad.Pause() {
			t.Error("want Pause, and Resume after it")
		}
		e.sleep(2 * second)
		if !bad.Resume() || bad.Resume() {
			t.Error("want Resume once")
		}
		if s := bad.Status(); !s.Ended || e.Stats().Schedules != 0 || e.Stats().Panics != 1 {
			t.Errorf("status %+v, stats %+v, want it ended, and 1 panic", s, e.Stats())
		}
		if h, err := e.Schedule(&brittle{}).Do(func() {}); h != nil || err == nil || !strings.Contains(err.Error(), "the schedule panicked: broken") {
			t.Errorf("Do = %v, %v", h, err)
		}
	})
	if want := []string{"brittle: broken"}; !slices.Equal(reports, want) {
		t.Errorf("reports %v, want %v", reports, want)
	}
}

// brittle is a schedule of each second that panics after some calls.
type brittle struct{ calls int }

func (b *brittle) Next(after time.Time) time.Time {
	if b.calls--; b.calls < 0 {
		panic("broken")
	}
	return after.Truncate(second).Add(second)
}

func TestJitter(t *testing.T) {
	bubble(t, schedule.Config{}, func(e *fixture) {
		l := e.log()
		e.added(e.Every(10).Seconds().Jitter(4 * second).Do(l.run))
		e.sleep(1000 * second)
		runs, _ := l.take()
		if len(runs) < 99 || len(runs) > 101 {
			t.Errorf("%d runs, want 100", len(runs))
		}
		var delays time.Duration
		for i, at := range runs {
			delay := at - time.Duration(i)*10*second
			if delay < 0 || delay > 4*second+time.Millisecond {
				t.Errorf("run %d is %v late, want 0 to 4 s", i, delay)
			}
			delays += delay
		}
		if mean := delays / time.Duration(len(runs)); mean < second || mean > 3*second {
			t.Errorf("the mean delay is %v, want some 2 s", mean)
		}
	})
}

// An instant that has passed is run for at once, however long ago it was.
func TestLongAgo(t *testing.T) {
	bubble(t, schedule.Config{}, func(e *fixture) {
		for _, year := range []int{-1_000_000, 2, 1678, 1679, 1720, 1740, 1969} {
			l := e.log()
			h := e.added(e.Once(time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)).Do(l.run))
			e.sleep(second)
			if _, runs := l.take(); len(runs) != 1 || !h.Status().Ended {
				t.Errorf("year %d: %d runs, status %+v, want one", year, len(runs), h.Status())
			}
		}
		l := e.log()
		daily := e.added(e.Every(1).Day().Continue(time.Date(2, 1, 1, 0, 0, 0, 0, time.UTC), 1).DoRun(l.note))
		e.sleep(second)
		l.wantScheduled(t, "days since the year 2", "2000-01-01T00:00:00Z")
		if got, want := daily.Next(), e.start.AddDate(0, 0, 1); !got.Equal(want) {
			t.Errorf("next at %v, want %v", got, want)
		}
	})
}

func TestContinue(t *testing.T) {
	bubble(t, schedule.Config{}, func(e *fixture) {
		l := e.log()
		last := e.start.Add(-150 * minute)
		e.added(e.Cron("@hourly").Continue(last, 41).Misfire(schedule.MisfireAll(2)).DoRun(l.note))
		e.sleep(time.Hour + second)
		_, runs := l.take()
		var numbers []uint64
		for _, r := range runs {
			numbers = append(numbers, r.Number)
		}
		if want := []uint64{42, 43, 44}; !slices.Equal(numbers, want) {
			t.Errorf("numbers %v, want %v", numbers, want)
		}
		l.runs = runs
		l.wantScheduled(t, "the two latest that were missed, and the next", "1999-12-31T23:00:00Z", "2000-01-01T00:00:00Z", "2000-01-01T01:00:00Z")

		e.added(e.Every(2).Seconds().Continue(time.Time{}, 7).DoRun(l.note))
		e.sleep(second)
		if _, runs := l.take(); len(runs) != 1 || runs[0].Number != 8 {
			t.Errorf("without a last run: %+v", runs)
		}
	})
}

// Before Run schedules are only noted; what was due meanwhile is a misfire.
func TestBeforeAndAfterRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := schedule.New(schedule.Config{Location: time.UTC})
		if err != nil {
			t.Fatal(err)
		}
		l := &log{start: time.Now()}
		h, err := e.Every(2).Seconds().Overlap(schedule.OverlapAllow).Do(l.run) // the run asked for may still go on at 5 s
		if err != nil {
			t.Fatal(err)
		}
		if err := h.RunNow(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * second)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- e.Run(ctx) }()
		time.Sleep(2 * second)
		l.want(t, "by 7 s: the one asked for, that for 4 s, that of 6 s", 5*second, 5*second, 6*second)
		busy, err := e.Once(time.Now()).DoRun(func(ctx context.Context, r schedule.Run) {
			<-ctx.Done()
			time.Sleep(second)
			l.note(ctx, r)
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(500 * time.Millisecond)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		l.want(t, "Run waits for the run", 8500*time.Millisecond)
		if err := e.Run(t.Context()); err == nil {
			t.Error("Run again: no error")
		}
		if _, err := e.Every(1).Second().Do(l.run); !errors.Is(err, schedule.ErrClosed) {
			t.Errorf("Do: %v, want ErrClosed", err)
		}
		if err := busy.RunNow(); !errors.Is(err, schedule.ErrClosed) {
			t.Errorf("RunNow: %v, want ErrClosed", err)
		}
		h.Cancel()
	})
}

// Ten thousand schedules of one instant, few workers: each runs once, and none has a goroutine.
func TestManyAtOnce(t *testing.T) {
	const n = 10_000
	goroutines := runtime.NumGoroutine()
	bubble(t, schedule.Config{Workers: 3}, func(e *fixture) {
		runs := make([]atomic.Int32, n)
		for i := range n {
			e.added(e.Cron("30 * * * * *").Do(func() { runs[i].Add(1) }))
		}
		if more := runtime.NumGoroutine() - goroutines; more > 100 {
			t.Errorf("%d goroutines for %d schedules", more, n)
		}
		e.sleep(minute)
		for i := range runs {
			if got := runs[i].Load(); got != 1 {
				t.Fatalf("schedule %d ran %d times, want 1", i, got)
			}
		}
		if s := e.Stats(); s.Misfired != 0 || s.Skipped != 0 || s.MostReady < 2 {
			t.Errorf("stats %+v", s)
		}
	})
}

// Whatever is called at the same time: numbers grow, runs do not overlap, and all ends.
func TestStress(t *testing.T) {
	e, err := schedule.New(schedule.Config{Workers: 4})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- e.Run(ctx) }()
	var callers sync.WaitGroup
	for seed := range uint64(4) {
		callers.Go(func() { stressOne(t, e, newRand(seed)) })
	}
	callers.Wait()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := e.Stats().Running; n != 0 {
		t.Errorf("%d run after the end", n)
	}
}

func stressOne(t *testing.T, e *schedule.Engine, r *rand.Rand) {
	t.Helper()
	for range 60 {
		var running atomic.Bool
		var number atomic.Uint64
		h, err := e.Every(1 + r.IntN(3)).Milliseconds().DoRun(func(_ context.Context, run schedule.Run) {
			if !running.CompareAndSwap(false, true) {
				t.Error("two runs at a time")
			}
			if before := number.Swap(run.Number); before >= run.Number {
				t.Errorf("run %d after run %d", run.Number, before)
			}
			runtime.Gosched()
			running.Store(false)
		})
		if err != nil {
			t.Error(err)
			return
		}
		for range 40 {
			switch r.IntN(5) {
			case 0:
				h.Pause()
			case 1:
				h.Resume()
			case 2:
				_ = h.RunNow() // refused while one goes on
			case 3:
				_ = h.Status()
			default:
				if err := e.Resize(1 + r.IntN(4)); err != nil {
					t.Error(err)
				}
			}
		}
		if !h.Cancel() {
			t.Error("Cancel: false")
		}
	}
}
