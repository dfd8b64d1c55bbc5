package jobs

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strings"

	"github.com/holter-iot/holter/internal/errkind"
	"github.com/holter-iot/holter/internal/sqldb"
)

// PutQueue creates a queue, or changes the one that has its name. Errors: ErrBad.
func (s *Store) PutQueue(ctx context.Context, q Queue) error {
	if err := q.Validate(); err != nil {
		return err
	}
	return s.put(ctx, "queues", q.Name, &q.Num, q.fields(), nil)
}

// PutEndpoint creates an endpoint, or changes the one that has its name. If its jobs go to another queue
// than before, they wait for those with the same keys in the old one. Errors: ErrBad; [ErrUnknown] for a
// queue that does not exist.
func (s *Store) PutEndpoint(ctx context.Context, p Endpoint) error {
	if err := ValidateName(p.Name); err != nil {
		return err
	}
	if len(p.Settings) == 0 {
		p.Settings = json.RawMessage("{}")
	}
	p.Note = sqldb.Text(p.Note, maxError)
	return s.reroute(ctx, "endpoints", func(ctx context.Context, tx sqldb.Tx) (changed, error) {
		err := given(ctx, tx, "queues", p.Queue)
		if err == nil {
			err = upsert(ctx, tx, "endpoints", p.Name, &p.Num, p.fields())
		}
		return changed{endpoint: p.Num}, err
	})
}

// PutRoute creates a route, or changes the one that has its name. If it leads to another lane than
// before, its jobs in the new lane wait for those with the same keys in the old lane. Errors: ErrBad;
// [ErrUnknown] for a queue or an endpoint that does not exist.
func (s *Store) PutRoute(ctx context.Context, r Route) error {
	if err := ValidateName(r.Name); err != nil {
		return err
	}
	if err := r.ValidateEvents(); err != nil {
		return err
	}
	return s.put(ctx, "routes", r.Name, &r.Num, r.fields(), func(ctx context.Context, tx sqldb.Tx) error {
		if err := exists(ctx, tx, "queues", r.Queue); err != nil {
			return err
		}
		return exists(ctx, tx, "endpoints", r.Endpoint)
	})
}

// exists returns an error if no row has a number.
func exists(ctx context.Context, tx sqldb.Tx, table string, num uint32) error {
	n := 0
	if err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+table+" WHERE num = ?", num).Scan(&n); err != nil {
		return err
	}
	if n == 0 {
		return errkind.Errorf(ErrUnknown, "there is no number %d among the %s", num, table)
	}
	return nil
}

// put updates the row with a name, or inserts one with a new number, which it sets, if check returns
// no error. row are the fields of the row, with num; check may be nil.
func (s *Store) put(ctx context.Context, table, name string, num *uint32, row []any, check func(context.Context, sqldb.Tx) error) error {
	return s.write(ctx, "change the "+table, func(ctx context.Context, tx sqldb.Tx) error {
		if check != nil {
			if err := check(ctx, tx); err != nil {
				return err
			}
		}
		return upsert(ctx, tx, table, name, num, row)
	})
}

// given is exists for a number that may be 0, for none.
func given(ctx context.Context, tx sqldb.Tx, table string, num uint32) error {
	if num == 0 {
		return nil
	}
	return exists(ctx, tx, table, num)
}

func upsert(ctx context.Context, tx sqldb.Tx, table, name string, num *uint32, row []any) error {
	err := tx.QueryRowContext(ctx, "SELECT num FROM "+table+" WHERE name = ?", name).Scan(num)
	if errors.Is(err, sql.ErrNoRows) {
		err = tx.QueryRowContext(ctx, "SELECT COALESCE(MAX(num), 0) + 1 FROM "+table).Scan(num)
	}
	if err != nil {
		return err
	}
	columns := settingColumns(table)
	_, err = tx.Exec(ctx, sqldb.InsertInto(table, columns)+tx.Upsert("num", strings.Split(columns, ", ")[1:]...), row...)
	return err
}

// settingColumns returns the columns of a table of settings, the first of which is num.
func settingColumns(table string) string {
	return map[string]string{
		"queues":     "num, name, paused, concurrency, rate, attempts, backoff, max_backoff, max_age, max_jobs",
		"endpoints":  "num, name, kind, target, settings, disabled, note, queue",
		"routes":     "num, name, types, reasons, grp, device, hushed, queue, endpoint, paused",
		"job_routes": "num, name, jobs, queue, endpoint, weight",
	}[table]
}

func (q *Queue) fields() []any {
	return []any{&q.Num, &q.Name, &q.Paused, &q.Concurrency, &q.Rate, &q.Attempts, &q.Backoff, &q.MaxBackoff, &q.MaxAge, &q.MaxJobs}
}

