package delivery

import (
	"context"
	"time"

	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/liveness"
)

// Tracer traces deliveries of events. Its methods are called concurrently, and must not block.
type Tracer interface {
	// Event returns the traceparent of an event, which its message has, or "" for none. It is the same
	// whenever and wherever it is asked for.
	Event(ev *liveness.Event) string
	// Attempt returns the traceparent of an attempt to deliver an event, or "" for none. Attempts of a job
	// are numbered from 1 on.
	Attempt(ev *liveness.Event, job uint64, number int) string
	// Delivered reports an attempt, once its outcome is decided and before it is acked.
	Delivered(a Attempt)
}

// Attempt is an attempt to deliver an event.
type Attempt struct {
	Event           *liveness.Event // must not be changed
	Job             uint64
	Number          int // of the job's attempts, from 1 on
	Queue, Endpoint string
	Taken           time.Time // when the job was taken from its queue, in this process
	Began, Ended    time.Time
	Outcome         jobs.Outcome
	Status          int    // of the response; 0 if there was none
	Error           string // empty if it was delivered
}

// report logs a delivery, and tells the tracer of it.
func (e *Engine) report(ctx context.Context, q string, p *endpoint, it *item, ack *jobs.Ack, began, ended time.Time) {
	if ack.Outcome == jobs.Postpone { // which was no attempt
		return
	}
	e.config.Logger.DebugContext(ctx, "a delivery has ended", "job", it.job.ID, "name", it.job.Name, "queue", q, "endpoint", p.Name,
		"attempt", it.job.Attempts+1, "took", ended.Sub(began), "error", ack.Error)
	if e.config.Tracer == nil || it.event == nil {
		return
	}
	e.config.Tracer.Delivered(Attempt{
		Event: it.event, Job: it.job.ID, Number: it.job.Attempts + 1, Queue: q, Endpoint: p.Name, Taken: it.taken, Began: began, Ended: ended,
		Outcome: ack.Outcome, Status: ack.Status, Error: ack.Error,
	})
}
