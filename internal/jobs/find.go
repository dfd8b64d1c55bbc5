package jobs

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/liveness"
)

// Query selects jobs by more than a [Filter] does. The zero Query selects all.
type Query struct {
	Filter

	State State  // only in this one; empty for all that have not ended
	Name  string // pattern for the names of enqueued jobs; empty for all jobs, also those of events
	Key   string // only with this ordering key, which is the device for events; empty for all
}

// findStep is how many jobs one call of Find looks at.
const findStep = 20_000

// Find is List for a Query. It looks at 20,000 jobs at most: the result may be shorter than limit, or
// empty, although others follow. next is the number after which to go on; 0 if all were looked at. With
// the state of jobs that ended they come from the greatest number down, and After is a number to go on
// below.
// Errors: [ErrBad] for a state or a pattern.
func (s *Store) Find(ctx context.Context, query Query, limit int, now time.Time) (views []View, next uint64, err error) {
	if err := query.check(); err != nil {
		return nil, 0, err
	}
	if query.State.Ended() {
		return s.findEnded(ctx, query, limit)
	}
	err = s.db.Read(ctx, "read jobs", func(ctx context.Context, q sqldb.Reader) (err error) {
		views = nil
		bounded := query
		if next, err = bounded.bound(ctx, q); err != nil {
			return err
		}
		if views, err = bounded.read(ctx, q, limit, now); err != nil {
			return err
		}
		if len(views) == limit {
			next = views[limit-1].ID
		}
		return readHeads(ctx, q, views)
	})
	if err != nil {
		return nil, 0, err
	}
	return views, next, nil
}

// check rejects a state that is none, and a pattern that is none.
func (f *Query) check() error {
	states := append([]State{StateReady, StateWaiting, StateBlocked, StateClaimed}, endedStates()[1:]...)
	if f.State != "" && !slices.Contains(states, f.State) {
		return bad("there is no state %.80q; want one of %q", f.State, states)
	}
	return checkPattern(f.Name)
}

// bound limits a query to the next findStep jobs, and returns the last of them if others may follow;
// else 0.
func (f *Query) bound(ctx context.Context, q sqldb.Querier) (last uint64, err error) {
	err = q.QueryRowContext(ctx, "SELECT id FROM jobs WHERE id > ? ORDER BY id LIMIT 1 OFFSET ?", f.After, findStep-1).Scan(&last)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	f.upto = last
	return last, err
}

// read reads up to limit jobs. The database does not know patterns, nor the keys of a lane.
func (f *Query) read(ctx context.Context, q sqldb.Querier, limit int, now time.Time) (views []View, err error) {
	where, args := f.where()
	state, instants := f.State.where(now)
	where, args = where+state, append(args, instants...)
	columns, atMost := jobColumns+", due, error", limit
	var name sql.NullString
	var others []any
	if f.Name != "" {
		where += " AND event = 0"
		columns += ", (SELECT name FROM job_bodies WHERE job_bodies.id = jobs.id)"
		others = []any{&name}
	}
	if f.Name != "" || f.Key != "" {
		atMost = findStep
	}
	err = sqldb.Each(ctx, q, func(rows *sql.Rows) error {
		var v View
		if err := v.scan(rows, now, others...); err != nil {
			return err
		}
		if len(views) < limit && (f.Key == "" || v.Key == orderOf(v.Lane, f.Key)) && (f.Name == "" || liveness.Match(f.Name, name.String)) {
			views = append(views, v)
		}
		return nil
	}, "SELECT "+columns+" FROM jobs WHERE "+where+" ORDER BY id LIMIT ?", append(args, atMost)...)
	return views, err
}

// where returns the condition that a job is in a state, as [View] has it.
func (s State) where(now time.Time) (where string, args []any) {
	switch s {
	case StateReady:
		return " AND claim = 0 AND (due IS NULL OR due <= ?)", []any{sqldb.Nanos(now)}
	case StateWaiting:
		return " AND claim = 0 AND due > ? AND due < ?", []any{sqldb.Nanos(now), int64(blocked)}
	case StateBlocked:
		return " AND due = ?", []any{int64(blocked)}
	case StateClaimed:
		return " AND claim <> 0 AND due < ?", []any{int64(blocked)}
	case StateDone, StateDead, StateDeleted: // which no job of this table has
	}
	return "", nil
}
