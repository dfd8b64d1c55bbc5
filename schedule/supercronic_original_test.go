package schedule_test

import (
	"context"
	"testing"
	"time"

	"github.com/holter-iot/holter/schedule"
)

// What is refused. A year that has passed is not, and has no instant. Days are called by three letters, as in cron. The nicknames of
// github.com/distribworks/dkron (extcron/extparser_test.go) are Once, RunNow and "* * * * *" here.
func TestSupercronicErrors(t *testing.T) {
	for _, text := range []string{"0 0 * * friday", "* * * * * * * x", "11 1 31 2 *", "@at 2018-01-02T15:04:00Z", "@manually", "@minutely"} {
		if _, err := schedule.ParseIn(text, time.UTC); err == nil {
			t.Errorf("ParseIn(%q): no error", text)
		}
	}
	s, err := schedule.ParseIn("0 * * * * * 1980", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	if next := s.Next(at(t, "2013-08-31T00:00:00Z")); !next.IsZero() {
		t.Errorf("Next = %v, want none", next)
	}
}

// All runs are told their instants in the engine's zone, also after one that took too long (TestStartFuncUsesTz of
// cron/cron_test.go), and whatever the zone of the schedule.
func TestSupercronicZone(t *testing.T) {
	zone := time.FixedZone("UTC+1", 60*60)
	bubble(t, schedule.Config{Location: zone}, func(e *fixture) {
		runs := 0
		h := e.added(e.Cron("*/10 * * * * *").In(time.UTC).DoRun(func(_ context.Context, r schedule.Run) {
			if runs++; r.Scheduled.Location() != zone {
				t.Errorf("run %d is for %v, want it in %v", runs, r.Scheduled, zone)
			}
			if runs == 2 {
				time.Sleep(25 * second)
			}
		}))
		e.sleep(65 * second)
		if runs != 4 {
			t.Errorf("%d runs, want 4", runs)
		}
		if s := h.Status(); s.Last.Location() != zone {
			t.Errorf("status %+v, want it in the zone", s)
		}
	})
}
