package jobs

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
)

// Retention says what [Store.Sweep] keeps.
type Retention struct {
	Dead    int           // maximum number of dead letters; the latest are kept
	DeadAge time.Duration // of dead letters
	KeyAge  time.Duration // of idempotency keys

	Ended    int           // maximum number of jobs that ended; the latest are kept, and those that ended with them
	EndedAge time.Duration // since their end
}

// sweepStep is how many dead letters one transaction deletes.
const sweepStep = 5000

// Sweep deletes dead letters, idempotency keys and jobs that ended, as far as they are too old or too
// many, and returns how many dead letters. A clock that is ahead for a while makes nothing too old, and no job wait that long.
func (s *Store) Sweep(ctx context.Context, keep Retention, now time.Time) (int, error) {
	if err := s.recount(ctx); err != nil {
		return 0, err
	}
	if err := s.shortenWaits(ctx, now); err != nil {
		return 0, err
	}
	endedErr := s.sweepEnded(ctx, keep, now)
	total := 0
	for ctx.Err() == nil {
		var deleted int64
		err := s.write(ctx, "delete old dead letters", func(ctx context.Context, tx sqldb.Tx) error {
			if _, err := tx.Exec(ctx, "DELETE FROM job_keys WHERE created < ?", s.db.OldBefore(now, keep.KeyAge)); err != nil {
				return err
			}
			if err := forgetMoves(ctx, tx); err != nil {
				return err
			}
			ids, err := surplus(ctx, tx, keep.Dead, s.db.OldBefore(now, keep.DeadAge))
			if deleted = 0; err != nil || len(ids) == 0 {
				return err
			}
			deleted, err = tx.Exec(ctx, "DELETE FROM dead_jobs WHERE id IN (?)", ids)
			return err
		})
		if err != nil || deleted == 0 {
			return total, errors.Join(endedErr, err)
		}
		total += int(deleted)
	}
	return total, errors.Join(endedErr, ctx.Err())
}

// surplus returns some of the oldest dead letters that are too old or too many.
func surplus(ctx context.Context, tx sqldb.Tx, keep int, old time.Time) ([]int64, error) {
	firstKept := int64(0)
	err := tx.QueryRowContext(ctx, "SELECT id FROM dead_jobs ORDER BY id DESC LIMIT 1 OFFSET ?", max(keep-1, 0)).Scan(&firstKept)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	return sqldb.Values[int64](ctx, tx, "SELECT id FROM dead_jobs WHERE id < ? OR died < ? ORDER BY id LIMIT ?", firstKept, old, sweepStep)
}

// longestWait is the longest wait for a retry where no queue allows more: a receiver may ask for a day.
const longestWait = 24*time.Hour + time.Minute

// shortenWaits makes jobs due that wait for a retry longer than any job does, because the clock was
// ahead when they failed.
func (s *Store) shortenWaits(ctx context.Context, now time.Time) error {
	lanes := slices.Collect(maps.Keys(s.Depths()))
	return s.write(ctx, "look after jobs that wait too long", func(ctx context.Context, tx sqldb.Tx) error {
		var backoff sql.NullInt64
		if err := tx.QueryRowContext(ctx, "SELECT MAX(max_backoff) FROM queues").Scan(&backoff); err != nil {
			return err
		}
		last := dueOf(now.Add(max(longestWait, time.Duration(backoff.Int64)+time.Minute)))
		return tx.Repeat(ctx, "UPDATE jobs SET due = ? WHERE lane = ? AND due > ? AND due < ? AND claim = 0 AND attempts > 0", len(lanes),
			func(args []any, i int) []any { return append(args, dueOf(now), lanes[i].code(), last, int64(blocked)) })
	})
}
