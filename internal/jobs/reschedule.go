package jobs

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"time"

	"github.com/holter-iot/holter/internal/errkind"
	"github.com/holter-iot/holter/internal/sqldb"
)

// Reschedule sets until when a job waits; zero, or a time that has passed, makes it due at once. One that
// has not failed yet blocks no others until then, like one that was enqueued with that time; one that has
// still blocks those after it that have its key. The age of the job counts from its new time.
//
// Errors: [ErrUnknown]; [ErrInUse] for a job that is being delivered, or that waits for another one with
// its key; [ErrBad] for a time that [CheckRunAt] refuses, that is not before the job's deadline or, if it
// has failed, is more than a day away, and for the job of an event, which can only be made due at once.
func (s *Store) Reschedule(ctx context.Context, id uint64, at, now time.Time) error {
	if err := CheckRunAt(at, now); err != nil {
		return err
	}
	var wake []Lane
	err := s.write(ctx, "reschedule a job", func(ctx context.Context, tx sqldb.Tx) error {
		job, err := readWaiting(ctx, tx, id)
		if err != nil {
			return err
		}
		if wake = []Lane{job.Lane}; !at.After(now) {
			return job.advance(ctx, tx, now)
		}
		if err := job.postpone(ctx, tx, at, now); err != nil || job.tried || job.Key == 0 {
			return err
		}
		_, elsewhere, err := release(ctx, tx, []Job{job.Job})
		wake = append(wake, elsewhere...)
		return err
	})
	if err == nil {
		s.wake(wake...)
	}
	return err
}

// waitingJob is a job that is to be rescheduled.
type waitingJob struct {
	Job

	tried bool // it failed, or was postponed
}

// readWaiting reads a job that can be rescheduled.
func readWaiting(ctx context.Context, tx sqldb.Tx, id uint64) (job waitingJob, err error) {
	var due sql.NullInt64
	var failed sql.NullString
	err = sqldb.Each(ctx, tx, func(rows *sql.Rows) error {
		return scanJob(rows, &job.Job, &due, &failed)
	}, "SELECT "+jobColumns+", due, error FROM jobs WHERE id = ?", id)
	job.tried = failed.Valid
	switch {
	case err != nil:
		return job, err
	case job.ID == 0:
		return job, errkind.Errorf(ErrUnknown, "there is no job %d that has not ended", id)
	case due.Int64 == blocked:
		return job, errkind.Errorf(ErrInUse, "job %d waits for another one with its ordering key; reschedule or delete that one", id)
	case job.Claim != 0:
		return job, errkind.Errorf(ErrInUse, "job %d is being delivered, or is about to be; try again if it has failed", id)
	}
	return job, nil
}

// advance makes the job due.
func (j *waitingJob) advance(ctx context.Context, tx sqldb.Tx, now time.Time) error {
	if _, err := tx.Exec(ctx, "UPDATE jobs SET due = 0 WHERE id = ? AND due > 0", j.ID); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, "UPDATE job_bodies SET created = ? WHERE id = ? AND created > ?", now, j.ID, now)
	return err
}

// postpone makes the job wait until an instant.
func (j *waitingJob) postpone(ctx context.Context, tx sqldb.Tx, at, now time.Time) error {
	var deadline int64
	err := tx.QueryRowContext(ctx, "SELECT deadline FROM job_bodies WHERE id = ?", j.ID).Scan(&deadline)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return bad("job %d reports an event: it can be made due at once, but not be put off", j.ID)
	case err != nil:
		return err
	case deadline != 0 && sqldb.Nanos(at) >= deadline:
		return bad("%s is not before the deadline of job %d, %s", at.UTC().Format(time.RFC3339), j.ID, sqldb.Time(deadline).UTC().Format(time.RFC3339))
	}
	if j.tried && at.Sub(now) > longestWait {
		return bad("job %d has failed: it can be put off by a day at most", j.ID)
	}
	held, until := "NULL", int64(math.MaxInt64)
	if j.tried {
		held, until = heldByKey, sqldb.Nanos(at)
	}
	if _, err := tx.Exec(ctx, "UPDATE jobs SET due = ?, held = "+held+" WHERE id = ?", dueOf(at), j.ID); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "UPDATE job_bodies SET created = ? WHERE id = ? AND created < ?", at, j.ID, until)
	return err
}

// CheckRunAt returns why a job cannot be told to wait until an instant; the zero one is always right.
// Errors: [ErrBad].
func CheckRunAt(at, now time.Time) error {
	switch {
	case !at.IsZero() && at.Unix() < 0:
		return bad("the time to run at, %s, lies before 1970: want one that is to come, or leave run_at out to run at once", at.Format(time.RFC3339))
	case at.After(now.Add(10 * 365 * 24 * time.Hour)):
		return bad("the time to run at, %s, is more than ten years away: want one before that", at.Format(time.RFC3339))
	}
	return nil
}
