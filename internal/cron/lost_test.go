package cron_test

import (
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/cron"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testsqldb"
)

// Whichever answer of the server is lost, what failed can be done again at once, and is done once: one run is
// made, claimed, begun and ended, though it may not be begun twice.
func TestLostAnswers(t *testing.T) {
	testenv.Check(t)
	for _, kind := range testdb.Databases()[1:] {
		t.Run("db="+kind.Name, func(t *testing.T) {
			line, url := testdb.NewLine(t, kind.URL(t))
			s := cron.NewTable(testsqldb.Open(t, sqldb.Config{URL: url}))
			again := func(what string, do func() (int, error)) {
				t.Helper()
				n, err := do()
				if err != nil {
					line.Heal()
					n, err = do()
				}
				if err != nil || n != 1 {
					t.Fatalf("%s = %d, %v, want 1", what, n, err)
				}
			}
			count := func(ok bool, err error) (int, error) { return sqldb.Bool(ok), err }
			sc, at := putSchedule(t, s, daily("nightly")), base
			for range line.EachLost() {
				at = at.Add(time.Hour)
				f := cron.Firing{Schedule: sc, Last: at, Due: at.Add(time.Hour), Admits: alone, Runs: []cron.FiringRun{{Scheduled: at, Ready: at}}}
				again("Fire", func() (int, error) {
					fired, err := s.Fire(t.Context(), []cron.Firing{f}, at)
					if err != nil {
						return 0, err
					}
					return len(fired[0].Runs), nil
				})
				var runs []cron.ClaimedRun
				again("Claim", func() (n int, err error) {
					runs, err = s.Claim(t.Context(), kinds, 10, "judge", at, time.Minute)
					return len(runs), err
				})
				run := &runs[0].Run
				again("Start", func() (int, error) { return count(s.Start(t.Context(), run, at, time.Minute)) })
				again("Finish", func() (int, error) { return count(s.Finish(t.Context(), run, cron.Outcome{State: cron.Done}, at)) })
				line.Heal()
				var err error
				if sc, err = s.Named(t.Context(), "nightly"); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
