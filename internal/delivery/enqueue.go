package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/holter-iot/holter/internal/delivery/webhook"
	"github.com/holter-iot/holter/internal/errkind"
	"github.com/holter-iot/holter/internal/jobs"
)

// ErrFull is wrapped by the errors of [Engine.Enqueue] and [Engine.EnqueueAll] for a queue that has as
// many jobs as it may.
var ErrFull = errors.New("delivery: the queue is full")

// Request asks for a job.
type Request struct {
	Name     string          // by which the jobs of a queue and endpoint take turns, and find their job route; empty for none
	Queue    string          // default: that of the job route, else that of the endpoint, else jobs.DefaultQueue
	Endpoint string          // where to deliver; or
	URL      string          // where to deliver; without both, the job route must have an endpoint
	Body     json.RawMessage // required
	RunAt    time.Time       // zero: at once
	Deadline time.Time       // after which it becomes a dead letter; zero: the maximum age of the queue
	Key      string          // ordering key; empty for none
	Unique   string          // idempotency key; empty for none
	Window   time.Duration   // for how long it counts; at most and by default (zero) a day
	// Debounce makes a job with an idempotency key that is delivered a Window, at most 2 h, after the last
	// request with that key, with the content of that one, and within ten windows after the first.
	Debounce bool
	Priority jobs.Priority
}

const (
	// MaxBody is the maximum size of the body of a job in bytes.
	MaxBody = jobs.MaxBody

	// MaxBulk is the maximum number of jobs of one call of [Engine.EnqueueAll].
	MaxBulk = 1000
	// MaxBulkBodies is the maximum size of their bodies together in bytes.
	MaxBulkBodies = 8 << 20

	maxKey = 200 // bytes, also of a name

	maxWindow   = 24 * time.Hour
	maxDebounce = 2 * time.Hour // so that the key is known until the job is delivered
	// maxTogether is the maximum number of jobs that one transaction makes, unless they are of one call.
	maxTogether = 100
	// lastYear is the last one of a deadline: the database has nanoseconds since 1970, which end in
	// 2262.
	lastYear = 2261
)

// Check returns the error that [Engine.Enqueue] would return now, except for ErrFull.
func (e *Engine) Check(r Request) error {
	_, _, err := e.lane(r)
	return err
}

// Enqueue makes a job, and returns its number once it is committed. A second job with the same
// idempotency key is not made within its window: the number of the first one is returned. Errors:
// [jobs.ErrBad], [jobs.ErrUnknown], ErrFull.
func (e *Engine) Enqueue(ctx context.Context, r Request) (uint64, error) {
	ids, err := e.EnqueueAll(ctx, []Request{r})
	if one, ok := errors.AsType[*jobs.SpecError](err); ok {
		return 0, one.Err
	}
	if err != nil {
		return 0, err
	}
	return ids[0], nil
}

// EnqueueAll makes 1 to [MaxBulk] jobs in one transaction, all or none, and returns their numbers in
// the order of the requests. Errors: those of [Engine.Enqueue], in a [jobs.SpecError].
func (e *Engine) EnqueueAll(ctx context.Context, list []Request) ([]uint64, error) {
	if len(list) < 1 || len(list) > MaxBulk {
		return nil, bad("there are %d jobs, want 1 to %d", len(list), MaxBulk)
	}
	b := batch{specs: make([]jobs.Spec, len(list))}
	depths, size := e.depths(), 0
	for i, r := range list {
		q, spec, err := e.spec(r)
		if size += len(r.Body); err == nil && size > MaxBulkBodies {
			err = bad("the bodies up to this one have %d bytes together, want %d at most", size, MaxBulkBodies)
		}
		if n := depths[q.Num]; err == nil && n >= q.MaxJobs {
			err = fmt.Errorf("%w: %q has %d jobs, with those before this one", ErrFull, q.Name, n)
		}
		if err != nil {
			return nil, &jobs.SpecError{Index: i, Err: err}
		}
		depths[q.Num]++
		b.specs[i] = spec
	}
	if err := e.enqueuing.Add(ctx, &b); err != nil {
		return nil, err
	}
	return b.ids, b.err
}