func (p *Endpoint) fields() []any {
	return []any{&p.Num, &p.Name, &p.Kind, &p.Target, sqldb.JSON(&p.Settings), &p.Disabled, &p.Note, &p.Queue}
}

func (r *Route) fields() []any {
	return []any{&r.Num, &r.Name, &r.Types, &r.Reasons, &r.Group, &r.Device, &r.Suppressed, &r.Queue, &r.Endpoint, &r.Paused}
}

func (r *JobRoute) fields() []any {
	return []any{&r.Num, &r.Name, &r.Jobs, &r.Queue, &r.Endpoint, &r.Weight}
}

// readSettings reads a table of settings, by number.
func readSettings[T any](ctx context.Context, q sqldb.Querier, table string, fields func(*T) []any) ([]T, error) {
	return sqldb.All(ctx, q, fields, "SELECT "+settingColumns(table)+" FROM "+table+" ORDER BY num")
}

// DeleteQueue deletes a queue. Errors: [ErrUnknown]; [ErrInUse] while it has jobs or dead letters, or a
// route leads to it; ErrBad for the one that always exists.
func (s *Store) DeleteQueue(ctx context.Context, name string) error {
	if name == DefaultQueue {
		return bad("the queue %q is always there", name)
	}
	return s.drop(ctx, "queues", name, func(ctx context.Context, tx sqldb.Tx, num uint32) error {
		return inUse(ctx, tx, "queue", name, num, "lane >= ? AND lane < ?", Lane{Queue: num}.code(), Lane{Queue: num + 1}.code())
	})
}

// DeleteEndpoint deletes an endpoint. Errors: [ErrUnknown]; [ErrInUse] while it has jobs or dead letters,
// or a route leads to it.
func (s *Store) DeleteEndpoint(ctx context.Context, name string) error {
	return s.drop(ctx, "endpoints", name, func(ctx context.Context, tx sqldb.Tx, num uint32) error {
		return inUse(ctx, tx, "endpoint", name, num, "lane % 4294967296 = ?", num)
	})
}

// DeleteRoute deletes a route; its jobs stay. Errors: [ErrUnknown].
func (s *Store) DeleteRoute(ctx context.Context, name string) error {
	return s.drop(ctx, "routes", name, func(ctx context.Context, tx sqldb.Tx, num uint32) error { // which another route may get
		_, err := tx.Exec(ctx, "DELETE FROM route_lanes WHERE route = ?", num)
		return err
	})
}

// drop deletes the row with a name, after first returned no error.
func (s *Store) drop(ctx context.Context, table, name string, first func(ctx context.Context, tx sqldb.Tx, num uint32) error) error {
	return s.write(ctx, "change the "+table, func(ctx context.Context, tx sqldb.Tx) error {
		num, err := numOf(ctx, tx, table, name)
		if err != nil {
			return err
		}
		if err := first(ctx, tx, num); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "DELETE FROM "+table+" WHERE num = ?", num)
		return err
	})
}

// numOf returns the number of the row with a name.
func numOf(ctx context.Context, tx sqldb.Tx, table, name string) (num uint32, err error) {
	err = tx.QueryRowContext(ctx, "SELECT num FROM "+table+" WHERE name = ?", sqldb.Text(name, maxError)).Scan(&num)
	if errors.Is(err, sql.ErrNoRows) {
		err = errkind.Errorf(ErrUnknown, "there is no %.80q among the %s", name, table)
	}
	return num, err
}

// inUse returns an error if a route, or an endpoint, has a number in a column, or a job or a dead letter
// is in lanes that match a condition.
func inUse(ctx context.Context, tx sqldb.Tx, column, name string, num uint32, lanes string, args ...any) error {
	users := map[string]string{"routes": "route", "job_routes": "job route"}
	if column == "queue" {
		users["endpoints"] = "endpoint"
	}
	for table, what := range users {
		names, err := sqldb.Values[string](ctx, tx, "SELECT name FROM "+table+" WHERE "+column+" = ? ORDER BY name LIMIT 1", num)
		if err != nil {
			return err
		}
		if len(names) > 0 {
			return errkind.Errorf(ErrInUse, "the %s %q leads to the %s %q; delete or change it first", what, names[0], column, name)
		}
	}
	for table, what := range map[string]string{"jobs": "jobs", "dead_jobs": "dead letters"} {
		some, err := sqldb.Values[int64](ctx, tx, "SELECT id FROM "+table+" WHERE "+lanes+" LIMIT 1", args...)
		if err != nil {
			return err
		}
		if len(some) > 0 {
			return errkind.Errorf(ErrInUse, "there are %s of the %s %q; wait until they are delivered, or delete them first", what, column, name)
		}
	}
	return nil
}
