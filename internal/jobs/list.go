package jobs

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"time"

	"github.com/holter-iot/holter/internal/errkind"
	"github.com/holter-iot/holter/internal/sqldb"
)

// State is what a job waits for.
type State string

const (
	// StateReady means that the job can be claimed.
	StateReady State = "ready"
	// StateWaiting means that the job waits until an instant.
	StateWaiting State = "waiting"
	// StateBlocked means that the job waits until another one with its key is gone, which waits itself.
	// That one may be in another lane, where a route led before.
	StateBlocked State = "blocked"
	// StateClaimed means that the job is being delivered, or is about to be.
	StateClaimed State = "claimed"
)

// View is a job as an operator sees it.
type View struct {
	Job

	State       State
	RunAt       time.Time // until when it waits or waited; zero for a claimed one
	LeasedUntil time.Time // of a claimed one: when it can be claimed again if nobody extends its lease
	Error       string    // of its last attempt
	URL         string    // where it is delivered; empty for a job of an endpoint
	OrderingKey string    // empty for none, and for the job of an event
	Created     time.Time // from which its age counts; zero for the job of an event that has not ended

	// Only of a job that ended, and then RunAt and LeasedUntil are zero.
	Started  time.Time // beginning of its last delivery; zero for none
	Ended    time.Time
	Status   int    // of the last response; 0 if there was none
	Response string // its beginning
}

// Filter selects jobs or dead letters. The zero Filter selects all.
type Filter struct {
	IDs   []uint64 // only these; nil for all
	Lanes []Lane   // only of these; nil for all
	After uint64   // only greater numbers

	upto uint64 // no greater numbers; 0 for no limit
}

func (f *Filter) where() (string, []any) {
	where, args := "id > ?", []any{f.After}
	if f.upto > 0 {
		where, args = where+" AND id <= ?", append(args, f.upto)
	}
	if f.IDs != nil {
		where, args = where+" AND id IN (?)", append(args, sqldb.Ints(f.IDs))
	}
	if f.Lanes != nil {
		where, args = where+" AND lane IN (?)", append(args, codes(f.Lanes))
	}
	return where, args
}

// codes returns the codes of lanes.
func codes(lanes []Lane) []int64 {
	list := make([]int64, len(lanes))
	for i, l := range lanes {
		list[i] = l.code()
	}
	return list
}

// List returns up to limit jobs, by number, without their bodies.
func (s *Store) List(ctx context.Context, filter Filter, limit int, now time.Time) ([]View, error) {
	where, args := filter.where()
	var views []View
	err := s.db.Read(ctx, "read jobs", func(ctx context.Context, q sqldb.Reader) error {
		views = nil
		err := sqldb.Each(ctx, q, func(rows *sql.Rows) error {
			var v View
			err := v.scan(rows, now)
			views = append(views, v)
			return err
		}, "SELECT "+jobColumns+", due, error FROM jobs WHERE "+where+" ORDER BY id LIMIT ?", append(args, limit)...)
		if err != nil {
			return err
		}
		return readHeads(ctx, q, views)
	})
	if err != nil {
		return nil, err
	}
	return views, nil
}

func (v *View) scan(rows *sql.Rows, now time.Time, others ...any) error {
	var due sql.NullInt64
	var failed sql.NullString
	if err := scanJob(rows, &v.Job, append([]any{&due, &failed}, others...)...); err != nil {
		return err
	}
	v.Error, v.State = failed.String, StateReady
	switch {
	case due.Int64 == blocked:
		v.State = StateBlocked
		return nil
	case v.Claim != 0:
		v.State, v.LeasedUntil = StateClaimed, sqldb.Time(due.Int64)
		return nil
	case due.Int64 > sqldb.Nanos(now):
		v.State = StateWaiting
	}
	v.RunAt = sqldb.Time(max(due.Int64, 0))
	return nil
}

// readHeads reads what is shown of the bodies of jobs. A job that is gone meanwhile stays without.
func readHeads(ctx context.Context, q sqldb.Querier, views []View) error {
	at := make(map[uint64]*View)
	var ids []uint64
	for i := range views {
		if v := &views[i]; v.Event == 0 {
			at[v.ID] = v
			ids = append(ids, v.ID)
		}
	}
	for chunk := range slices.Chunk(ids, idsPerStatement) {
		err := sqldb.Each(ctx, q, func(rows *sql.Rows) error {
			var id uint64
			var created int64
			var b Body
			if err := rows.Scan(&id, &b.Name, &b.Priority, &b.URL, &b.Key, &created); err != nil {
				return err
			}
			v := at[id]
			v.Name, v.Priority, v.URL, v.OrderingKey, v.Created = b.Name, b.Priority, b.URL, b.Key, sqldb.Time(created)
			return nil
		}, "SELECT id, name, priority, url, okey, created FROM job_bodies WHERE id IN (?)", sqldb.Ints(chunk))
		if err != nil {
			return err
		}
	}
	return nil
}

