package store

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/holter-iot/holter/internal/errkind"
	"github.com/holter-iot/holter/sqldb"
)

// JobState says what a job is waiting for.
type JobState string

const (
	// JobReady: to be claimed.
	JobReady JobState = "ready"
	// JobWaiting: for an instant.
	JobWaiting JobState = "waiting"
	// JobBehind: for another job with the same key, which waits itself; that one may be in another
	// lane, where a route led before.
	JobBehind JobState = "blocked"
	// JobClaimed: somebody works on it, or is about to.
	JobClaimed JobState = "claimed"
)

// JobView is a job as an operator sees it.
type JobView struct {
	Job

	State JobState
	RunAt time.Time // of one that waits; of one that is claimed, the end of its lease
	Error string    // of its last attempt
	URL   string    // where to; empty for a job of an endpoint
}

// JobFilter chooses jobs. The zero one chooses all.
type JobFilter struct {
	IDs   []uint64 // only these; nil for all
	Lanes []Lane   // only of these; nil for all
	After uint64   // only with a greater number

	upto uint64 // only with no greater number; 0 for all
}

func (f *JobFilter) where() (string, []any) {
	where, args := "id > ?", []any{f.After}
	if f.upto > 0 {
		where, args = where+" AND id <= ?", append(args, f.upto)
	}
	if f.IDs != nil {
		where, args = where+" AND id IN (?)", append(args, bun.List(append([]uint64{0}, f.IDs...)))
	}
	if f.Lanes != nil {
		where, args = where+" AND lane IN (?)", append(args, bun.List(codes(f.Lanes)))
	}
	return where, args
}

// List returns up to limit jobs that are not done, by number, without their bodies.
func (j *Jobs) List(ctx context.Context, filter JobFilter, limit int, now time.Time) ([]JobView, error) {
	where, args := filter.where()
	var views []JobView
	err := j.db.Read(ctx, "read jobs", func(ctx context.Context, q *bun.DB) error {
		views = nil
		err := sqldb.Each(ctx, q, func(rows *sql.Rows) error {
			v, err := viewOf(rows, now)
			views = append(views, v)
			return err
		}, "SELECT id, lane, event, okey, claim, attempts, due, error FROM jobs WHERE "+where+" ORDER BY id LIMIT ?", append(args, limit)...)
		if err != nil {
			return err
		}
		return readURLs(ctx, q, views)
	})
	if err != nil {
		return nil, err
	}
	return views, nil
}

// readURLs reads where the jobs without an endpoint go. One that is done meanwhile stays without.
func readURLs(ctx context.Context, q *bun.DB, views []JobView) error {
	at := make(map[uint64]*JobView)
	var ids []uint64
	for i := range views {
		if v := &views[i]; v.Lane.Endpoint == 0 {
			at[v.ID] = v
			ids = append(ids, v.ID)
		}
	}
	for chunk := range slices.Chunk(ids, idsPerStatement) {
		err := sqldb.Each(ctx, q, func(rows *sql.Rows) error {
			var id uint64
			var url string
			if err := rows.Scan(&id, &url); err != nil {
				return err
			}
			at[id].URL = url
			return nil
		}, "SELECT id, url FROM job_bodies WHERE id IN (?)", bun.List(chunk))
		if err != nil {
			return err
		}
	}
	return nil
}

func viewOf(rows *sql.Rows, now time.Time) (JobView, error) {
	var v JobView
	var lane int64
	var due sql.NullInt64
	var failed sql.NullString
	if err := rows.Scan(&v.ID, &lane, &v.Event, &v.Key, &v.Claim, &v.Attempts, &due, &failed); err != nil {
		return v, err
	}
	v.Lane, v.Error, v.State = laneOf(lane), failed.String, JobReady
	switch {
	case due.Int64 == behind:
		v.State = JobBehind
		return v, nil
	case v.Claim != 0:
		v.State = JobClaimed
	case due.Int64 > sqldb.Nanos(now):
		v.State = JobWaiting
	}
	v.RunAt = sqldb.Time(due.Int64)
	return v, nil
}

// Body returns what a job delivers; nil for one that tells of an event. Errors: ErrUnknown.
func (j *Jobs) Body(ctx context.Context, id uint64) (*JobBody, error) {
	var rows []bodyRow
	var there int
	err := j.db.Read(ctx, "read jobs", func(ctx context.Context, q *bun.DB) error {
		rows = nil
		if err := q.NewSelect().Model(&rows).Where("id = ?", id).Scan(ctx); err != nil || len(rows) > 0 {
			return err
		}
		return q.QueryRowContext(ctx, "SELECT COUNT(*) FROM jobs WHERE id = ?", id).Scan(&there)
	})
	switch {
	case err != nil:
		return nil, err
	case len(rows) > 0:
		return rows[0].body(), nil
	case there == 0:
		return nil, errkind.Errorf(ErrUnknown, "there is no job %d; it may be done", id)
	}
	return nil, nil
}

