package schedule_test

import (
	"context"
	"testing"
	"time"

	"github.com/holter-iot/holter/schedule"
)

// What the tests of github.com/aptible/supercronic ask of expressions (cronexpr/cronexpr_test.go), told anew. A sixth field is the
// second here, and the year there.
func TestSupercronicInstants(t *testing.T) {
	for text, tests := range map[string][][2]string{
		"*/5 * * * * *":        {{"2013-01-01T00:00:59Z", "2013-01-01T00:01:00Z"}, {"2016-02-28T23:59:59Z", "2016-02-29T00:00:00Z"}, {"2012-12-31T23:59:59Z", "2013-01-01T00:00:00Z"}},
		"17-43/5 * * * *":      {{"2013-01-01T00:16:59Z", "2013-01-01T00:17:00Z"}, {"2013-01-01T00:30:00Z", "2013-01-01T00:32:00Z"}, {"2016-02-28T23:50:00Z", "2016-02-29T00:17:00Z"}},
		"15-30/4,55 * * * *":   {{"2013-01-01T00:16:00Z", "2013-01-01T00:19:00Z"}, {"2013-01-01T00:27:00Z", "2013-01-01T00:55:00Z"}, {"2012-12-31T23:55:00Z", "2013-01-01T00:15:00Z"}},
		"0 0 * * 6,7":          {{"2013-01-01T00:00:00Z", "2013-01-05T00:00:00Z"}, {"2013-01-05T00:00:00Z", "2013-01-06T00:00:00Z"}},
		"0 0 * * 6#5":          {{"2013-09-02T08:44:30Z", "2013-11-30T00:00:00Z"}, {"2013-11-30T00:00:00Z", "2014-03-29T00:00:00Z"}, {"2014-03-29T00:00:00Z", "2014-05-31T00:00:00Z"}},
		"0 0 14W * *":          {{"2013-03-31T00:00:00Z", "2013-04-15T00:00:00Z"}, {"2013-08-31T00:00:00Z", "2013-09-13T00:00:00Z"}},
		"0 0 30W * *":          {{"2013-03-02T00:00:00Z", "2013-03-29T00:00:00Z"}, {"2013-06-02T00:00:00Z", "2013-06-28T00:00:00Z"}, {"2013-09-02T00:00:00Z", "2013-09-30T00:00:00Z"}},
		"0 0 LW * *":           {{"2013-11-02T00:00:00Z", "2013-11-29T00:00:00Z"}, {"2014-08-15T00:00:00Z", "2014-08-29T00:00:00Z"}},
		"0 0 28 02 *":          {{"2013-09-02T00:00:00Z", "2014-02-28T00:00:00Z"}, {"2014-08-15T00:00:00Z", "2015-02-28T00:00:00Z"}},
		"0 * * * * * 2050":     {{"2013-08-31T00:00:00Z", "2050-01-01T00:00:00Z"}, {"2050-12-31T23:58:30Z", "2050-12-31T23:59:00Z"}, {"2050-12-31T23:59:00Z", ""}},
		"*/60 * * * * *":       {{"2013-01-01T00:00:01Z", "2013-01-01T00:01:00Z"}},                                                   // refused there
		"2-20/61 * * * * *":    {{"2013-01-01T00:00:03Z", "2013-01-01T00:01:02Z"}},                                                   // the same
		"45 4 * * 6-7":         {{"2013-01-01T00:00:00Z", "2013-01-05T04:45:00Z"}, {"2013-01-05T04:45:00Z", "2013-01-06T04:45:00Z"}}, // the same
		"45 4 * * 6-5":         {{"2013-01-01T00:00:00Z", "2013-01-01T04:45:00Z"}},                                                   // the same: each day
		"30 3 15W 3/3 *":       {{"2013-03-15T03:30:00Z", "2013-06-14T03:30:00Z"}},
		"0 0 0 ? 2-11/2 thu#3": {{"2013-01-01T00:00:00Z", "2013-02-21T00:00:00Z"}, {"2013-10-17T00:00:00Z", "2014-02-20T00:00:00Z"}},
	} {
		t.Run(text, func(t *testing.T) {
			s, err := schedule.ParseIn(text, time.UTC)
			if err != nil {
				t.Fatal(err)
			}
			for _, tt := range tests {
				if tt[1] == "" {
					if next := s.Next(at(t, tt[0])); !next.IsZero() {
						t.Errorf("Next(%s) = %v, want none", tt[0], next)
					}
					continue
				}
				checkInstants(t, s, at(t, tt[0]), tt[1:])
			}
		})
	}
}

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
