package jobs

import (
	"context"
	"encoding/json"

	"github.com/uptrace/bun"

	"github.com/holter-iot/holter/internal/errkind"
	"github.com/holter-iot/holter/sqldb"
)

// PutQueue creates a queue, or changes the one that has its name. Errors: ErrBad.
func (s *Store) PutQueue(ctx context.Context, q Queue) error {
	if err := q.Validate(); err != nil {
		return err
	}
	return s.put(ctx, "queues", q.Name, &q.Num, &q, nil)
}

// PutEndpoint creates an endpoint, or changes the one that has its name. Errors: ErrBad.
func (s *Store) PutEndpoint(ctx context.Context, p Endpoint) error {
	if err := ValidateName(p.Name); err != nil {
		return err
	}
	if len(p.Settings) == 0 {
		p.Settings = json.RawMessage("{}")
	}
	p.Note = sqldb.Text(p.Note, maxError)
	return s.put(ctx, "endpoints", p.Name, &p.Num, &p, nil)
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
	return s.put(ctx, "routes", r.Name, &r.Num, &r, func(ctx context.Context, tx sqldb.Tx) error {
		for table, num := range map[string]uint32{"queues": r.Queue, "endpoints": r.Endpoint} {
			n := 0
			if err := tx.NewRaw("SELECT COUNT(*) FROM ? WHERE num = ?", bun.Ident(table), num).Scan(ctx, &n); err != nil {
				return err
			}
			if n == 0 {
				return errkind.Errorf(ErrUnknown, "there is no number %d among the %s", num, table)
			}
		}
		return nil
	})
}

// put updates the row with a name, or inserts one with a new number, which it sets, if check returns
// no error. row is a pointer to the row, which has num; check may be nil.
func (s *Store) put(ctx context.Context, table, name string, num *uint32, row any, check func(context.Context, sqldb.Tx) error) error {
	return s.write(ctx, "change the "+table, func(ctx context.Context, tx sqldb.Tx) error {
		if check != nil {
			if err := check(ctx, tx); err != nil {
				return err
			}
		}
		var nums []uint32
		if err := tx.NewRaw("SELECT num FROM ? WHERE name = ?", bun.Ident(table), name).Scan(ctx, &nums); err != nil {
			return err
		}
		if len(nums) > 0 {
			*num = nums[0]
			_, err := tx.NewUpdate().Model(row).WherePK().Exec(ctx)
			return err
		}
		if err := tx.NewRaw("SELECT COALESCE(MAX(num), 0) + 1 FROM ?", bun.Ident(table)).Scan(ctx, num); err != nil {
			return err
		}
		_, err := tx.NewInsert().Model(row).Exec(ctx)
		return err
	})
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
		_, err := tx.NewRaw("DELETE FROM route_lanes WHERE route = ?", num).Exec(ctx)
		return err
	})
}

// drop deletes the row with a name, after first returned no error.
func (s *Store) drop(ctx context.Context, table, name string, first func(ctx context.Context, tx sqldb.Tx, num uint32) error) error {
	return s.write(ctx, "change the "+table, func(ctx context.Context, tx sqldb.Tx) error {
		var nums []uint32
		if err := tx.NewRaw("SELECT num FROM ? WHERE name = ?", bun.Ident(table), sqldb.Text(name, maxError)).Scan(ctx, &nums); err != nil {
			return err
		}
		if len(nums) == 0 {
			return errkind.Errorf(ErrUnknown, "there is no %.80q among the %s", name, table)
		}
		if err := first(ctx, tx, nums[0]); err != nil {
			return err
		}
		_, err := tx.NewRaw("DELETE FROM ? WHERE num = ?", bun.Ident(table), nums[0]).Exec(ctx)
		return err
	})
}

// inUse returns an error if a route has a number in a column, or a job or a dead letter is in lanes
// that match a condition.
func inUse(ctx context.Context, tx sqldb.Tx, column, name string, num uint32, lanes string, args ...any) error {
	var routes []string
	if err := tx.NewRaw("SELECT name FROM routes WHERE ? = ? ORDER BY name LIMIT 1", bun.Ident(column), num).Scan(ctx, &routes); err != nil {
		return err
	}
	if len(routes) > 0 {
		return errkind.Errorf(ErrInUse, "the route %q leads to the %s %q; delete or change it first", routes[0], column, name)
	}
	for table, what := range map[string]string{"jobs": "jobs", "dead_jobs": "dead letters"} {
		var some []int64
		if err := tx.NewRaw("SELECT id FROM "+table+" WHERE "+lanes+" LIMIT 1", args...).Scan(ctx, &some); err != nil {
			return err
		}
		if len(some) > 0 {
			return errkind.Errorf(ErrInUse, "there are %s of the %s %q; wait until they are delivered, or delete them first", what, column, name)
		}
	}
	return nil
}
