package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/schedule"
)

var errTask = errors.New("it failed")

// noted is a task that notes when it ran, and fails the first times.
func noted(start time.Time, notes *[]string, name string, failures int) schedule.Task {
	return func(_ context.Context, r schedule.Run) error {
		*notes = append(*notes, fmt.Sprintf("%s %d after %v", name, r.Number, time.Since(start)))
		if failures--; failures >= 0 {
			return fmt.Errorf("%s: %w", name, errTask)
		}
		return nil
	}
}

// maker makes a task that notes when it ran.
type maker func(name string, failures int) schedule.Task

func TestTasks(t *testing.T) {
	tests := []struct {
		name string
		task func(at maker) schedule.Task
		want []string
		err  string
	}{
		{"a chain", func(at maker) schedule.Task { return at("a", 0).Then(at("b", 0), at("c", 0)) }, []string{"a 7 after 0s", "b 7 after 0s", "c 7 after 0s"}, ""},
		{"a chain that breaks", func(at maker) schedule.Task { return at("a", 0).Then(at("b", 1), at("c", 0)) }, []string{"a 7 after 0s", "b 7 after 0s"}, "b: it failed"},
		{"a chain of one", func(at maker) schedule.Task { return at("a", 0).Then() }, []string{"a 7 after 0s"}, ""},
		{"no retry", func(at maker) schedule.Task { return at("a", 1).Retry(0, second) }, []string{"a 7 after 0s"}, "a: it failed"},
		{"not needed", func(at maker) schedule.Task { return at("a", 0).Retry(3, second) }, []string{"a 7 after 0s"}, ""},
		{"waits double", func(at maker) schedule.Task { return at("a", 3).Retry(5, second) }, []string{"a 7 after 0s", "a 7 after 1s", "a 7 after 3s", "a 7 after 7s"}, ""},
		{"to an hour", func(at maker) schedule.Task { return at("a", 3).Retry(5, 40*minute) }, []string{"a 7 after 0s", "a 7 after 40m0s", "a 7 after 1h40m0s", "a 7 after 2h40m0s"}, ""},
		{"or longer", func(at maker) schedule.Task { return at("a", 2).Retry(5, 2*time.Hour) }, []string{"a 7 after 0s", "a 7 after 2h0m0s", "a 7 after 4h0m0s"}, ""},
		{"at once", func(at maker) schedule.Task { return at("a", 9).Retry(2, 0) }, []string{"a 7 after 0s", "a 7 after 0s", "a 7 after 0s"}, "a: it failed"},
		{"both", func(at maker) schedule.Task { return at("a", 1).Retry(1, second).Then(at("b", 0)) }, []string{"a 7 after 0s", "a 7 after 1s", "b 7 after 1s"}, ""},
		{"a chain again", func(at maker) schedule.Task { return at("a", 0).Then(at("b", 1)).Retry(1, second) }, []string{"a 7 after 0s", "b 7 after 0s", "a 7 after 1s", "b 7 after 1s"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var notes []string
				start := time.Now()
				task := tt.task(func(name string, failures int) schedule.Task { return noted(start, &notes, name, failures) })
				err := task(t.Context(), schedule.Run{Number: 7})
				if !slices.Equal(notes, tt.want) {
					t.Errorf("ran %q, want %q", notes, tt.want)
				}
				if (err == nil) != (tt.err == "") || err != nil && (err.Error() != tt.err || !errors.Is(err, errTask)) {
					t.Errorf("error %v, want %s", err, tt.err)
				}
			})
		})
	}
}

// The end of the context ends the waits and the chain.
func TestTasksEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes []string
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 90*second)
		defer cancel()
		if err := noted(start, &notes, "a", 9).Retry(9, minute)(ctx, schedule.Run{}); !errors.Is(err, errTask) || len(notes) != 2 || time.Since(start) != 90*second {
			t.Errorf("%v after %v: %q", err, time.Since(start), notes)
		}
		if err := noted(start, &notes, "a", 0).Then(noted(start, &notes, "b", 0))(ctx, schedule.Run{}); !errors.Is(err, context.DeadlineExceeded) || len(notes) != 3 {
			t.Errorf("%v: %q", err, notes)
		}
	})
	for name, misuse := range map[string]func(){
		"Then":       func() { noted(time.Now(), nil, "a", 0).Then(nil) },
		"Then of":    func() { schedule.Task(nil).Then() },
		"Retry of":   func() { schedule.Task(nil).Retry(1, 0) },
		"Retry then": func() { schedule.Task(nil).Retry(1, 0).Then() },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s nil: no panic", name)
				}
			}()
			misuse()
		}()
	}
}

