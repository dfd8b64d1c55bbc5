package jobs

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/errkind"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/liveness"
)

// A summary of each job is kept for a while after its end, see [Store.KeepEnded]: in the table
// ended_jobs, whose rows are written in the transactions that delete those of jobs. A job may be in both
// for a moment, if its lease ended before its delivery did: then the row of jobs counts.

const (
	// StateDone means that the job was delivered.
	StateDone State = "done"
	// StateDead means that the job became a dead letter.
	StateDead State = "dead"
	// StateDeleted means that somebody deleted the job before it was delivered.
	StateDeleted State = "deleted"
)

// endedStates are the states of jobs that ended, each at the number that the database has for it.
func endedStates() []State { return []State{1: StateDone, 2: StateDead, 3: StateDeleted} }

// Ended reports whether a job in this state has ended.
func (s State) Ended() bool { return s != "" && slices.Contains(endedStates(), s) }

// The maximum number of bytes that are kept of texts of a job that ended.
const (
	maxEndedResponse = 1000
	maxEndedKey      = 250 // also of a name
)

// KeepEnded sets whether summaries of jobs are kept after their end, until [Store.Sweep] deletes them.
// Default: false.
func (s *Store) KeepEnded(keep bool) { s.keeps.Store(keep) }

// keepEnded writes the summaries of jobs that end now.
func (s *Store) keepEnded(ctx context.Context, tx sqldb.Tx, ended []View) error {
	if !s.keeps.Load() {
		return nil
	}
	table := &sqldb.Table{
		Name:  "ended_jobs",
		Ints:  []string{"id", "lane", "event", "term", "state", "attempts", "created", "started", "ended", "status"},
		Texts: []string{"name", "okey", "url", "error", "response"},
		Key:   "id",
	}
	states := endedStates()
	return tx.Insert(ctx, table, len(ended), func(args []any, i int) []any {
		v := &ended[i]
		return append(args,
			int64(v.ID), v.Lane.code(), int64(v.Event), v.Term(), int64(slices.Index(states, v.State)), int64(v.Attempts),
			sqldb.Nanos(v.Created), sqldb.Nanos(v.Started), sqldb.Nanos(v.Ended), int64(v.Status),
			sqldb.Text(v.Name, maxEndedKey), sqldb.Text(v.OrderingKey, maxEndedKey), sqldb.Text(v.URL, maxResponse), sqldb.Text(v.Error, maxError),
			sqldb.Text(v.Response, maxEndedResponse))
	})
}

// ended returns the summary of a job that ends.
func (a *Ack) ended(state State, why string, now time.Time) View {
	v := View{
		Job: a.Job, State: state, Error: why, URL: a.Body.URL, OrderingKey: a.Body.Key, Created: a.Body.Created,
		Started: a.Started, Ended: now, Status: a.Status, Response: a.Response,
	}
	v.Name = a.Body.Name
	return v
}

// keepDone writes the summaries of jobs that were delivered.
func (s *Store) keepDone(ctx context.Context, tx sqldb.Tx, done []*Ack, now time.Time) error {
	if !s.keeps.Load() {
		return nil
	}
	var failed []uint64
	for _, a := range done {
		if a.Job.Attempts > 0 {
			failed = append(failed, a.Job.ID)
		}
	}
	errs := make(map[uint64]string)
	for chunk := range slices.Chunk(sqldb.Ints(failed), idsPerStatement) {
		some, err := sqldb.Pairs[uint64, string](ctx, tx, "SELECT id, COALESCE(error, '') FROM jobs WHERE id IN (?)", chunk)
		if err != nil {
			return err
		}
		maps.Copy(errs, some)
	}
	views := make([]View, 0, len(done))
	for _, a := range done {
		why, ok := errs[a.Job.ID]
		if a.Job.Attempts == 0 || ok { // else it is acked for the second time
			views = append(views, a.ended(StateDone, why, now))
		}
	}
	return s.keepEnded(ctx, tx, views)
}

// keepDeleted writes the summaries of jobs that somebody deletes.
func (s *Store) keepDeleted(ctx context.Context, tx sqldb.Tx, views []View) error {
	if !s.keeps.Load() {
		return nil
	}
	if err := readHeads(ctx, tx, views); err != nil {
		return err
	}
	now := time.Now()
	for i := range views {
		views[i].State, views[i].Ended = StateDeleted, now
	}
	return s.keepEnded(ctx, tx, views)
}

