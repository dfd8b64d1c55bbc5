package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/holter-iot/holter/delivery/webhook"
	"github.com/holter-iot/holter/internal/errkind"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/store"
)

var (
	// ErrBad is wrapped by errors that say what is wrong with what was asked for.
	ErrBad = errors.New("delivery: bad request")
	// ErrFull is returned for a job whose queue has as many as it may have.
	ErrFull = errors.New("delivery: the queue is full")
)

func bad(format string, args ...any) error {
	return errkind.Errorf(ErrBad, format, args...)
}

// DefaultQueue is the name of the queue that is always there.
const DefaultQueue = "default"

// NewQueue returns a queue with the settings that one has by default.
func NewQueue(name string) store.Queue {
	return store.Queue{
		Name: name, Concurrency: 32, Attempts: 100, Backoff: time.Second, MaxBackoff: time.Hour, MaxAge: 72 * time.Hour, MaxJobs: 10_000_000,
	}
}

// Settings returns all queues, endpoints and routes.
func (e *Engine) Settings() store.Settings {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return store.Settings{
		Queues: slices.Clone(e.settings.Queues), Endpoints: slices.Clone(e.settings.Endpoints), Routes: slices.Clone(e.settings.Routes),
	}
}

// Queue returns a queue by name. Errors: store.ErrUnknown.
func (e *Engine) Queue(name string) (store.Queue, error) {
	return named(e.Settings().Queues, name, "queue", func(q *store.Queue) string { return q.Name })
}

// Endpoint returns an endpoint by name. Errors: store.ErrUnknown.
func (e *Engine) Endpoint(name string) (store.Endpoint, error) {
	return named(e.Settings().Endpoints, name, "endpoint", func(p *store.Endpoint) string { return p.Name })
}

// Route returns a route by name. Errors: store.ErrUnknown.
func (e *Engine) Route(name string) (store.Route, error) {
	return named(e.Settings().Routes, name, "route", func(r *store.Route) string { return r.Name })
}

func named[T any](list []T, name, what string, nameOf func(*T) string) (T, error) {
	for i := range list {
		if nameOf(&list[i]) == name {
			return list[i], nil
		}
	}
	var none T
	return none, errkind.Errorf(store.ErrUnknown, "there is no %s %.80q", what, name)
}

// change changes something in the database, and makes it count, even if who asked for it has gone meanwhile.
func (e *Engine) change(ctx context.Context, do func() error) error {
	e.admin.Lock()
	defer e.admin.Unlock()
	if e.stale { // do starts from what counts
		if err := e.reload(ctx); err != nil {
			return err
		}
	}
	err := do()
	switch {
	case errors.Is(err, store.ErrBadName):
		return bad("%w", err)
	case errors.Is(err, ErrBad), errors.Is(err, store.ErrUnknown), errors.Is(err, store.ErrInUse):
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience) // after another error, too: it may have been changed
	defer cancel()
	if failed := e.reload(ctx); err == nil {
		err = failed
	}
	return err
}

// PutQueue makes a queue, or changes the one with its name. Errors: ErrBad.
func (e *Engine) PutQueue(ctx context.Context, q store.Queue) error {
	if err := checkQueue(&q); err != nil {
		return err
	}
	return e.change(ctx, func() error {
		_, err := e.jobs.PutQueue(ctx, q)
		return err
	})
}

func checkQueue(q *store.Queue) error {
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
	return nil
}

// PauseQueue lets no delivery of a queue begin any more, or lets them begin again. Its jobs stay.
func (e *Engine) PauseQueue(ctx context.Context, name string, paused bool) error {
	return e.change(ctx, func() error {
		q, err := e.Queue(name)
		if err != nil {
			return err
		}
		q.Paused = paused
		_, err = e.jobs.PutQueue(ctx, q)
		return err
	})
}

// PutEndpoint makes an endpoint, or changes the one with its name: without Settings it keeps those that it has, and so it does with secrets
// that are [Hidden], unless it is to deliver to another place. Disabled and Note of one that is there stay. Errors: ErrBad.
func (e *Engine) PutEndpoint(ctx context.Context, p store.Endpoint) error {
	return e.change(ctx, func() error {
		old, err := e.Endpoint(p.Name)
		if err == nil {
			p.Disabled, p.Note = old.Disabled, old.Note
		}
		if err := withSecrets(&p, &old); err != nil {
			return err
		}
		if err := e.checkEndpoint(&p); err != nil {
			return err
		}
		_, err = e.jobs.PutEndpoint(ctx, p)
		return err
	})
}

func (e *Engine) checkEndpoint(p *store.Endpoint) error {
	if len(p.Settings) > 64<<10 {
		return bad("the settings have %d bytes, want 65,536 at most", len(p.Settings))
	}
	s, err := e.newSink(p)
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		return bad("%w", err)
	}
	return nil
}

