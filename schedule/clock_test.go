package schedule_test

import (
	"math"
	"testing"
	"time"

	"github.com/holter-iot/holter/schedule"
)

// The clock on the wall is set an hour ahead: nothing is lost, by the policy.
func TestClockAhead(t *testing.T) {
	tests := []struct {
		name   string
		text   string
		policy schedule.Misfire
		want   []string
	}{
		{"once", "*/20 * * * *", schedule.MisfireOnce, []string{"2000-01-01T01:20:00Z"}},
		{"all", "*/20 * * * *", schedule.MisfireAll(9), []string{"2000-01-01T00:40:00Z", "2000-01-01T01:00:00Z", "2000-01-01T01:20:00Z"}},
		{"some", "*/20 * * * *", schedule.MisfireAll(2), []string{"2000-01-01T01:00:00Z", "2000-01-01T01:20:00Z"}},
		{"skip, not too late", "*/20 * * * *", schedule.MisfireSkip, []string{"2000-01-01T01:20:00Z"}},
		{"skip, too late", "50 * * * *", schedule.MisfireSkip, nil},
		{"one, late", "50 * * * *", schedule.MisfireOnce, []string{"2000-01-01T00:50:00Z"}},
		{"nothing was due", "0 5 * * *", schedule.MisfireAll(9), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, schedule.Config{}, func(e *fixture) {
				l := e.log()
				e.sleep(20*minute + 30*second)
				h := e.added(e.Cron(tt.text).Misfire(tt.policy).DoRun(l.note))
				e.set(time.Hour)
				l.wantScheduled(t, "an hour ahead", tt.want...)
				if now := e.start.Add(80 * minute); !h.Next().After(now) {
					t.Errorf("Next = %v, want after %v", h.Next(), now)
				}
				if s := e.Stats(); s.ClockSteps != 1 || s.Running != 0 {
					t.Errorf("stats %+v, want one step", s)
				}
			})
		})
	}
}

// The clock on the wall is set an hour back: what has run does not run again, and nothing is stuck.
func TestClockBack(t *testing.T) {
	bubble(t, schedule.Config{}, func(e *fixture) {
		l := e.log()
		h := e.added(e.Cron("*/20 * * * *").DoRun(l.note))
		e.sleep(90 * minute)
		l.wantScheduled(t, "before", "2000-01-01T00:20:00Z", "2000-01-01T00:40:00Z", "2000-01-01T01:00:00Z", "2000-01-01T01:20:00Z")
		e.set(-time.Hour)
		e.sleep(minute)
		if got := h.Next().Format(time.RFC3339); got != "2000-01-01T01:40:00Z" {
			t.Errorf("Next = %v, want 01:40", got)
		}
		e.sleep(65 * minute)
		l.wantScheduled(t, "until 01:36 comes again")
		e.sleep(5 * minute)
		l.wantScheduled(t, "at 01:41", "2000-01-01T01:40:00Z")
	})
}

// The clock on the wall was years ahead: nobody waits for these years to come again.
func TestClockWasWrong(t *testing.T) {
	bubble(t, schedule.Config{}, func(e *fixture) {
		const ahead = 10 * 366 * 24 * time.Hour
		e.jump.Store(int64(ahead))
		e.sleep(1100 * time.Millisecond)
		l, paused, single := e.log(), e.log(), e.log()
		h := e.added(e.Cron("*/20 * * * *").DoRun(l.note))
		p := e.added(e.Cron("*/20 * * * *").DoRun(paused.note))
		once := e.start.Add(ahead + time.Hour)
		e.added(e.Once(once).DoRun(single.note))
		e.sleep(10 * minute)
		p.Pause()
		e.set(-ahead)
		if got := h.Next().Format(time.RFC3339); got != "2000-01-01T00:20:00Z" {
			t.Errorf("next at %s, want 00:20", got)
		}
		p.Resume()
		e.sleep(50 * minute)
		l.wantScheduled(t, "by the right clock", "2000-01-01T00:20:00Z", "2000-01-01T00:40:00Z", "2000-01-01T01:00:00Z")
		paused.wantScheduled(t, "paused meanwhile", "2000-01-01T00:20:00Z", "2000-01-01T00:40:00Z", "2000-01-01T01:00:00Z")
		single.wantScheduled(t, "an instant that is years ahead")
	})
}

// Periods do not care, but show what the wall does.
func TestClockAndPeriods(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		bubble(t, schedule.Config{}, func(e *fixture) {
			l := e.log()
			h := e.added(e.Every(7).Minutes().NotImmediately().Do(l.run))
			e.sleep(10 * minute)
			e.set(by)
			if got, want := h.Next(), e.start.Add(14*minute+by); got.Sub(want).Abs() > time.Millisecond {
				t.Errorf("Next = %v, want %v", got, want)
			}
			late := e.added(e.Every(7).Minutes().From(e.start.Add(by + 12*minute)).Do(func() {}))
			if got, want := late.Next(), e.start.Add(12*minute+by); got.Sub(want).Abs() > time.Millisecond {
				t.Errorf("From after the step: Next = %v, want %v", got, want)
			}
			e.sleep(20 * minute)
			l.want(t, "in 30 minutes", 7*minute, 14*minute, 21*minute, 28*minute)
		})
	}
}

// Instants at the ends of what can be counted do not come round at the other end.
func TestFarInstants(t *testing.T) {
	const year, day = 365 * 24 * time.Hour, 24 * time.Hour
	old, last := time.Date(1700, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano(), time.Date(2261, 12, 31, 0, 0, 0, 0, time.UTC).UnixNano()
	if got := schedule.Minus(old, last); got != math.MinInt64 {
		t.Errorf("from 2261 to 1700: %v", got)
	}
	if got := schedule.Minus(last, old); got != math.MaxInt64 {
		t.Errorf("from 1700 to 2261: %v", got)
	}
	if got := schedule.Minus(last, last-int64(day)); got != day {
		t.Errorf("a day: %v", got)
	}
	if got := schedule.Plus(last, year); got != math.MaxInt64 {
		t.Errorf("a year after 2261: %v", got)
	}
	if got := schedule.Plus(last, day); got != last+int64(day) {
		t.Errorf("a day after: %v", got)
	}
}