func TestDoTask(t *testing.T) {
	var told []string
	cfg := schedule.Config{OnError: func(r schedule.Run, err error) { told = append(told, fmt.Sprintf("%s %d: %v", r.Name, r.Number, err)) }}
	bubble(t, cfg, func(e *fixture) {
		var notes []string
		h := e.added(e.Every(10).Seconds().Name("x").DoTask(noted(e.start, &notes, "a", 3).Retry(1, second)))
		e.sleep(25 * second)
		h.Cancel()
		if want := []string{"a 1 after 0s", "a 1 after 1s", "a 2 after 10s", "a 2 after 11s", "a 3 after 20s"}; len(notes) != len(want) {
			t.Errorf("ran %q, want %q", notes, want)
		}
		if want := []string{"x 1: a: it failed"}; !slices.Equal(told, want) || e.Stats().Failed != 1 || e.Stats().Runs != 3 {
			t.Errorf("told %q, want %q; %+v", told, want, e.Stats())
		}
		if _, err := e.Every(1).Second().DoTask(nil); err == nil || err.Error() != "schedule: the func is nil" {
			t.Errorf("DoTask(nil): %v", err)
		}
	})
}

// A time of day has nanoseconds, also around changes of the clock.
func TestDaily(t *testing.T) {
	berlin := mustZone(t, "Europe/Berlin")
	s, err := schedule.Daily(2, 30, 15, 123_456_789, berlin)
	if err != nil {
		t.Fatal(err)
	}
	checkInstants(t, s, at(t, "2026-03-27T02:30:15.123456788+01:00"), []string{
		"2026-03-27T02:30:15.123456789+01:00", "2026-03-28T02:30:15.123456789+01:00",
		"2026-03-29T03:00:00.123456789+02:00", // the gap
		"2026-03-30T02:30:15.123456789+02:00",
	})
	checkInstants(t, s, at(t, "2026-10-24T12:00:00Z"), []string{"2026-10-25T02:30:15.123456789+02:00", "2026-10-26T02:30:15.123456789+01:00"})
	last, err := schedule.Daily(23, 59, 59, 999_999_999, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	checkInstants(t, last, at(t, "1969-12-30T23:59:59.999999999Z"), []string{"1969-12-31T23:59:59.999999999Z", "1970-01-01T23:59:59.999999999Z"})
	for _, tt := range []struct {
		h, m, s, ns int
		loc         *time.Location
		want        string
	}{
		{24, 0, 0, 0, time.UTC, "schedule: Daily: the hour is 24: want 0 to 23"},
		{0, 60, 0, 0, time.UTC, "schedule: Daily: the minute is 60: want 0 to 59"},
		{0, 0, -1, 0, time.UTC, "schedule: Daily: the second is -1: want 0 to 59"},
		{0, 0, 0, 1e9, time.UTC, "schedule: Daily: the nanosecond is 1000000000: want 0 to 999999999"},
		{0, 0, 0, 0, nil, "schedule: Daily: the location is nil: want time.UTC or another"},
	} {
		if _, err := schedule.Daily(tt.h, tt.m, tt.s, tt.ns, tt.loc); err == nil || err.Error() != tt.want {
			t.Errorf("Daily(%+v): %v", tt, err)
		}
	}
	bubble(t, schedule.Config{}, func(e *fixture) {
		h := e.added(e.Every(2).Days().AtExactly(1, 2, 3, 4).Do(func() {}))
		if got, want := h.Next(), e.start.UTC().Truncate(24*time.Hour).Add(time.Hour+2*minute+3*second+4); !got.Equal(want) {
			t.Errorf("next %v, want %v", got, want)
		}
		e.sleep(time.Hour + 2*minute + 4*second)
		if got, want := h.Next(), e.start.UTC().Truncate(24*time.Hour).Add(49*time.Hour+2*minute+3*second+4); !got.Equal(want) {
			t.Errorf("then %v, want %v", got, want)
		}
	})
}
