package store

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/holter-iot/holter/sqldb"
)

// Verdict is what became of a job.
type Verdict uint8

const (
	// Done: it was delivered, and is removed.
	Done Verdict = iota
	// Retry: the attempt failed, and the job waits for another one; those behind it with the same key wait with it.
	Retry
	// Postpone is Retry without an attempt having been made.
	Postpone
	// Return: no attempt was made, and the job is there to be claimed again at once, before those with the same key behind it.
	Return
	// Behind: no attempt was made, since a job with the same key before it waits; it is claimed again when that one is settled.
	Behind
	// Dead: it is a dead letter now.
	Dead
)

// Outcome is what became of a job that was claimed. Error, Status and Response are kept, but for their ends.
type Outcome struct {
	Job      Job // of Dead, with the last attempt counted, if there was one after the claim
	Verdict  Verdict
	RunAt    time.Time // of Retry and Postpone
	Error    string    // of Retry, Postpone and Dead
	Status   int       // of the last answer, for Dead; 0 if there was none
	Response string    // the beginning of it
	Body     JobBody   // of Dead: what was to be delivered
}

const (
	maxJobError = 1000
	maxResponse = 4096
)

// Settle writes down what became of jobs. What is not claimed any more under the number that the job says is left alone: so it does no
// harm to settle again after an error. It says whether jobs that were behind others can be claimed now.
func (j *Jobs) Settle(ctx context.Context, outcomes []Outcome, now time.Time) (released bool, err error) {
	if len(outcomes) == 0 {
		return false, nil
	}
	var elsewhere []Lane
	err = j.change(ctx, "settle jobs", func(ctx context.Context, tx sqldb.Tx) (counts map[Lane]int64, err error) {
		counts, released, elsewhere, err = settle(ctx, tx, outcomes, now)
		return counts, err
	})
	if err != nil {
		return false, err
	}
	j.added(elsewhere)
	return released, nil
}

func settle(
	ctx context.Context, tx sqldb.Tx, outcomes []Outcome, now time.Time,
) (counts map[Lane]int64, released bool, elsewhere []Lane, err error) {
	var gone, returned, behindOthers []Job
	var retries, dead []*Outcome
	for i := range outcomes {
		switch o := &outcomes[i]; o.Verdict {
		case Done:
			gone = append(gone, o.Job)
		case Retry, Postpone:
			retries = append(retries, o)
		case Return:
			returned = append(returned, o.Job)
		case Behind:
			behindOthers = append(behindOthers, o.Job)
		case Dead:
			gone = append(gone, o.Job)
			dead = append(dead, o)
		}
	}
	if err := bury(ctx, tx, dead, now); err != nil {
		return nil, false, nil, err
	}
	if err := wait(ctx, tx, retries); err != nil {
		return nil, false, nil, err
	}
	if err := updateClaimed(ctx, tx, "claim = 0, due = 0, held = CASE WHEN okey <> 0 THEN okey END", returned); err != nil {
		return nil, false, nil, err
	}
	if err := updateClaimed(ctx, tx, "claim = 0, due = 9223372036854775807, held = okey", behindOthers); err != nil {
		return nil, false, nil, err
	}
	counts, err = remove(ctx, tx, gone)
	if err != nil {
		return nil, false, nil, err
	}
	released, elsewhere, err = release(ctx, tx, gone)
	return counts, released, elsewhere, err
}