// EnableEndpoint lets an endpoint be delivered to again, or not any more. Its jobs wait while it is disabled, and events make no new ones.
func (e *Engine) EnableEndpoint(ctx context.Context, name string, enabled bool, note string) error {
	return e.change(ctx, func() error {
		p, err := e.Endpoint(name)
		if err != nil {
			return err
		}
		p.Disabled, p.Note = !enabled, note
		_, err = e.jobs.PutEndpoint(ctx, p)
		return err
	})
}

// gone disables an endpoint that said that it wants nothing any more.
func (e *Engine) gone(ctx context.Context, p *endpoint, why string) {
	now, err := e.Endpoint(p.Name)
	if err != nil || now.Disabled || now.Target != p.Target {
		return // somebody has changed it
	}
	if err := e.EnableEndpoint(ctx, p.Name, false, why); err != nil {
		e.config.Logger.ErrorContext(ctx, "an endpoint wants nothing any more, and cannot be disabled", "endpoint", p.Name, "error", err)
		return
	}
	e.config.Logger.WarnContext(ctx, "an endpoint wants nothing any more and is disabled; its jobs wait", "endpoint", p.Name, "why", why)
}

// maxPattern is how many bytes a pattern, maxList how many entries a list of a route may have.
const (
	maxPattern = 255
	maxList    = 32
)

// PutRoute makes a route, or changes the one with its name. If it leads to another queue or
// endpoint than before, its jobs there wait for those with the same ordering keys that are not done
// where it led before. Errors: ErrBad, store.ErrUnknown for a queue or an endpoint that is not
// there.
func (e *Engine) PutRoute(ctx context.Context, r store.Route) error {
	if err := CheckRoute(r); err != nil {
		return err
	}
	return e.change(ctx, func() error {
		old, unknown := e.Route(r.Name)
		if _, err := e.jobs.PutRoute(ctx, r); err != nil {
			return err
		}
		before, now := store.Lane{Queue: old.Queue, Endpoint: old.Endpoint}, store.Lane{Queue: r.Queue, Endpoint: r.Endpoint}
		if n := e.jobs.Depths()[before]; unknown == nil && before != now && n > 0 {
			e.config.Logger.InfoContext(ctx, "a route was moved while jobs wait where it led before; newer ones with their ordering keys wait for them",
				"route", r.Name, "jobs", n)
		}
		return nil
	})
}

// PauseRoute lets a route create no jobs, or create them again. Errors: store.ErrUnknown.
func (e *Engine) PauseRoute(ctx context.Context, name string, paused bool) error {
	return e.change(ctx, func() error {
		r, err := e.Route(name)
		if err != nil {
			return err
		}
		r.Paused = paused
		_, err = e.jobs.PutRoute(ctx, r)
		return err
	})
}

// DeleteQueue deletes a queue. Errors: store.ErrUnknown, store.ErrInUse; ErrBad for the one that is always there.
func (e *Engine) DeleteQueue(ctx context.Context, name string) error {
	if name == DefaultQueue {
		return bad("the queue %q is always there", name)
	}
	return e.change(ctx, func() error { return e.jobs.DeleteQueue(ctx, name) })
}

// DeleteEndpoint deletes an endpoint. Errors: store.ErrUnknown, store.ErrInUse.
func (e *Engine) DeleteEndpoint(ctx context.Context, name string) error {
	return e.change(ctx, func() error { return e.jobs.DeleteEndpoint(ctx, name) })
}

// DeleteRoute deletes a route; its jobs stay. Errors: store.ErrUnknown.
func (e *Engine) DeleteRoute(ctx context.Context, name string) error {
	return e.change(ctx, func() error { return e.jobs.DeleteRoute(ctx, name) })
}

// Request asks for a job.
type Request struct {
	Queue    string          // empty: the one that is always there
	Endpoint string          // where to; or
	URL      string          // where to
	Body     json.RawMessage // required
	RunAt    time.Time       // zero: at once
	Deadline time.Time       // after which it is a dead letter; zero: the queue's maximum age
	Key      string          // ordering key; empty for none
	Unique   string          // idempotency key; empty for none
}

// MaxBody is how many bytes the body of a job may have.
const MaxBody = 1 << 20

// maxKey is how many bytes a key may have.
const maxKey = 200

// Remove removes the jobs that a filter chooses for good, and says how many there were. One that is being delivered may arrive nevertheless.
func (e *Engine) Remove(ctx context.Context, filter store.JobFilter) (int, error) {
	n, err := e.jobs.Remove(ctx, filter)
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, q := range e.queues { // what is in memory is claimed again, if it is still there
		q.mu.Lock()
		q.returnLocked()
		q.mu.Unlock()
		q.signal()
	}
	return n, err
}

