package cron_test

import (
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/cron"
	"github.com/holter-iot/holter/schedule"
)

// What the tests of github.com/distribworks/dkron (dkron/concurrency_test.go) ask of a job that must not run twice at a time, told anew:
// a process that has just started knows of the run that goes on in another one, and of its end.
func TestDkronConcurrency(t *testing.T) {
	for _, c := range []struct {
		overlap schedule.Overlap
		during  []string
		after   string
	}{
		{schedule.OverlapSkip, []string{"1 running 0s", "0 skipped 1h0m0s"}, "2 done 2h0m0s"},
		{schedule.OverlapAllow, []string{"1 running 0s", "2 done 1h0m0s"}, "3 done 2h0m0s"},
	} {
		t.Run(c.overlap.String(), func(t *testing.T) {
			r := newRig(t, cron.Config{Lease: 12 * time.Hour})
			r.put("job", "webhook", "0 * * * *", hook, func(sc *cron.Schedule) { sc.Overlap = int(c.overlap) })
			r.stop()
			_, err := r.cron.RunNow(t.Context(), "job")
			r.check(err)
			claimed, err := r.cron.Table().Claim(t.Context(), []string{"webhook"}, 1, "elsewhere/x", r.now(), 12*time.Hour)
			r.check(err)
			if len(claimed) != 1 {
				t.Fatalf("claimed %+v, want one run", claimed)
			}
			run := claimed[0].Run
			_, err = r.cron.Table().Start(t.Context(), &run, r.now(), 12*time.Hour)
			r.check(err)
			r.restart()
			r.set(time.Hour)
			r.idle()
			r.want("job", c.during...)
			_, err = r.cron.Table().Finish(t.Context(), &run, cron.Outcome{State: cron.Done}, r.now())
			r.check(err)
			r.set(2 * time.Hour)
			r.idle()
			r.want("job", "1 done 0s", c.during[1], c.after)
		})
	}
}