// updateClaimed changes jobs that are still claimed.
func updateClaimed(ctx context.Context, tx sqldb.Tx, set string, jobs []Job) error {
	for claim, ids := range byClaim(jobs) {
		for chunk := range slices.Chunk(ids, idsPerStatement) {
			if _, err := tx.NewRaw("UPDATE jobs SET "+set+" WHERE ? AND claim = ?", numbered(tx, chunk), claim).Exec(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// wait lets jobs wait for another attempt.
func wait(ctx context.Context, tx sqldb.Tx, retries []*Outcome) error {
	if len(retries) == 0 {
		return nil
	}
	query := "UPDATE jobs SET claim = 0, due = ?, held = CASE WHEN okey <> 0 THEN okey END, attempts = attempts + ?, error = ? WHERE id = ? AND claim = ?"
	return tx.Repeat(ctx, query, len(retries), func(args []any, i int) []any {
		o := retries[i]
		return append(args, dueOf(o.RunAt), flag(o.Verdict == Retry, 1), sqldb.Text(o.Error, maxJobError), int64(o.Job.ID), o.Job.Claim)
	})
}

// longestPause is how long a job waits for another attempt where its queue does not say more: a receiver may ask for a day.
const longestPause = 24*time.Hour + time.Minute

// shortenWaits lets jobs be tried at once that wait for another attempt longer than any does: the clock was ahead when they failed.
func (j *Jobs) shortenWaits(ctx context.Context, now time.Time) error {
	lanes := slices.Collect(maps.Keys(j.Depths()))
	return j.write(ctx, "look after jobs that wait too long", func(ctx context.Context, tx sqldb.Tx) error {
		var backoff sql.NullInt64
		if err := tx.QueryRowContext(ctx, "SELECT MAX(max_backoff) FROM queues").Scan(&backoff); err != nil {
			return err
		}
		last := dueOf(now.Add(max(longestPause, time.Duration(backoff.Int64)+time.Minute)))
		for _, lane := range lanes {
			_, err := tx.NewRaw("UPDATE jobs SET due = ? WHERE lane = ? AND due > ? AND due < ? AND claim = 0 AND attempts > 0",
				dueOf(now), lane.code(), last, int64(behind)).Exec(ctx)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// remove removes jobs that are still claimed, and says how many of each lane.
func remove(ctx context.Context, tx sqldb.Tx, jobs []Job) (map[Lane]int64, error) {
	counts := make(map[Lane]int64)
	var bodies []uint64
	lanes := make(map[Lane][]Job)
	for i := range jobs {
		lanes[jobs[i].Lane] = append(lanes[jobs[i].Lane], jobs[i])
		if jobs[i].Event == 0 {
			bodies = append(bodies, jobs[i].ID)
		}
	}
	for lane, jobs := range lanes {
		for claim, ids := range byClaim(jobs) {
			for chunk := range slices.Chunk(ids, idsPerStatement) {
				res, err := tx.NewRaw("DELETE FROM jobs WHERE ? AND claim = ?", numbered(tx, chunk), claim).Exec(ctx)
				if err != nil {
					return nil, err
				}
				n, err := res.RowsAffected()
				if err != nil {
					return nil, err
				}
				counts[lane] -= n
			}
		}
	}
	for chunk := range slices.Chunk(bodies, idsPerStatement) { // not of those that are claimed by others
		_, err := tx.NewRaw("DELETE FROM job_bodies WHERE id IN (?) AND id NOT IN (SELECT id FROM jobs WHERE id IN (?))", bun.List(chunk), bun.List(chunk)).Exec(ctx)
		if err != nil {
			return nil, err
		}
	}
	return counts, nil
}

// release lets the first of the jobs be claimed that were behind jobs which are gone. It says
// whether there are such in their lanes, and in which other ones there may be some.
func release(ctx context.Context, tx sqldb.Tx, gone []Job) (released bool, elsewhere []Lane, err error) {
	keys := make(map[int64]bool, len(gone))
	for i := range gone {
		if gone[i].Key != 0 {
			keys[gone[i].Key] = true
		}
	}
	if len(keys) == 0 {
		return false, nil, nil
	}
	var held int64
	switch err := tx.QueryRowContext(ctx, anyHeld).Scan(&held); {
	case errors.Is(err, sql.ErrNoRows): // mostly
		return false, nil, nil
	case err != nil:
		return false, nil, err
	}
	first, err := firstHeld(ctx, tx, keys, nil)
	if err != nil {
		return false, nil, err
	}
	if err := begin(ctx, tx, first); err != nil {
		return false, nil, err
	}
	elsewhere, err = releaseElsewhere(ctx, tx, gone, first)
	return len(first) > 0, elsewhere, err
}

// begin lets jobs that are behind others be claimed.
func begin(ctx context.Context, tx sqldb.Tx, first map[int64]uint64) error {
	for chunk := range slices.Chunk(slices.Collect(maps.Values(first)), idsPerStatement) {
		if _, err := tx.NewRaw("UPDATE jobs SET due = 0 WHERE id IN (?) AND due = ?", bun.List(chunk), int64(behind)).Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}