// Remove removes the jobs that a filter chooses for good, and says how many there were. One that is being delivered may arrive nevertheless;
// those that are made meanwhile stay.
func (j *Jobs) Remove(ctx context.Context, filter JobFilter) (total int, err error) {
	if filter.upto, err = j.latest(ctx); err != nil {
		return 0, err
	}
	for ctx.Err() == nil {
		var jobs []Job
		var elsewhere []Lane
		err := j.change(ctx, "remove jobs", func(ctx context.Context, tx sqldb.Tx) (counts map[Lane]int64, err error) {
			where, args := filter.where()
			jobs = nil
			err = sqldb.Each(ctx, tx, func(rows *sql.Rows) error {
				var job Job
				var lane int64
				err := rows.Scan(&job.ID, &lane, &job.Event, &job.Key, &job.Claim)
				job.Lane = laneOf(lane)
				jobs = append(jobs, job)
				return err
			}, "SELECT id, lane, event, okey, claim FROM jobs WHERE "+where+" ORDER BY id LIMIT ?", append(args, idsPerStatement)...)
			if err != nil {
				return nil, err
			}
			if counts, err = remove(ctx, tx, jobs); err != nil {
				return nil, err
			}
			_, elsewhere, err = release(ctx, tx, jobs)
			return counts, err
		})
		if err != nil {
			return total, err
		}
		if len(jobs) == 0 {
			break
		}
		j.added(append(slices.Collect(lanesOf(jobs)), elsewhere...))
		total += len(jobs)
		filter.After = jobs[len(jobs)-1].ID
	}
	return total, ctx.Err()
}

// latest returns the number of the latest job. What goes through jobs, or dead letters, piece by
// piece ends with it: else it might go on for as long as others make new ones.
func (j *Jobs) latest(ctx context.Context) (last uint64, err error) {
	err = j.db.Read(ctx, "read the number of the latest job", func(ctx context.Context, q *bun.DB) error {
		return q.QueryRowContext(ctx, "SELECT last FROM job_numbers WHERE id = 1").Scan(&last)
	})
	return max(last, 1), err // 0 would be no bound
}

// lanesOf returns the lanes of jobs, maybe more than once.
func lanesOf(jobs []Job) func(yield func(Lane) bool) {
	return func(yield func(Lane) bool) {
		var last Lane
		for i := range jobs {
			if jobs[i].Lane != last && !yield(jobs[i].Lane) {
				return
			}
			last = jobs[i].Lane
		}
	}
}

// Hasten lets jobs that wait for another attempt, or were postponed, be claimed at once, and says how many there were. Those that are still to
// run for the first time are left alone: nobody has settled them, so they have no error, not even an empty one.
func (j *Jobs) Hasten(ctx context.Context, lanes []Lane) (int, error) {
	var n int64
	err := j.write(ctx, "hasten jobs", func(ctx context.Context, tx sqldb.Tx) error {
		res, err := tx.NewRaw("UPDATE jobs SET due = 0 WHERE lane IN (?) AND due > 0 AND due < ? AND claim = 0 AND error IS NOT NULL",
			bun.List(codes(lanes)), int64(behind)).Exec(ctx)
		if err != nil {
			return err
		}
		n, err = res.RowsAffected()
		return err
	})
	if err == nil && n > 0 {
		j.added(lanes)
	}
	return int(n), err
}

// Wake lets jobs that wait for an instant be claimed at once. It returns those that are claimed just now: they may come to wait for an
// instant, and whoever wants to wake them then has to ask again.
func (j *Jobs) Wake(ctx context.Context, ids []uint64) (claimed []uint64, err error) {
	var lanes map[Lane]bool
	err = j.write(ctx, "wake jobs", func(ctx context.Context, tx sqldb.Tx) error {
		claimed, lanes = nil, make(map[Lane]bool)
		for chunk := range slices.Chunk(ids, idsPerStatement) {
			err := sqldb.Each(ctx, tx, func(rows *sql.Rows) error {
				var id uint64
				var lane, claim int64
				if err := rows.Scan(&id, &lane, &claim); err != nil {
					return err
				}
				if lanes[laneOf(lane)] = true; claim != 0 {
					claimed = append(claimed, id)
				}
				return nil
			}, "SELECT id, lane, claim FROM jobs WHERE id IN (?)", bun.List(chunk))
			if err != nil {
				return err
			}
			_, err = tx.NewRaw("UPDATE jobs SET due = 0 WHERE id IN (?) AND due > 0 AND due < ? AND claim = 0", bun.List(chunk), int64(behind)).Exec(ctx)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	j.added(slices.Collect(maps.Keys(lanes)))
	return claimed, nil
}
