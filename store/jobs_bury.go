package store

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"time"

	"github.com/uptrace/bun"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/sqldb"
)

// Describe sets the function that returns what the job of an event delivers. With it, a job whose
// event is too old to be kept becomes a dead letter that has all of it, before the event is
// removed; without it, only the event is removed. The function does nothing but compute, and is
// called by one goroutine at a time.
func (j *Jobs) Describe(body func(lane Lane, ev *liveness.Event) (JobBody, error)) {
	j.describe.Store(&body)
}

// buryStep is how many jobs one transaction makes dead letters of.
const buryStep = 500

// errTooOld and errNoEvent are the last errors of jobs that end with their events.
var (
	errTooOld  = errors.New("it could not be delivered for so long that its event is too old to be kept")
	errNoEvent = errors.New("its event is not kept any more")
)

// bury makes dead letters of the jobs whose events come before an offset. Those that are claimed
// are among them: whoever has one may deliver it nevertheless. It returns an offset before which no
// event is needed any more.
func (j *Jobs) bury(ctx context.Context, before uint64) (needed uint64, err error) {
	describe := j.describe.Load()
	if describe == nil {
		return before, nil
	}
	for after, more := uint64(0), true; more; {
		var jobs []Job
		if jobs, more, err = j.doomed(ctx, after, before); err != nil {
			return 0, err
		}
		if len(jobs) == 0 {
			break
		}
		after = jobs[len(jobs)-1].ID
		outcomes, err := j.lastWords(ctx, jobs, *describe)
		if err != nil {
			return 0, err
		}
		if _, err := j.Settle(ctx, outcomes, time.Now()); err != nil {
			return 0, err
		}
		for i := range jobs { // those behind them can be claimed now
			if i == 0 || jobs[i].Lane != jobs[i-1].Lane {
				j.added([]Lane{jobs[i].Lane})
			}
		}
	}
	return j.oldestNeeded(ctx) // some may have been claimed under other numbers meanwhile
}

// doomed returns the next jobs of events before an offset, and whether there may be more. Jobs are
// in the order of their events.
func (j *Jobs) doomed(ctx context.Context, after, before uint64) (jobs []Job, more bool, err error) {
	err = j.db.Read(ctx, pruning, func(ctx context.Context, q *bun.DB) error {
		jobs, more = nil, false
		return sqldb.Each(ctx, q, func(rows *sql.Rows) error {
			var job Job
			var lane int64
			if err := rows.Scan(&job.ID, &lane, &job.Event, &job.Key, &job.Claim, &job.Attempts); err != nil {
				return err
			}
			if more = job.Event < before; more {
				job.Lane = laneOf(lane)
				jobs = append(jobs, job)
			}
			return nil
		}, "SELECT id, lane, event, okey, claim, attempts FROM jobs WHERE id > ? AND event > 0 ORDER BY id LIMIT ?", after, buryStep)
	})
	return jobs, more, err
}

// lastWords returns the outcomes of jobs that become dead letters before their events are removed.
func (j *Jobs) lastWords(
	ctx context.Context, jobs []Job, describe func(Lane, *liveness.Event) (JobBody, error),
) ([]Outcome, error) {
	offsets := make([]uint64, len(jobs))
	for i := range jobs {
		offsets[i] = jobs[i].Event
	}
	events, err := j.store.EventsAt(ctx, offsets)
	if err != nil {
		return nil, err
	}
	at := make(map[uint64]*liveness.Event, len(events))
	for i := range events {
		at[events[i].Offset] = &events[i]
	}
	outcomes := make([]Outcome, len(jobs))
	for i, job := range jobs {
		outcomes[i] = Outcome{Job: job, Verdict: Dead, Error: errNoEvent.Error()}
		if ev := at[job.Event]; ev != nil {
			outcomes[i].Error = errTooOld.Error()
			if outcomes[i].Body, err = describe(job.Lane, ev); err != nil {
				return nil, err
			}
		}
	}
	return outcomes, nil
}

// oldestNeeded returns the offset of the oldest event that a job needs, beyond all if none does. Jobs are in the order of their events,
// and those that come meanwhile need later ones.
func (j *Jobs) oldestNeeded(ctx context.Context) (uint64, error) {
	var events []uint64
	err := j.db.Read(ctx, pruning, func(ctx context.Context, q *bun.DB) error {
		events = nil
		return q.NewRaw("SELECT event FROM jobs WHERE event > 0 ORDER BY id LIMIT 1").Scan(ctx, &events)
	})
	if err != nil || len(events) == 0 {
		return math.MaxUint64, err
	}
	return events[0], nil
}