// Body returns the body of a job; nil for the job of an event. Errors: [ErrUnknown].
func (s *Store) Body(ctx context.Context, id uint64) (*Body, error) {
	var bodies []Body
	var jobs int
	err := s.db.Read(ctx, "read jobs", func(ctx context.Context, q sqldb.Reader) (err error) {
		if bodies, err = sqldb.All(ctx, q, (*Body).fields, "SELECT "+bodyColumns+", data FROM job_bodies WHERE id = ?", id); err != nil || len(bodies) > 0 {
			return err
		}
		return q.QueryRowContext(ctx, "SELECT COUNT(*) FROM jobs WHERE id = ?", id).Scan(&jobs)
	})
	switch {
	case err != nil:
		return nil, err
	case len(bodies) > 0:
		return &bodies[0], nil
	case jobs == 0:
		return nil, errkind.Errorf(ErrUnknown, "there is no job %d; it may be done", id)
	}
	return nil, nil
}

// step is the result of one transaction of inSteps.
type step struct {
	n      int
	last   uint64 // the greatest number
	counts map[Lane]int64
	wake   []Lane
}

// inSteps handles what a filter selects in transactions of a bounded size, until one handles nothing,
// and returns how many it handled. What is made meanwhile is left out: else it might go on for as long
// as others make more.
func (s *Store) inSteps(
	ctx context.Context, op string, filter Filter, do func(ctx context.Context, tx sqldb.Tx, where string, args []any) (step, error),
) (total int, err error) {
	err = s.db.Read(ctx, op, func(ctx context.Context, q sqldb.Reader) (err error) {
		filter.upto, err = lastNumber(ctx, q)
		return err
	})
	if err != nil {
		return 0, err
	}
	filter.upto = max(filter.upto, 1) // 0 would be no limit
	for ctx.Err() == nil {
		where, args := filter.where()
		var st step
		err := s.change(ctx, op, func(ctx context.Context, tx sqldb.Tx) (_ map[Lane]int64, err error) {
			st, err = do(ctx, tx, where, args)
			return st.counts, err
		})
		if err != nil || st.n == 0 {
			return total, err
		}
		s.wake(st.wake...)
		total += st.n
		filter.After = st.last
	}
	return total, ctx.Err()
}

// Delete deletes jobs and returns how many. One that is being delivered may arrive nevertheless.
func (s *Store) Delete(ctx context.Context, filter Filter) (int, error) {
	return s.inSteps(ctx, "delete jobs", filter, func(ctx context.Context, tx sqldb.Tx, where string, args []any) (st step, err error) {
		var jobs []Job
		var views []View
		err = sqldb.Each(ctx, tx, func(rows *sql.Rows) error {
			var v View
			err := v.scan(rows, time.Time{})
			jobs, views = append(jobs, v.Job), append(views, v)
			return err
		}, "SELECT "+jobColumns+", due, error FROM jobs WHERE "+where+" ORDER BY id LIMIT ?", append(args, idsPerStatement)...)
		if err != nil || len(jobs) == 0 {
			return st, err
		}
		if err := s.keepDeleted(ctx, tx, views); err != nil {
			return st, err
		}
		var elsewhere []Lane
		st.n, st.last = len(jobs), jobs[len(jobs)-1].ID
		st.counts, _, elsewhere, err = remove(ctx, tx, jobs)
		st.wake = append(lanesWith(jobs), elsewhere...)
		return st, err
	})
}

// RetryNow makes jobs due that wait for a retry or were postponed, and returns how many. Jobs that are
// to run later for the first time are left alone: they have no error, not even an empty one, since
// nobody has acked them.
func (s *Store) RetryNow(ctx context.Context, lanes []Lane) (int, error) {
	var n int64
	err := s.write(ctx, "retry jobs now", func(ctx context.Context, tx sqldb.Tx) (err error) {
		n, err = tx.Exec(ctx, "UPDATE jobs SET due = 0 WHERE lane IN (?) AND due > 0 AND due < ? AND claim = 0 AND error IS NOT NULL",
			codes(lanes), int64(blocked))
		return err
	})
	if err == nil && n > 0 {
		s.wake(lanes...)
	}
	return int(n), err
}

// Wake makes jobs due that wait until an instant. It returns those that are claimed: they may be about
// to wait until an instant, and must be woken again then.
func (s *Store) Wake(ctx context.Context, ids []uint64) (claimed []uint64, err error) {
	var lanes map[Lane]bool
	err = s.write(ctx, "wake jobs", func(ctx context.Context, tx sqldb.Tx) error {
		claimed, lanes = nil, make(map[Lane]bool)
		for chunk := range slices.Chunk(ids, idsPerStatement) {
			err := sqldb.Each(ctx, tx, func(rows *sql.Rows) error {
				var job Job
				if err := scanJob(rows, &job); err != nil {
					return err
				}
				if lanes[job.Lane] = true; job.Claim != 0 {
					claimed = append(claimed, job.ID)
				}
				return nil
			}, "SELECT "+jobColumns+" FROM jobs WHERE id IN (?)", sqldb.Ints(chunk))
			if err != nil {
				return err
			}
			_, err = tx.Exec(ctx, "UPDATE jobs SET due = 0 WHERE id IN (?) AND due > 0 AND due < ? AND claim = 0", sqldb.Ints(chunk), int64(blocked))
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.wake(slices.Collect(maps.Keys(lanes))...)
	return claimed, nil
}
