package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holter-iot/holter/delivery/sink"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/cloudevent"
	"github.com/holter-iot/holter/store"
)

// errResults is the error of a sink that breaks its contract.
var errResults = errors.New("delivery: the sink returned another number of results than it was given messages")

// panicError is a panic of a sink.
type panicError struct{ value any }

func (e panicError) Error() string { return fmt.Sprintf("delivery: the sink panicked: %v", e.value) }

// notRead is how long a job waits of which it cannot be read what it delivers.
const notRead = time.Second

// prepare makes the message of a job, or says what becomes of it without one.
func (e *Engine) prepare(ctx context.Context, it *item, p *policy, now time.Time) (sink.Message, attempt, *store.Outcome) {
	a := attempt{before: it.job.Attempts}
	m, err := e.message(ctx, it)
	switch {
	case errors.Is(err, store.ErrUnknown): // somebody removed it
		return m, a, &store.Outcome{Verdict: store.Done}
	case errors.Is(err, errGone):
		return m, a, &store.Outcome{Verdict: store.Dead, Error: err.Error()}
	case err != nil:
		return m, a, &store.Outcome{Verdict: store.Postpone, RunAt: now.Add(notRead), Error: err.Error()}
	}
	m.Job = it.job.ID
	if len(m.Data) == 0 { // it was a dead letter that knew nothing but its lane
		return m, a, &store.Outcome{Verdict: store.Dead, Error: errNothing.Error(), Body: bodyOf(&m, it)}
	}
	if it.job.Body == nil {
		a.created = it.event.Time
	} else {
		a.created, a.deadline = it.job.Body.Created, it.job.Body.Deadline
	}
	if why := p.expired(a, now); why != "" {
		return m, a, &store.Outcome{Verdict: store.Dead, Error: why, Body: bodyOf(&m, it)}
	}
	return m, a, nil
}

// errGone is the error of a job whose event is not kept any more.
var errGone = errors.New("its event is not kept any more")

// errNothing is the error of a job that has nothing to deliver.
var errNothing = errors.New("there is nothing to deliver: its event was not kept until it became a dead letter")

// describe returns what the job of an event delivers, for the dead letter that it becomes when the
// event is about to be removed.
func (e *Engine) describe(lane store.Lane, ev *liveness.Event) (store.JobBody, error) {
	m, err := e.eventMessage(ev)
	if err != nil {
		return store.JobBody{}, err
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	if q := e.queues[lane.Queue]; q != nil {
		q.dead.Add(1)
	}
	e.outlived.Add(1)
	return bodyOf(&m, &item{event: ev}), nil
}

// message makes the message of a job. What was not read with the claim is read now.
func (e *Engine) message(ctx context.Context, it *item) (sink.Message, error) {
	if it.job.Event == 0 {
		if it.job.Body == nil {
			body, err := e.jobs.Body(ctx, it.job.ID)
			if err != nil {
				return sink.Message{}, err
			}
			it.job.Body = body
		}
		b := it.job.Body
		if it.event == nil && b.ContentType == cloudevent.ContentType { // it was a dead letter
			it.event, _ = cloudevent.Parse(b.Data) // without it, what is sent is still whole
		}
		return sink.Message{Event: it.event, ID: b.Message, Key: b.Key, URL: b.URL, ContentType: b.ContentType, Data: b.Data}, nil
	}
	if it.event == nil {
		events, err := e.store.EventsAt(ctx, []uint64{it.job.Event})
		if err != nil {
			return sink.Message{}, err
		}
		if len(events) == 0 {
			return sink.Message{}, fmt.Errorf("%w: offset %d", errGone, it.job.Event)
		}
		it.event = &events[0]
	}
	return e.eventMessage(it.event)
}

func (e *Engine) eventMessage(ev *liveness.Event) (sink.Message, error) {
	data, err := json.Marshal(cloudevent.New(ev, e.config.Node))
	if err != nil {
		return sink.Message{}, fmt.Errorf("write event %d as JSON: %w", ev.Offset, err)
	}
	return sink.Message{ID: ev.ID(), Key: ev.Subject, ContentType: cloudevent.ContentType, Data: data, Event: ev}, nil
}