// Hasten lets jobs in some lanes that failed be tried again at once, whatever their receivers asked for, and says how many.
func (e *Engine) Hasten(ctx context.Context, lanes []store.Lane) (int, error) {
	n, err := e.jobs.Hasten(ctx, lanes)
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, id := range lanes {
		if q := e.queues[id.Queue]; q != nil {
			q.hasten(id)
		}
	}
	return n, err
}

// Enqueue makes a job, and returns its number once it is safe. A second one with the same idempotency key within a day is not made; the
// number of the first is returned. Errors: ErrBad, ErrFull, store.ErrUnknown.
func (e *Engine) Enqueue(ctx context.Context, r Request) (uint64, error) {
	q, lane, err := e.lane(r)
	if err != nil {
		return 0, err
	}
	if depth := e.depth(q.Num); depth >= q.MaxJobs {
		return 0, fmt.Errorf("%w: %q has %d jobs", ErrFull, q.Name, depth)
	}
	job := enqueued{job: store.NewJob{
		Lane: lane, RunAt: r.RunAt, Unique: r.Unique,
		JobBody: store.JobBody{
			Key: r.Key, URL: r.URL, ContentType: "application/json", Data: r.Body, Created: later(r.RunAt, time.Now()), Deadline: r.Deadline,
		},
	}}
	if err := e.enqueuing.Add(ctx, &job); err != nil {
		return 0, err
	}
	return job.id, nil
}

// enqueued is a job that is to be made, and then its number.
type enqueued struct {
	job store.NewJob
	id  uint64
}

// maxTogether is how many jobs are made in one transaction at most.
const maxTogether = 100

// enqueue makes jobs, all or none.
func (e *Engine) enqueue(ctx context.Context, list []*enqueued) error {
	jobs := make([]store.NewJob, len(list))
	for i := range list {
		jobs[i] = list[i].job
	}
	ids, err := e.jobs.Enqueue(ctx, jobs)
	if err != nil {
		return err
	}
	for i := range list {
		list[i].id = ids[i]
	}
	return nil
}

// lastYear is the last one that a deadline may be in: the store counts nanoseconds since 1970, which end in 2262.
const lastYear = 2261

// later returns the later instant: the age of a job counts from when it was to run.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (r *Request) check(now time.Time) error {
	switch {
	case (r.Endpoint == "") == (r.URL == ""):
		return bad("a job needs a URL or the name of an endpoint, and not both")
	case len(r.Body) > MaxBody:
		return bad("the body has %d bytes, want %d at most", len(r.Body), MaxBody)
	case !json.Valid(r.Body):
		return bad("the body is not JSON")
	case !r.Deadline.IsZero() && (!r.Deadline.After(now) || !r.Deadline.After(r.RunAt)):
		return bad("the deadline %s has passed, or is not after the time to run at", r.Deadline.Format(time.RFC3339))
	case !r.Deadline.IsZero() && r.Deadline.UTC().Year() > lastYear:
		return bad("the deadline %s is too far ahead: want the year %d or before, or leave deadline out, and only the age that the queue allows counts",
			r.Deadline.Format(time.RFC3339), lastYear)
	case !r.RunAt.IsZero() && r.RunAt.Unix() < 0:
		return bad("the time to run at, %s, lies before 1970: want one that is to come, or leave run_at out to run at once", r.RunAt.Format(time.RFC3339))
	case r.RunAt.After(now.Add(10 * 365 * 24 * time.Hour)):
		return bad("the time to run at, %s, is more than ten years away: want one before that", r.RunAt.Format(time.RFC3339))
	}
	for what, key := range map[string]string{"ordering": r.Key, "idempotency": r.Unique} {
		if len(key) > maxKey || !utf8.ValidString(key) || !printable(key) {
			return bad("the %s key is too long (%d bytes, want %d at most), or has control characters", what, len(key), maxKey)
		}
	}
	if r.URL != "" {
		if err := webhook.CheckURL(r.URL); err != nil {
			return bad("%w", err)
		}
	}
	return nil
}

func printable(text string) bool {
	for _, c := range text {
		if unicode.IsControl(c) {
			return false
		}
	}
	return true
}

// depth returns how many jobs a queue has.
func (e *Engine) depth(queue uint32) (n int64) {
	for lane, jobs := range e.jobs.Depths() {
		if lane.Queue == queue {
			n += jobs
		}
	}
	return n
}

// EventTypes returns the names of the types of events that a route may choose.
func EventTypes() []string {
	var names []string
	for t := range liveness.Type(64) {
		if name := t.String(); name != "invalid" {
			names = append(names, name)
		}
	}
	return names
}
