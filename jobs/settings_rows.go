package jobs

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/holter-iot/holter/internal/errkind"
	"github.com/holter-iot/holter/sqldb"
)

type queueRow struct {
	bun.BaseModel `bun:"table:queues"`

	Num         uint32  `bun:"num,pk"`
	Name        string  `bun:"name"`
	Paused      int     `bun:"paused"`
	Concurrency int     `bun:"concurrency"`
	Rate        float64 `bun:"rate"`
	Attempts    int     `bun:"attempts"`
	Backoff     int64   `bun:"backoff"`
	MaxBackoff  int64   `bun:"max_backoff"`
	MaxAge      int64   `bun:"max_age"`
	MaxJobs     int64   `bun:"max_jobs"`
}

func (r *queueRow) value() Queue {
	return Queue{
		Num: r.Num, Name: r.Name, Paused: r.Paused != 0, Concurrency: r.Concurrency, Rate: r.Rate, Attempts: r.Attempts,
		Backoff: time.Duration(r.Backoff), MaxBackoff: time.Duration(r.MaxBackoff), MaxAge: time.Duration(r.MaxAge), MaxJobs: r.MaxJobs,
	}
}

type endpointRow struct {
	bun.BaseModel `bun:"table:endpoints"`

	Num      uint32 `bun:"num,pk"`
	Name     string `bun:"name"`
	Kind     string `bun:"kind"`
	Target   string `bun:"target"`
	Settings string `bun:"settings"`
	Disabled int    `bun:"disabled"`
	Note     string `bun:"note"`
}

func (r *endpointRow) value() Endpoint {
	return Endpoint{
		Num: r.Num, Name: r.Name, Kind: r.Kind, Target: r.Target, Settings: json.RawMessage(r.Settings), Disabled: r.Disabled != 0, Note: r.Note,
	}
}

type routeRow struct {
	bun.BaseModel `bun:"table:routes"`

	Num      uint32 `bun:"num,pk"`
	Name     string `bun:"name"`
	Types    string `bun:"types"` // separated by commas, as Reasons are
	Reasons  string `bun:"reasons"`
	Group    string `bun:"grp"`
	Device   string `bun:"device"`
	All      int    `bun:"hushed"`
	Queue    uint32 `bun:"queue"`
	Endpoint uint32 `bun:"endpoint"`
	Paused   int    `bun:"paused"`
}

func (r *routeRow) value() Route {
	list := func(text string) []string {
		if text == "" {
			return nil
		}
		return strings.Split(text, ",")
	}
	return Route{
		Num: r.Num, Name: r.Name, Types: list(r.Types), Reasons: list(r.Reasons), Group: r.Group, Device: r.Device,
		All: r.All != 0, Queue: r.Queue, Endpoint: r.Endpoint, Paused: r.Paused != 0,
	}
}

// PutQueue creates a queue, or changes the one that has its name. Errors: ErrBad.
func (s *Store) PutQueue(ctx context.Context, q Queue) error {
	if err := q.Validate(); err != nil {
		return err
	}
	return s.put(ctx, "queues", q.Name, nil, func(num uint32) any {
		return &queueRow{
			Num: num, Name: q.Name, Paused: sqldb.Bool(q.Paused), Concurrency: q.Concurrency, Rate: q.Rate, Attempts: q.Attempts,
			Backoff: int64(q.Backoff), MaxBackoff: int64(q.MaxBackoff), MaxAge: int64(q.MaxAge), MaxJobs: q.MaxJobs,
		}
	})
}

// PutEndpoint creates an endpoint, or changes the one that has its name. Errors: ErrBad.
func (s *Store) PutEndpoint(ctx context.Context, p Endpoint) error {
	if err := ValidateName(p.Name); err != nil {
		return err
	}
	if len(p.Settings) == 0 {
		p.Settings = json.RawMessage("{}")
	}
	return s.put(ctx, "endpoints", p.Name, nil, func(num uint32) any {
		return &endpointRow{
			Num: num, Name: p.Name, Kind: p.Kind, Target: p.Target, Settings: string(p.Settings), Disabled: sqldb.Bool(p.Disabled),
			Note: sqldb.Text(p.Note, maxError),
		}
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
	exists := func(ctx context.Context, tx sqldb.Tx) error {
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
	}
	return s.put(ctx, "routes", r.Name, exists, func(num uint32) any {
		return &routeRow{
			Num: num, Name: r.Name, Types: strings.Join(r.Types, ","), Reasons: strings.Join(r.Reasons, ","), Group: r.Group, Device: r.Device,
			All: sqldb.Bool(r.All), Queue: r.Queue, Endpoint: r.Endpoint, Paused: sqldb.Bool(r.Paused),
		}
	})
}

// put updates the row with a name, or inserts one with a new number.
func (s *Store) put(ctx context.Context, table, name string, check func(context.Context, sqldb.Tx) error, row func(num uint32) any) error {
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
			_, err := tx.NewUpdate().Model(row(nums[0])).WherePK().Exec(ctx)
			return err
		}
		var num uint32
		if err := tx.NewRaw("SELECT COALESCE(MAX(num), 0) + 1 FROM ?", bun.Ident(table)).Scan(ctx, &num); err != nil {
			return err
		}
		_, err := tx.NewInsert().Model(row(num)).Exec(ctx)
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
