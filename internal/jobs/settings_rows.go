package jobs

import (
	"context"
	"encoding/json"

	"github.com/uptrace/bun"

	"github.com/holter-iot/holter/internal/errkind"
	"github.com/holter-iot/holter/internal/sqldb"
)

// PutQueue creates a queue, or changes the one that has its name. Errors: ErrBad.
func (s *Store) PutQueue(ctx context.Context, q Queue) error {
	if err := q.Validate(); err != nil {
		return err
	}
	return s.put(ctx, "queues", q.Name, &q.Num, &q, nil)
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
			err = upsert(ctx, tx, "endpoints", p.Name, &p.Num, &p)
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
	return s.put(ctx, "routes", r.Name, &r.Num, &r, func(ctx context.Context, tx sqldb.Tx) error {
		if err := exists(ctx, tx, "queues", r.Queue); err != nil {
			return err
		}
		return exists(ctx, tx, "endpoints", r.Endpoint)
	})
}

// exists returns an error if no row has a number.
func exists(ctx context.Context, tx sqldb.Tx, table string, num uint32) error {
	n := 0
	if err := tx.NewRaw("SELECT COUNT(*) FROM ? WHERE num = ?", bun.Ident(table), num).Scan(ctx, &n); err != nil {
		return err
	}
	if n == 0 {
		return errkind.Errorf(ErrUnknown, "there is no number %d among the %s", num, table)
	}
	return nil
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

func upsert(ctx context.Context, tx sqldb.Tx, table, name string, num *uint32, row any) error {
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
		num, err := numOf(ctx, tx, table, name)
		if err != nil {
			return err
		}
		if err := first(ctx, tx, num); err != nil {
			return err
		}
		_, err = tx.NewRaw("DELETE FROM ? WHERE num = ?", bun.Ident(table), num).Exec(ctx)
		return err
	})
}

// numOf returns the number of the row with a name.
func numOf(ctx context.Context, tx sqldb.Tx, table, name string) (uint32, error) {
	var nums []uint32
	if err := tx.NewRaw("SELECT num FROM ? WHERE name = ?", bun.Ident(table), sqldb.Text(name, maxError)).Scan(ctx, &nums); err != nil {
		return 0, err
	}
	if len(nums) == 0 {
		return 0, errkind.Errorf(ErrUnknown, "there is no %.80q among the %s", name, table)
	}
	return nums[0], nil
}

// inUse returns an error if a route, or an endpoint, has a number in a column, or a job or a dead letter
// is in lanes that match a condition.
func inUse(ctx context.Context, tx sqldb.Tx, column, name string, num uint32, lanes string, args ...any) error {
	users := map[string]string{"routes": "route", "job_routes": "job route"}
	if column == "queue" {
		users["endpoints"] = "endpoint"
	}
	for table, what := range users {
		var names []string
		if err := tx.NewRaw("SELECT name FROM ? WHERE ? = ? ORDER BY name LIMIT 1", bun.Ident(table), bun.Ident(column), num).Scan(ctx, &names); err != nil {
			return err
		}
		if len(names) > 0 {
			return errkind.Errorf(ErrInUse, "the %s %q leads to the %s %q; delete or change it first", what, names[0], column, name)
		}
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