// Get returns a job, also one that ended lately. Errors: [ErrUnknown].
func (s *Store) Get(ctx context.Context, id uint64, now time.Time) (View, error) {
	views, err := s.List(ctx, Filter{IDs: []uint64{id}}, 1, now)
	if err == nil && len(views) == 0 {
		err = s.db.Read(ctx, "read a job that ended", func(ctx context.Context, q sqldb.Reader) error {
			views, err = readEnded(ctx, q, "id = ?", id)
			return err
		})
	}
	switch {
	case err != nil:
		return View{}, err
	case len(views) == 0:
		return View{}, errkind.Errorf(ErrUnknown, "there is no job %d, or it ended so long ago that it is not kept", id)
	}
	return views[0], nil
}

// readEnded reads jobs that ended. where may be followed by an order and a limit.
func readEnded(ctx context.Context, q sqldb.Querier, where string, args ...any) (views []View, err error) {
	states := endedStates()
	err = sqldb.Each(ctx, q, func(rows *sql.Rows) error {
		var v View
		var term, created, started, ended int64
		var state int
		err := rows.Scan(&v.ID, &v.Lane, &v.Event, &term, &state, &v.Attempts, &created, &started, &ended, &v.Status,
			&v.Name, &v.OrderingKey, &v.URL, &v.Error, &v.Response)
		v.Claim, v.State = term<<claimBits, states[min(max(state, 0), len(states)-1)]
		v.Created, v.Started, v.Ended = sqldb.Time(created), sqldb.Time(started), sqldb.Time(ended)
		views = append(views, v)
		return err
	}, "SELECT id, lane, event, term, state, attempts, created, started, ended, status, name, okey, url, error, response FROM ended_jobs WHERE "+where, args...)
	return views, err
}

// findEnded is Find for jobs that ended, from the greatest number down: After is the number to go on
// below, 0 for none.
func (s *Store) findEnded(ctx context.Context, query Query, limit int) (views []View, next uint64, err error) {
	err = s.db.Read(ctx, "read jobs that ended", func(ctx context.Context, q sqldb.Reader) error {
		below := query.After
		if below == 0 {
			below = 1 << 62
		}
		first, err := sqldb.Values[uint64](ctx, q, "SELECT id FROM ended_jobs WHERE id < ? ORDER BY id DESC LIMIT 1 OFFSET ?", below, findStep-1)
		if err != nil {
			return err
		}
		where, args := []string{"id < ?", "state = ?"}, []any{below, slices.Index(endedStates(), query.State)}
		add := func(condition string, arg any) { where, args = append(where, condition), append(args, arg) }
		if next = 0; len(first) > 0 {
			next = first[0]
			add("id >= ?", next)
		}
		if query.Lanes != nil {
			add("lane IN (?)", codes(query.Lanes))
		}
		if query.Key != "" {
			add("okey = ?", query.Key)
		}
		atMost := limit
		if query.Name != "" {
			where, atMost = append(where, "event = 0"), findStep
		}
		views, err = readEnded(ctx, q, strings.Join(where, " AND ")+" ORDER BY id DESC LIMIT ?", append(args, atMost)...)
		if err != nil {
			return err
		}
		if query.Name != "" {
			views = slices.DeleteFunc(views, func(v View) bool { return !liveness.Match(query.Name, v.Name) })
		}
		if len(views) >= limit {
			views = views[:limit]
			next = views[limit-1].ID
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	return views, next, nil
}

// sweepEnded deletes the summaries of jobs that ended too long ago, or that are too many.
func (s *Store) sweepEnded(ctx context.Context, keep Retention, now time.Time) error {
	var last []int64
	err := s.db.Read(ctx, "count jobs that ended", func(ctx context.Context, q sqldb.Reader) (err error) {
		last, err = sqldb.Values[int64](ctx, q, "SELECT ended FROM ended_jobs ORDER BY ended DESC LIMIT 1 OFFSET ?", max(keep.Ended-1, 0))
		return err
	})
	if err != nil {
		return err
	}
	before := sqldb.Nanos(s.db.OldBefore(now, keep.EndedAge))
	if len(last) > 0 {
		before = max(before, last[0])
	}
	for deleted := int64(1); deleted > 0 && ctx.Err() == nil; {
		err := s.write(ctx, "delete jobs that ended", func(ctx context.Context, tx sqldb.Tx) error {
			ids, err := sqldb.Values[int64](ctx, tx, "SELECT id FROM ended_jobs WHERE ended < ? ORDER BY ended LIMIT ?", before, sweepStep)
			if deleted = 0; err != nil || len(ids) == 0 {
				return err
			}
			deleted, err = tx.Exec(ctx, "DELETE FROM ended_jobs WHERE id IN (?)", ids)
			return err
		})
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}
