package loadgen

import (
	"context"
	"slices"
	"time"

	"github.com/holter-iot/holter/internal/loadgen/report"
)

// end makes the report.
func (r *run) end(ctx context.Context) (*report.Final, error) {
	now := time.Now()
	f := &r.final
	f.Ended = now
	if r.judge != nil {
		r.verdicts(ctx)
	}
	if r.fleet != nil {
		r.total = r.fleet.sum()
		f.Hits = r.diagnose(now)
		if r.status == 0 { // the target's behaviour was no limit then
			f.Hits = slices.DeleteFunc(f.Hits, ofTarget)
		}
		for i, to := range []*report.Distribution{&f.RTT, &f.RTTPlanned, &f.Lateness, &f.Connect} {
			var err error
			if *to, err = report.DistributionOf(r.fleet.all[i], time.Microsecond); err != nil {
				r.fail(StatusFailed, "%v", err)
			}
		}
	}
	if ctx.Err() != nil && r.status == 0 {
		r.fail(StatusInterrupted, "interrupted before it began")
	}
	f.Outcome = report.Outcome{Passed: r.status == 0, Status: r.status, Reasons: r.reasons}
	if r.status == 0 {
		return f, nil
	}
	return f, &Error{Status: r.status, Reasons: slices.Clone(r.reasons)}
}

// verdicts makes the final score, and notes which checks failed.
func (r *run) verdicts(ctx context.Context) {
	r.judge.stop()
	at := r.stopped
	if at.IsZero() { // all workers have died
		at = time.Now()
	}
	verdicts, failures, err := r.judge.finish(ctx, at)
	if err != nil {
		failures = append(failures, err.Error())
	}
	r.final.Verdicts = verdicts
	if r.stage == ramping { // nothing can be checked of a fleet that never connected
		return
	}
	for _, text := range failures {
		r.fail(StatusFailed, "%s", text)
	}
}
