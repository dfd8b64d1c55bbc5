package schedule_test

import (
	"slices"
	"testing"
	"time"

	"github.com/holter-iot/holter/schedule"
)

// What the tests of package cron of github.com/kawasin73/htask (cron/cron_test.go and example_test.go) ask, told anew.

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// A time of day is that of the engine's location, to the nanosecond, today or else tomorrow. Without one a day begins at
// midnight, where htask counts 24 hours: that is Every(24).Hours() here.
func TestHtaskAt(t *testing.T) {
	now := at(t, "2026-01-01T12:00:00Z")
	for _, tt := range []struct {
		name string
		plan func(e *schedule.Engine) *schedule.Plan
		want []string
	}{
		{"later today", func(e *schedule.Engine) *schedule.Plan { return e.Every(1).Day().AtExactly(21, 2, 3, 4) }, []string{"2026-01-01T21:02:03.000000004+09:00", "2026-01-02T21:02:03.000000004+09:00"}},
		{"now", func(e *schedule.Engine) *schedule.Plan { return e.Every(1).Day().At(21, 0) }, []string{"2026-01-02T21:00:00+09:00"}},
		{"tomorrow", func(e *schedule.Engine) *schedule.Plan { return e.Every(1).Day().At(10, 11) }, []string{"2026-01-02T10:11:00+09:00", "2026-01-03T10:11:00+09:00"}},
		{"from an hour later", func(e *schedule.Engine) *schedule.Plan { return e.Every(1).Day().From(now.Add(time.Hour)) }, []string{"2026-01-02T00:00:00+09:00"}},
		{"24 hours from an hour later", func(e *schedule.Engine) *schedule.Plan { return e.Every(24).Hours().From(now.Add(time.Hour)) }, []string{"2026-01-01T13:00:00Z", "2026-01-02T13:00:00Z"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, err := schedule.New(schedule.Config{Location: mustZone(t, "Asia/Tokyo")})
			if err != nil {
				t.Fatal(err)
			}
			s, after, err := tt.plan(e).Resolve(now)
			if err != nil {
				t.Fatal(err)
			}
			checkInstants(t, s, after, tt.want)
		})
	}
}

// intervals is a schedule that comes after each of some intervals, and then ends.
type intervals struct {
	start time.Time
	waits []time.Duration
}

func (s intervals) Next(after time.Time) time.Time {
	next := s.start
	for _, wait := range s.waits {
		if next = next.Add(wait); next.After(after) {
			return next
		}
	}
	return time.Time{}
}

// A schedule of one's own with intervals that grow (timingwheel_test.go of github.com/RussellLuo/timingwheel), or are those of a count
// (min_heap_test.go of github.com/antlabs/timer), is run for each of its instants, and has ended then.
func TestTimingWheelSchedules(t *testing.T) {
	for _, tt := range []struct {
		name        string
		waits, want []time.Duration
	}{
		{"growing", []time.Duration{ms(1), ms(4), ms(5), ms(40), ms(50), ms(400), ms(500)}, []time.Duration{ms(1), ms(5), ms(10), ms(50), ms(100), ms(500), second}},
		{"counting", []time.Duration{ms(10), ms(20), ms(30)}, []time.Duration{ms(10), ms(30), ms(60)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, schedule.Config{}, func(e *fixture) {
				l := e.log()
				h := e.added(e.Schedule(intervals{e.start, slices.Clone(tt.waits)}).Do(l.run))
				e.sleep(minute)
				l.want(t, "after a minute", tt.want...)
				if s := h.Status(); !s.Ended || !s.Next.IsZero() || s.Runs != uint64(len(tt.want)) {
					t.Errorf("status %+v, want it ended after %d runs", s, len(tt.want))
				}
			})
		})
	}
}
