package schedule_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holter-iot/holter/internal/test/testcron"
	"github.com/holter-iot/holter/schedule"
)

// Due must agree with counting all instants one by one.
func TestDueLikeCounting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := testcron.Random(newRand(rapid.Uint64().Draw(t, "expression")))
		s, err := schedule.ParseIn(x.Text, time.UTC)
		if errors.Is(err, schedule.ErrNever) {
			t.Skip("the expression matches no instant")
		} else if err != nil {
			t.Fatal(err)
		}
		last := time.Unix(rapid.Int64Range(1e9, 2e9).Draw(t, "last"), 0)
		now := last.Add(time.Duration(rapid.Int64Range(0, int64(30*24*time.Hour)).Draw(t, "passed")))
		n := rapid.IntRange(1, schedule.MaxMisfires).Draw(t, "n")
		var all []time.Time
		next := s.Next(last)
		for ; !next.IsZero() && !next.After(now); next = s.Next(next) {
			all = append(all, next)
		}
		got, gotNext, err := schedule.Due(s, last, now, schedule.MisfireAll(n), 0)
		if want := all[max(0, len(all)-n):]; err != nil || !slices.EqualFunc(got, want, time.Time.Equal) || !gotNext.Equal(next) {
			t.Fatalf("%q: Due(%v, %v, %d) = %v, %v, %v, want %v, %v", x.Text, last, now, n, got, gotNext, err, want, next)
		}
		got, _, err = schedule.Due(s, last, now, schedule.MisfireOnce, 0)
		if want := all[max(0, len(all)-1):]; err != nil || !slices.EqualFunc(got, want, time.Time.Equal) {
			t.Fatalf("%q: Due(%v, %v, once) = %v, %v, want %v", x.Text, last, now, got, err, want)
		}
	})
}

func TestDue(t *testing.T) {
	hourly := mustParse(t, "TZ=UTC @hourly")
	seconds := mustParse(t, "TZ=UTC * * * * * *")
	tests := []struct {
		name   string
		s      schedule.Schedule
		passed time.Duration // since 2026-01-01T00:30:00Z
		policy schedule.Misfire
		want   int
		next   string
	}{
		{"nothing", hourly, 10 * minute, schedule.MisfireOnce, 0, "2026-01-01T01:00:00Z"},
		{"to the second", hourly, 30 * minute, schedule.MisfireOnce, 1, "2026-01-01T02:00:00Z"},
		{"skip in time", hourly, 31 * minute, schedule.MisfireSkip, 1, "2026-01-01T02:00:00Z"},
		{"skip too late", hourly, 31*minute + 1, schedule.MisfireSkip, 0, "2026-01-01T02:00:00Z"},
		{"the clock went back", hourly, -time.Hour, schedule.MisfireAll(9), 0, "2026-01-01T01:00:00Z"},
		{"ten years of seconds", seconds, 10 * 365 * 24 * time.Hour, schedule.MisfireAll(100), 100, "2035-12-30T00:30:01Z"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			last := at(t, "2026-01-01T00:30:00Z")
			runs, next, err := schedule.Due(tt.s, last, last.Add(tt.passed), tt.policy, minute)
			if err != nil || len(runs) != tt.want || next.Format(time.RFC3339) != tt.next {
				t.Errorf("Due = %v, %v, %v, want %d runs, then %v", runs, next, err, tt.want, tt.next)
			}
		})
	}
	if _, _, err := schedule.Due(hourly, time.Time{}, time.Time{}, schedule.MisfireAll(0), 0); err == nil {
		t.Error("a policy that is none: no error")
	}
	if runs, _, _ := schedule.Due(stuck{}, time.Time{}, time.Now(), schedule.MisfireAll(3), 0); len(runs) != 0 {
		t.Errorf("a schedule that breaks its promise: %v", runs)
	}
}
