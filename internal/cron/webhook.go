package cron

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holter-iot/holter/internal/delivery"
	"github.com/holter-iot/holter/internal/jobs"
)

// target is a destination of deliveries.
type target struct {
	Endpoint string `json:"endpoint,omitempty"`
	URL      string `json:"url,omitempty"`
	Queue    string `json:"queue,omitempty"`
}

func (t *target) given() bool { return *t != target{} }

func (t *target) request(body json.RawMessage) delivery.Request {
	return delivery.Request{Endpoint: t.Endpoint, URL: t.URL, Queue: t.Queue, Body: body}
}

func (t *target) check(e *Engine, body json.RawMessage) error {
	if err := e.delivery.Check(t.request(body)); err != nil {
		return bad("settings: %w", err)
	}
	return nil
}

// send creates a job, once for each run and what, and returns the outcome. It retries when the
// database fails.
func (t *target) send(ctx context.Context, e *Engine, run *claimedRun, what string, body any) outcome {
	data, err := json.Marshal(body)
	if err != nil {
		return failed("write the body: %w", err)
	}
	r := t.request(data)
	r.Unique = fmt.Sprintf("schedule:%s:%d%s", run.Name, run.ID, what)
	var job uint64
	var answer error
	_, err = e.insist(ctx, func(ctx context.Context) (bool, error) {
		var err error
		job, err = e.delivery.Enqueue(ctx, r)
		if errors.Is(err, jobs.ErrBad) || errors.Is(err, delivery.ErrFull) || errors.Is(err, jobs.ErrUnknown) {
			answer, err = err, nil
		}
		return true, err
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return outcome{State: Idle, Error: err.Error()}
	case err != nil:
		return failed("%w", err)
	case answer != nil:
		return failed("%w", answer)
	}
	return outcome{State: Done, Output: fmt.Sprintf("job %d", job)}
}

// webhook is the action that delivers a body.
type webhook struct {
	target

	// Body is the body to deliver. Default: an [about].
	Body json.RawMessage `json:"body,omitempty"`
}

// about identifies the run that a message is from.
type about struct {
	Schedule  string    `json:"schedule"`
	Run       uint64    `json:"run"` // the same for each start of the run
	Number    uint64    `json:"number"`
	Scheduled time.Time `json:"scheduled"`
	Manual    bool      `json:"manual,omitempty"`
}

func aboutOf(run *claimedRun) about {
	return about{Schedule: run.Name, Run: run.ID, Number: run.Number, Scheduled: run.Scheduled.UTC(), Manual: run.Manual}
}

func (w *webhook) check(e *Engine) error {
	body := w.Body
	if body == nil {
		body = json.RawMessage("{}")
	}
	return w.target.check(e, body)
}

func (w *webhook) do(ctx, _ context.Context, e *Engine, run *claimedRun) outcome {
	if w.Body != nil {
		return w.send(ctx, e, run, "", w.Body)
	}
	return w.send(ctx, e, run, "", aboutOf(run))
}
