package store

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/uptrace/bun"

	"github.com/holter-iot/holter/internal/errkind"
	"github.com/holter-iot/holter/sqldb"
)

var (
	// ErrUnknown is wrapped by what returns for a name or a number that is not there.
	ErrUnknown = errors.New("store: unknown")
	// ErrInUse is wrapped by what deletes something that others need.
	ErrInUse = errors.New("store: in use")
	// ErrBadName is wrapped by what is told to use a name that cannot be one.
	ErrBadName = errors.New("store: bad name")
)

// Queue is a queue of jobs, with how they are worked on.
type Queue struct {
	Num         uint32 // given by the store
	Name        string
	Paused      bool
	Concurrency int           // deliveries at a time
	Rate        float64       // deliveries per second; 0 for no limit
	Attempts    int           // after which a job is a dead letter
	Backoff     time.Duration // bound of the pause before the first retry; it doubles with each
	MaxBackoff  time.Duration
	MaxAge      time.Duration // of a job, after which it is a dead letter
	MaxJobs     int64         // beyond which it takes no more
}

// Endpoint is a place that jobs are delivered to.
type Endpoint struct {
	Num      uint32 // given by the store
	Name     string
	Kind     string          // what it is, such as webhook
	Target   string          // where it is, such as a URL
	Settings json.RawMessage // of its kind
	Disabled bool
	Note     string // why it is disabled
}

// Route says which events become jobs of which queue and endpoint.
type Route struct {
	Num      uint32 // given by the store
	Name     string
	Types    []string // of events; empty: all
	Reasons  []string // empty: all
	Group    string   // pattern; empty: all
	Device   string   // pattern; empty: all subjects; else only events of devices
	All      bool     // also events that nobody is to be alarmed by: in maintenance, and those that an outage of their group stands for
	Queue    uint32
	Endpoint uint32
	Paused   bool
}

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
	Types    string `bun:"types"`
	Reasons  string `bun:"reasons"`
	Group    string `bun:"grp"`
	Device   string `bun:"device"`
	All      int    `bun:"hushed"`
	Queue    uint32 `bun:"queue"`
	Endpoint uint32 `bun:"endpoint"`
	Paused   int    `bun:"paused"`
}

func (r *routeRow) value() Route {
	return Route{
		Num: r.Num, Name: r.Name, Types: listOf(r.Types), Reasons: listOf(r.Reasons), Group: r.Group, Device: r.Device,
		All: r.All != 0, Queue: r.Queue, Endpoint: r.Endpoint, Paused: r.Paused != 0,
	}
}

// listOf splits what strings.Join joined with commas.
func listOf(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// Settings are all queues, endpoints and routes, each by number.
type Settings struct {
	Queues    []Queue
	Endpoints []Endpoint
	Routes    []Route
}

// Settings reads all queues, endpoints and routes.
func (j *Jobs) Settings(ctx context.Context) (Settings, error) {
	var queues []queueRow
	var endpoints []endpointRow
	var routes []routeRow
	err := j.db.Read(ctx, "read queues, endpoints and routes", func(ctx context.Context, q *bun.DB) error {
		queues, endpoints, routes = nil, nil, nil
		return q.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
			if err := tx.NewSelect().Model(&queues).Order("num").Scan(ctx); err != nil {
				return err
			}
			if err := tx.NewSelect().Model(&endpoints).Order("num").Scan(ctx); err != nil {
				return err
			}
			return tx.NewSelect().Model(&routes).Order("num").Scan(ctx)
		})
	})
	if err != nil {
		return Settings{}, err
	}
	var s Settings
	for i := range queues {
		s.Queues = append(s.Queues, queues[i].value())
	}
	for i := range endpoints {
		s.Endpoints = append(s.Endpoints, endpoints[i].value())
	}
	for i := range routes {
		s.Routes = append(s.Routes, routes[i].value())
	}
	return s, nil
}

// MaxName is how many bytes the name of a queue, an endpoint or a route may have.
const MaxName = 64

// ValidateName says whether a name can be one of a queue, an endpoint or a route: no blanks, control characters, slashes or commas.
func ValidateName(name string) error {
	bad := func(c rune) bool {
		return unicode.IsSpace(c) || !unicode.IsPrint(c) || strings.ContainsRune("/,?#%", c)
	}
	if name == "" || len(name) > MaxName || !utf8.ValidString(name) || strings.ContainsFunc(name, bad) {
		return errkind.Errorf(ErrBadName, "%.80q is no name: want 1 to %d bytes, without blanks and / , ? # %%", name, MaxName)
	}
	return nil
}

// PutQueue makes a queue, or changes the one with its name, and returns its number.
func (j *Jobs) PutQueue(ctx context.Context, q Queue) (uint32, error) {
	if err := ValidateName(q.Name); err != nil {
		return 0, err
	}
	row := queueRow{
		Name: q.Name, Paused: sqldb.Bool(q.Paused), Concurrency: q.Concurrency, Rate: q.Rate, Attempts: q.Attempts,
		Backoff: int64(q.Backoff), MaxBackoff: int64(q.MaxBackoff), MaxAge: int64(q.MaxAge), MaxJobs: q.MaxJobs,
	}
	return put(ctx, j, "queues", q.Name, func(num uint32) any { row.Num = num; return &row }, nil)
}

