package jobs

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/liveness"
)

// Insert writes the jobs that routes make of events, in the transaction that writes the events. The
// transaction has passed the fence. first is the offset of the first event. Call committed once the
// transaction is committed, and not at all if it is not.
//
// The job of an event has the event's subject as its ordering key.
func (s *Store) Insert(ctx context.Context, tx sqldb.Tx, first uint64, events []liveness.Event) (committed func(), err error) {
	route := s.router.route.Load()
	if route == nil {
		return func() {}, nil
	}
	routed, dropped := (*route)(events, s.Depths())
	generation := s.generation()
	counts := make(map[Lane]int64)
	if len(routed) > 0 {
		id, err := takeNumbers(ctx, tx, len(routed))
		if err != nil {
			return nil, err
		}
		if err := follow(ctx, tx, routed, id); err != nil {
			return nil, err
		}
		rows := make([]jobRow, len(routed))
		for i, job := range routed {
			subject := events[job.event].Subject
			rows[i] = jobRow{id: id + uint64(i), event: first + uint64(job.event), lane: job.lane, okey: orderOf(job.lane, subject)}
			counts[job.lane]++
		}
		if err := insertJobs(ctx, tx, rows); err != nil {
			return nil, err
		}
	}
	return func() {
		s.router.count(dropped)
		s.add(counts, generation)
		s.wake(lanesOf(counts)...)
	}, nil
}

// Needed returns the offset of the oldest event that a job needs; math.MaxUint64 if there is none.
// Jobs are in the order of their events, and new ones need newer events.
func (s *Store) Needed(ctx context.Context) (uint64, error) {
	needed := uint64(math.MaxUint64)
	err := s.db.ReadRow(ctx, "find the oldest event that is needed", []any{&needed}, "SELECT event FROM jobs WHERE event > 0 ORDER BY id LIMIT 1")
	if errors.Is(err, sql.ErrNoRows) {
		return needed, nil
	}
	return needed, err
}

// Describe sets the function that returns the bodies of jobs of events, for the dead letters that
// they become in [Store.Release]. The body of a job whose event is not known is the zero one. The
// function is called by one goroutine at a time.
func (s *Store) Describe(bodies func(ctx context.Context, jobs []Job) ([]Body, error)) {
	s.describe.Store(&bodies)
}

// releaseStep is how many jobs become dead letters in one transaction.
const releaseStep = 500

// The errors of dead letters that Release makes.
const (
	eventTooOld = "it could not be delivered for so long that its event is too old to be kept"
	eventGone   = "its event is not kept any more"
)

// Release makes dead letters of the jobs that need an event before an offset, so that the event can
// be removed. It also takes jobs that are claimed, which may be delivered nevertheless. It returns
// what [Store.Needed] returns afterwards. Without [Store.Describe] it changes nothing and returns
// before.
func (s *Store) Release(ctx context.Context, before uint64) (needed uint64, err error) {
	describe := s.describe.Load()
	if describe == nil {
		return before, nil
	}
	for after, more := uint64(0), true; more; {
		var jobs []Job
		if jobs, more, err = s.needing(ctx, after, before); err != nil {
			return 0, err
		}
		if len(jobs) == 0 {
			break
		}
		after = jobs[len(jobs)-1].ID
		bodies, err := (*describe)(ctx, jobs)
		if err != nil {
			return 0, err
		}
		acks := make([]Ack, len(jobs))
		for i, job := range jobs {
			acks[i] = Ack{Job: job, Outcome: Dead, Error: eventTooOld, Body: bodies[i]}
			if bodies[i].Data == nil {
				acks[i].Error = eventGone
			}
		}
		if _, err := s.Ack(ctx, acks, time.Now()); err != nil {
			return 0, err
		}
		s.wake(lanesWith(jobs)...) // jobs that these have blocked can be claimed now
	}
	return s.Needed(ctx) // a job may have been claimed again meanwhile, so that the Ack did not count
}

// needing returns the next jobs, after a number, whose events are before an offset, and whether there
// may be more. Jobs are in the order of their events.
func (s *Store) needing(ctx context.Context, after, before uint64) (jobs []Job, more bool, err error) {
	err = s.db.Read(ctx, "find jobs with old events", func(ctx context.Context, q sqldb.Reader) error {
		jobs, more = nil, false
		return sqldb.Each(ctx, q, func(rows *sql.Rows) error {
			var job Job
			if err := scanJob(rows, &job); err != nil {
				return err
			}
			if more = job.Event < before; more {
				jobs = append(jobs, job)
			}
			return nil
		}, "SELECT "+jobColumns+" FROM jobs WHERE id > ? AND event > 0 ORDER BY id LIMIT ?", after, releaseStep)
	})
	return jobs, more, err
}

// jobColumns are the columns that scanJob scans.
const jobColumns = "id, lane, event, okey, claim, attempts"

// scanJob scans jobColumns, and others after them.
func scanJob(rows *sql.Rows, job *Job, others ...any) error {
	return rows.Scan(append([]any{&job.ID, &job.Lane, &job.Event, &job.Key, &job.Claim, &job.Attempts}, others...)...)
}

// lanesWith returns the lanes of jobs, each once.
func lanesWith(jobs []Job) (lanes []Lane) {
	for i := range jobs {
		if !slices.Contains(lanes, jobs[i].Lane) {
			lanes = append(lanes, jobs[i].Lane)
		}
	}
	return lanes
}
