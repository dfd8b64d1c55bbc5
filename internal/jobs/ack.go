package jobs

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
)

// Outcome is the outcome of a claimed job.
type Outcome uint8

const (
	// Done: it was delivered and is removed.
	Done Outcome = iota
	// Retry: the attempt failed, and the job waits for another one. It blocks those after it that have
	// its key.
	Retry
	// Postpone is Retry for a job that was not attempted.
	Postpone
	// Return: it was not attempted and can be claimed again at once. It blocks those after it that have
	// its key.
	Return
	// Block: it was not attempted, since a job before it with its key waits. It can be claimed again
	// when that one is gone.
	Block
	// Dead: it becomes a dead letter.
	Dead
)

// Ack reports the outcome of a job. Error, Status and Response are kept, perhaps shortened.
type Ack struct {
	Job      Job // for Dead, with the last attempt counted if there was one since the claim
	Outcome  Outcome
	RunAt    time.Time // for Retry and Postpone
	Error    string    // for Retry, Postpone and Dead
	Status   int       // of the last response, for Done and Dead; 0 if there was none
	Response string    // its beginning
	Body     Body      // for Dead; for Done without Data
	Started  time.Time // when its delivery began, for Done and Dead; zero if there was none
}

const (
	maxError    = 1000
	maxResponse = 4096
)

// Ack writes the outcomes of jobs. A job that is not claimed any more under the number that it has is
// left alone, so that it is safe to ack again after an error. released reports whether jobs of the
// same lanes that were blocked can be claimed now.
func (s *Store) Ack(ctx context.Context, acks []Ack, now time.Time) (released bool, err error) {
	if len(acks) == 0 {
		return false, nil
	}
	var elsewhere []Lane
	err = s.change(ctx, "ack jobs", func(ctx context.Context, tx sqldb.Tx) (counts map[Lane]int64, err error) {
		counts, released, elsewhere, err = s.ack(ctx, tx, acks, now)
		return counts, err
	})
	if err != nil {
		return false, err
	}
	s.wake(elsewhere...)
	return released, nil
}

func (s *Store) ack(ctx context.Context, tx sqldb.Tx, acks []Ack, now time.Time) (counts map[Lane]int64, released bool, elsewhere []Lane, err error) {
	var gone, returned, blockedJobs []Job
	var retries, dead, done []*Ack
	for i := range acks {
		switch a := &acks[i]; a.Outcome {
		case Done:
			gone = append(gone, a.Job)
			if !a.Started.IsZero() { // else there was nothing to deliver
				done = append(done, a)
			}
		case Retry, Postpone:
			retries = append(retries, a)
		case Return:
			returned = append(returned, a.Job)
		case Block:
			blockedJobs = append(blockedJobs, a.Job)
		case Dead:
			gone = append(gone, a.Job)
			dead = append(dead, a)
		}
	}
	if err := s.insertDead(ctx, tx, dead, now); err != nil {
		return nil, false, nil, err
	}
	if err := s.keepDone(ctx, tx, done, now); err != nil {
		return nil, false, nil, err
	}
	const retry = "UPDATE jobs SET claim = 0, due = ?, held = " + heldByKey + ", attempts = attempts + ?, error = ? WHERE id = ? AND claim = ?"
	err = tx.Repeat(ctx, retry, len(retries), func(args []any, i int) []any {
		a := retries[i]
		return append(args, dueOf(a.RunAt), sqldb.Bool(a.Outcome == Retry), sqldb.Text(a.Error, maxError), int64(a.Job.ID), a.Job.Claim)
	})
	if err != nil {
		return nil, false, nil, err
	}
	if err := updateClaimed(ctx, tx, claimable, returned); err != nil {
		return nil, false, nil, err
	}
	if err := updateClaimed(ctx, tx, "claim = 0, held = okey, due = "+strconv.FormatInt(blocked, 10), blockedJobs); err != nil {
		return nil, false, nil, err
	}
	return remove(ctx, tx, gone)
}

// eachClaim calls do for chunks of jobs with the same claim number.
func eachClaim(jobs []Job, do func(claim int64, ids []uint64) error) error {
	byClaim := make(map[int64][]uint64)
	for i := range jobs {
		byClaim[jobs[i].Claim] = append(byClaim[jobs[i].Claim], jobs[i].ID)
	}
	for claim, ids := range byClaim {
		for chunk := range slices.Chunk(ids, idsPerStatement) {
			if err := do(claim, chunk); err != nil {
				return err
			}
		}
	}
	return nil
}

// updateClaimed changes jobs that are still claimed.
func updateClaimed(ctx context.Context, tx sqldb.Tx, set string, jobs []Job) error {
	return eachClaim(jobs, func(claim int64, ids []uint64) error {
		_, err := tx.Exec(ctx, "UPDATE jobs SET "+set+" WHERE id IN (?) AND claim = ?", sqldb.Ints(ids), claim)
		return err
	})
}

// remove removes jobs that are still claimed, and releases those that they blocked. It returns how the
// depths change, whether jobs of the same lanes were released, and the other lanes with such jobs.
func remove(ctx context.Context, tx sqldb.Tx, jobs []Job) (counts map[Lane]int64, released bool, elsewhere []Lane, err error) {
	counts = make(map[Lane]int64)
	var bodies []uint64
	lanes := make(map[Lane][]Job)
	for i := range jobs {
		lanes[jobs[i].Lane] = append(lanes[jobs[i].Lane], jobs[i])
		if jobs[i].Event == 0 {
			bodies = append(bodies, jobs[i].ID)
		}
	}
	for lane, jobs := range lanes {
		err := eachClaim(jobs, func(claim int64, ids []uint64) error {
			n, err := tx.Exec(ctx, "DELETE FROM jobs WHERE id IN (?) AND claim = ?", sqldb.Ints(ids), claim)
			counts[lane] -= n
			return err
		})
		if err != nil {
			return nil, false, nil, err
		}
	}
	for chunk := range slices.Chunk(sqldb.Ints(bodies), idsPerStatement) { // but not of jobs that were claimed again
		_, err := tx.Exec(ctx, "DELETE FROM job_bodies WHERE id IN (?) AND id NOT IN (SELECT id FROM jobs WHERE id IN (?))", chunk, chunk)
		if err != nil {
			return nil, false, nil, err
		}
	}
	released, elsewhere, err = release(ctx, tx, jobs)
	return counts, released, elsewhere, err
}

// release lets the first jobs be claimed that jobs blocked which are gone.
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
	if err := unblock(ctx, tx, first); err != nil {
		return false, nil, err
	}
	elsewhere, err = releaseElsewhere(ctx, tx, gone, first)
	return len(first) > 0, elsewhere, err
}

// unblock lets blocked jobs be claimed.
func unblock(ctx context.Context, tx sqldb.Tx, first map[int64]uint64) error {
	for chunk := range slices.Chunk(slices.Collect(maps.Values(first)), idsPerStatement) {
		if _, err := tx.Exec(ctx, "UPDATE jobs SET due = 0 WHERE id IN (?) AND due = ?", sqldb.Ints(chunk), int64(blocked)); err != nil {
			return err
		}
	}
	return nil
}