// PutEndpoint makes an endpoint, or changes the one with its name, and returns its number.
func (j *Jobs) PutEndpoint(ctx context.Context, e Endpoint) (uint32, error) {
	if err := ValidateName(e.Name); err != nil {
		return 0, err
	}
	if len(e.Settings) == 0 {
		e.Settings = json.RawMessage("{}")
	}
	row := endpointRow{
		Name: e.Name, Kind: e.Kind, Target: e.Target, Settings: string(e.Settings), Disabled: sqldb.Bool(e.Disabled), Note: sqldb.Text(e.Note, maxJobError),
	}
	return put(ctx, j, "endpoints", e.Name, func(num uint32) any { row.Num = num; return &row }, nil)
}

// PutRoute makes a route, or changes the one with its name, and returns its number. Errors: ErrUnknown for a queue or an endpoint that is
// not there.
func (j *Jobs) PutRoute(ctx context.Context, r Route) (uint32, error) {
	if err := ValidateName(r.Name); err != nil {
		return 0, err
	}
	row := routeRow{
		Name: r.Name, Types: strings.Join(r.Types, ","), Reasons: strings.Join(r.Reasons, ","), Group: r.Group, Device: r.Device,
		All: sqldb.Bool(r.All), Queue: r.Queue, Endpoint: r.Endpoint, Paused: sqldb.Bool(r.Paused),
	}
	return put(ctx, j, "routes", r.Name, func(num uint32) any { row.Num = num; return &row }, func(ctx context.Context, tx sqldb.Tx) error {
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

// put inserts a row under a new number, or updates the one with its name.
func put(ctx context.Context, j *Jobs, table, name string, row func(num uint32) any, check func(context.Context, sqldb.Tx) error) (num uint32, err error) {
	err = j.write(ctx, "change the "+table, func(ctx context.Context, tx sqldb.Tx) error {
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
			num = nums[0]
			_, err := tx.NewUpdate().Model(row(num)).WherePK().Exec(ctx)
			return err
		}
		if err := tx.NewRaw("SELECT COALESCE(MAX(num), 0) + 1 FROM ?", bun.Ident(table)).Scan(ctx, &num); err != nil {
			return err
		}
		_, err := tx.NewInsert().Model(row(num)).Exec(ctx)
		return err
	})
	return num, err
}

// DeleteQueue deletes a queue. Errors: ErrUnknown; ErrInUse while it has jobs, dead letters among them, or a route leads to it.
func (j *Jobs) DeleteQueue(ctx context.Context, name string) error {
	return j.drop(ctx, "queues", "queue", name, "lane >= ? AND lane < ?", func(num uint32) []any {
		return []any{Lane{Queue: num}.code(), Lane{Queue: num + 1}.code()}
	})
}

// DeleteEndpoint deletes an endpoint. Errors: ErrUnknown; ErrInUse while it has jobs, dead letters among them, or a route leads to it.
func (j *Jobs) DeleteEndpoint(ctx context.Context, name string) error {
	return j.drop(ctx, "endpoints", "endpoint", name, "lane % 4294967296 = ?", func(num uint32) []any { return []any{num} })
}

// DeleteRoute deletes a route. Errors: ErrUnknown.
func (j *Jobs) DeleteRoute(ctx context.Context, name string) error {
	return j.drop(ctx, "routes", "", name, "", nil)
}

// drop deletes a row of a table if no route has it in a column, and no job has a lane that fits.
func (j *Jobs) drop(ctx context.Context, table, column, name, lanes string, args func(num uint32) []any) error {
	return j.write(ctx, "change the "+table, func(ctx context.Context, tx sqldb.Tx) error {
		var nums []uint32
		if err := tx.NewRaw("SELECT num FROM ? WHERE name = ?", bun.Ident(table), sqldb.Text(name, maxMessage)).Scan(ctx, &nums); err != nil {
			return err
		}
		if len(nums) == 0 {
			return errkind.Errorf(ErrUnknown, "there is no %.80q among the %s", name, table)
		}
		if column != "" {
			if err := inUse(ctx, tx, column, name, nums[0], lanes, args(nums[0])); err != nil {
				return err
			}
		}
		if table == "routes" { // another one may get its number
			if _, err := tx.NewRaw("DELETE FROM route_lanes WHERE route = ?", nums[0]).Exec(ctx); err != nil {
				return err
			}
		}
		_, err := tx.NewRaw("DELETE FROM ? WHERE num = ?", bun.Ident(table), nums[0]).Exec(ctx)
		return err
	})
}

func inUse(ctx context.Context, tx sqldb.Tx, column, name string, num uint32, lanes string, args []any) error {
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
			return errkind.Errorf(ErrInUse, "there are %s of the %s %q; wait until they are delivered, or remove them first", what, column, name)
		}
	}
	return nil
}
