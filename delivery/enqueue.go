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

	"github.com/holter-iot/holter/delivery/webhook"
	"github.com/holter-iot/holter/internal/errkind"
	"github.com/holter-iot/holter/jobs"
)

// ErrFull is wrapped by the error of [Engine.Enqueue] for a queue that has as many jobs as it may.
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
}

const (
	// MaxBody is the maximum size of the body of a job in bytes.
	MaxBody = jobs.MaxBody

	maxKey = 200 // bytes, also of a name
	// maxTogether is the maximum number of jobs that one transaction makes.
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
// idempotency key is not made within a day: the number of the first one is returned. Errors:
// [jobs.ErrBad], [jobs.ErrUnknown], ErrFull.
func (e *Engine) Enqueue(ctx context.Context, r Request) (uint64, error) {
	q, spec, err := e.spec(r)
	if err != nil {
		return 0, err
	}
	if n := e.depths()[q.Num]; n >= q.MaxJobs {
		return 0, fmt.Errorf("%w: %q has %d jobs", ErrFull, q.Name, n)
	}
	job := enqueued{spec: spec}
	if err := e.enqueuing.Add(ctx, &job); err != nil {
		return 0, err
	}
	return job.id, nil
}

// spec checks a request, and returns the queue that its job would have now, and the job.
func (e *Engine) spec(r Request) (jobs.Queue, jobs.Spec, error) {
	q, lane, err := e.lane(r)
	return q, jobs.Spec{
		Lane: lane, Route: true, RunAt: r.RunAt, Unique: r.Unique,
		Body: jobs.Body{
			Key: r.Key, Name: r.Name, URL: r.URL, ContentType: "application/json", Data: r.Body, Created: latest(r.RunAt, time.Now()), Deadline: r.Deadline,
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

// enqueued is a job that is to be made, and its number once it was.
type enqueued struct {
	spec jobs.Spec
	id   uint64
}

// enqueue makes jobs, all or none.
func (e *Engine) enqueue(ctx context.Context, list []*enqueued) error {
	specs := make([]jobs.Spec, len(list))
	for i := range list {
		specs[i] = list[i].spec
	}
	ids, err := e.jobs.Enqueue(ctx, specs)
	if err != nil {
		return err
	}
	for i := range list {
		list[i].id = ids[i]
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
	case !r.RunAt.IsZero() && r.RunAt.Unix() < 0:
		return bad("the time to run at, %s, lies before 1970: want one that is to come, or leave run_at out to run at once", r.RunAt.Format(time.RFC3339))
	case r.RunAt.After(now.Add(10 * 365 * 24 * time.Hour)):
		return bad("the time to run at, %s, is more than ten years away: want one before that", r.RunAt.Format(time.RFC3339))
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