// spec checks a request, and returns the queue that its job would have now, and the job.
func (e *Engine) spec(r Request) (jobs.Queue, jobs.Spec, error) {
	q, lane, err := e.lane(r)
	now := time.Now()
	if r.Debounce {
		r.RunAt = now.Add(r.Window)
	}
	return q, jobs.Spec{
		Lane: lane, Route: true, RunAt: r.RunAt, Unique: r.Unique, Window: r.Window, Debounce: r.Debounce,
		Body: jobs.Body{
			Key: r.Key, Name: r.Name, Priority: r.Priority, URL: r.URL, ContentType: "application/json", Data: r.Body, Created: latest(r.RunAt, now),
			Deadline: r.Deadline,
		},
	}, err
}

// lane checks a request, and returns the queue that its job would have now, and the lane as far as the
// request names it.
func (e *Engine) lane(r Request) (q jobs.Queue, lane jobs.Lane, err error) {
	if err := r.check(time.Now()); err != nil {
		return q, lane, err
	}
	if r.Queue != "" {
		if q, err = e.Queue(r.Queue); err != nil {
			return q, lane, err
		}
		lane.Queue = q.Num
	}
	if r.Endpoint != "" {
		p, err := e.Endpoint(r.Endpoint)
		if err != nil {
			return q, lane, err
		}
		lane.Endpoint = p.Num
	}
	settings := e.Settings()
	to, err := settings.LaneOf(r.Name, lane, r.URL != "")
	if err != nil {
		return q, lane, err
	}
	i := slices.IndexFunc(settings.Queues, func(q jobs.Queue) bool { return q.Num == to.Queue })
	if i < 0 {
		return q, lane, errkind.Errorf(jobs.ErrUnknown, "the queue was deleted")
	}
	return settings.Queues[i], lane, nil
}

// depths returns how many jobs each queue has.
func (e *Engine) depths() map[uint32]int64 {
	depths := make(map[uint32]int64)
	for lane, n := range e.jobs.Depths() {
		depths[lane.Queue] += n
	}
	return depths
}

// batch is jobs that are to be made together, all or none.
type batch struct {
	specs []jobs.Spec
	ids   []uint64 // their numbers, once they were made
	err   error    // why they cannot be
}

// enqueue makes the jobs of batches in one transaction. A batch with a job that cannot be made does not
// keep the others from being made.
func (e *Engine) enqueue(ctx context.Context, list []*batch) error {
	err := e.enqueueTogether(ctx, list)
	if !errkind.Is(err) {
		return err
	}
	for i := range list {
		list[i].err = e.enqueueTogether(ctx, list[i:i+1])
	}
	return nil
}

func (e *Engine) enqueueTogether(ctx context.Context, list []*batch) error {
	var specs []jobs.Spec
	for _, b := range list {
		specs = append(specs, b.specs...)
	}
	ids, err := e.jobs.Enqueue(ctx, specs)
	if err != nil {
		return err
	}
	for _, b := range list {
		b.ids, ids = ids[:len(b.specs)], ids[len(b.specs):]
	}
	return nil
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (r *Request) check(now time.Time) error {
	switch {
	case r.Endpoint != "" && r.URL != "":
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
	}
	if err := jobs.CheckRunAt(r.RunAt, now); err != nil {
		return err
	}
	if err := r.checkWindow(now); err != nil {
		return err
	}
	for what, key := range map[string]string{"ordering key": r.Key, "idempotency key": r.Unique, "name": r.Name} {
		if len(key) > maxKey || !utf8.ValidString(key) || strings.ContainsFunc(key, unicode.IsControl) {
			return bad("the %s is too long (%d bytes, want %d at most), or has control characters", what, len(key), maxKey)
		}
	}
	if r.URL != "" {
		if err := webhook.CheckURL(r.URL); err != nil {
			return bad("%w", err)
		}
	}
	return nil
}

// checkWindow checks what belongs to the idempotency key.
func (r *Request) checkWindow(now time.Time) error {
	switch {
	case r.Window < 0 || r.Window > maxWindow:
		return bad("the window %v is out of range: want up to %v, or leave it out for a day", r.Window, maxWindow)
	case r.Unique == "" && (r.Window != 0 || r.Debounce):
		return bad("a window, and to debounce, need an idempotency key: give one, or leave them out")
	case !r.Debounce:
		return nil
	case r.Window == 0 || r.Window > maxDebounce:
		return bad("the window of a debounced job is %v: want one above 0, and up to %v", r.Window, maxDebounce)
	case !r.RunAt.IsZero():
		return bad("a debounced job runs a window after the last request: leave run_at out")
	case !r.Deadline.IsZero() && !r.Deadline.After(now.Add(r.Window)):
		return bad("the deadline %s is not after the window, in which a debounced job waits", r.Deadline.Format(time.RFC3339))
	}
	return nil
}
