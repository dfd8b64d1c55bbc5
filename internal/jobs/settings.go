package jobs

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/holter-iot/holter/internal/sqldb"
)

// Queue says how jobs are worked on.
type Queue struct {
	Num         uint32 // assigned by the store
	Name        string
	Paused      bool
	Concurrency int           // deliveries at a time
	Rate        float64       // deliveries per second; 0 for no limit
	Attempts    int           // after which a job becomes a dead letter
	Backoff     time.Duration // maximum wait before the first retry; it doubles with each retry
	MaxBackoff  time.Duration
	MaxAge      time.Duration // of a job, after which it becomes a dead letter
	MaxJobs     int64         // beyond which it accepts no more
}

// DefaultQueue is the name of the queue that always exists.
const DefaultQueue = "default"

// NewQueue returns a queue with the default settings.
func NewQueue(name string) Queue {
	return Queue{
		Name: name, Concurrency: 32, Attempts: 100, Backoff: time.Second, MaxBackoff: time.Hour, MaxAge: 72 * time.Hour, MaxJobs: 10_000_000,
	}
}

// Endpoint is a place that jobs are delivered to.
type Endpoint struct {
	Num      uint32 // assigned by the store
	Name     string
	Kind     string          // such as webhook
	Target   string          // such as a URL
	Settings json.RawMessage // of its kind
	Disabled bool
	Note     string // why it is disabled
	Queue    uint32 // of jobs that name no queue; 0 for DefaultQueue
}

// Route says which events become jobs of which queue and endpoint.
type Route struct {
	Num        uint32 // assigned by the store
	Name       string
	Types      Words  // of events; empty for all
	Reasons    Words  // empty for all
	Group      string // pattern; empty for all
	Device     string // pattern, and then only events of devices; empty for all
	Suppressed bool   // also suppressed events: of devices in maintenance, or in an outage of their group
	Queue      uint32
	Endpoint   uint32
	Paused     bool
}

// JobRoute says where jobs with a name go, as far as their senders leave that open, and how many of the
// deliveries of their queue and endpoint they have. Of several routes whose patterns match a name, the
// one with the longest pattern counts.
type JobRoute struct {
	Num      uint32 // assigned by the store
	Name     string
	Jobs     string // pattern of their names
	Queue    uint32 // 0: that of the endpoint
	Endpoint uint32 // for jobs without an endpoint or a URL; 0 for none
	Weight   int    // turns of a name, beside 1 of a name without a route
}

// Words are words without commas, which separate them in a column.
type Words []string

// Value implements [driver.Valuer].
func (w Words) Value() (driver.Value, error) { return strings.Join(w, ","), nil }

// Scan implements [sql.Scanner].
func (w *Words) Scan(src any) error {
	var text sql.NullString
	if err := text.Scan(src); err != nil || text.String == "" {
		*w = nil
		return err
	}
	*w = strings.Split(text.String, ",")
	return nil
}

// Settings are all queues, endpoints, routes and job routes, each by number.
type Settings struct {
	Queues    []Queue
	Endpoints []Endpoint
	Routes    []Route
	JobRoutes []JobRoute
}

// Load returns all settings. From then on events become jobs by these routes.
func (s *Store) Load(ctx context.Context) (Settings, error) {
	var out Settings
	err := s.db.ReadTx(ctx, "read queues, endpoints and routes", func(ctx context.Context, q sqldb.Reader) error {
		var errs [4]error
		out.Queues, errs[0] = readSettings(ctx, q, "queues", (*Queue).fields)
		out.Endpoints, errs[1] = readSettings(ctx, q, "endpoints", (*Endpoint).fields)
		out.Routes, errs[2] = readSettings(ctx, q, "routes", (*Route).fields)
		out.JobRoutes, errs[3] = readSettings(ctx, q, "job_routes", (*JobRoute).fields)
		return cmp.Or(errs[:]...)
	})
	if err != nil {
		return Settings{}, err
	}
	t, err := newTable(&out, s.router.needs)
	if err != nil {
		return Settings{}, err
	}
	route := routeFunc(t.route)
	s.router.route.Store(&route)
	return out, nil
}

// MaxName is the maximum length of the name of a queue, an endpoint or a route in bytes.
const MaxName = 64

// ValidateName returns an error for what cannot be the name of a queue, an endpoint or a route.
// Errors: ErrBad.
func ValidateName(name string) error {
	isBad := func(c rune) bool {
		return unicode.IsSpace(c) || !unicode.IsPrint(c) || strings.ContainsRune("/,?#%", c)
	}
	if name == "" || len(name) > MaxName || !utf8.ValidString(name) || strings.ContainsFunc(name, isBad) {
		return bad("%.80q is no name: want 1 to %d bytes, without blanks and / , ? # %%", name, MaxName)
	}
	return nil
}

// Validate returns an error for settings that cannot be. Errors: ErrBad.
func (q *Queue) Validate() error {
	var errs []error
	reject := func(isBad bool, format string, args ...any) {
		if isBad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	reject(q.Concurrency < 1 || q.Concurrency > 10_000, "concurrency is %d, want 1 to 10,000", q.Concurrency)
	reject(!(q.Rate == 0 || q.Rate >= 0.001 && q.Rate <= 1e6), "rate is %v, want 0.001 to 1,000,000 per second, or 0 for no limit", q.Rate)
	reject(q.Attempts < 1 || q.Attempts > 10_000, "attempts is %d, want 1 to 10,000", q.Attempts)
	reject(q.Backoff < time.Millisecond || q.Backoff > 24*time.Hour, "backoff is %v, want 1 ms to 24 h", q.Backoff)
	reject(q.MaxBackoff < q.Backoff || q.MaxBackoff > 30*24*time.Hour, "max_backoff is %v, want %v (the first one) to 30 days", q.MaxBackoff, q.Backoff)
	reject(q.MaxAge < time.Second || q.MaxAge > 365*24*time.Hour, "max_age is %v, want 1 s to 365 days", q.MaxAge)
	reject(q.MaxJobs < 1 || q.MaxJobs > 1e12, "max_jobs is %d, want 1 or more", q.MaxJobs)
	if len(errs) > 0 {
		return bad("%w", errors.Join(errs...))
	}
	return ValidateName(q.Name)
}

const (
	maxPattern = 255 // bytes
	maxList    = 32  // entries
)

// ValidateEvents returns an error for a selection of events that cannot be. Errors: ErrBad.
func (r *Route) ValidateEvents() error {
	if _, err := compile(r); err != nil {
		return err
	}
	if len(r.Types) > maxList || len(r.Reasons) > maxList {
		return bad("a route takes at most %d types and %d reasons", maxList, maxList)
	}
	return errors.Join(checkPattern(r.Group), checkPattern(r.Device))
}

func checkPattern(pattern string) error {
	if len(pattern) > maxPattern || !utf8.ValidString(pattern) || strings.ContainsFunc(pattern, unicode.IsControl) {
		return bad("the pattern %.80q is too long, or has control characters", pattern)
	}
	return nil
}
