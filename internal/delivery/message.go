package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/cloudevent"
)

var (
	errGone    = errors.New("its event is not kept any more")
	errNothing = errors.New("there is nothing to deliver: its event was not kept until it became a dead letter")
)

// readAgain is how long a job waits whose body or event cannot be read.
const readAgain = time.Second

// prepare makes the message of a job, or returns the ack of a job that is not to be attempted.
func (e *Engine) prepare(ctx context.Context, it *item, p *policy, now time.Time) (sink.Message, attempt, *jobs.Ack) {
	a := attempt{before: it.job.Attempts}
	m, err := e.message(ctx, it)
	switch {
	case errors.Is(err, jobs.ErrUnknown): // it was deleted
		return m, a, &jobs.Ack{Outcome: jobs.Done}
	case errors.Is(err, errGone):
		return m, a, &jobs.Ack{Outcome: jobs.Dead, Error: err.Error()}
	case err != nil:
		return m, a, &jobs.Ack{Outcome: jobs.Postpone, RunAt: now.Add(readAgain), Error: err.Error()}
	}
	m.Job = it.job.ID
	if len(m.Data) == 0 { // it is a replayed dead letter without a body
		return m, a, &jobs.Ack{Outcome: jobs.Dead, Error: errNothing.Error(), Body: bodyOf(&m, it)}
	}
	if it.job.Body == nil {
		a.created = it.event.Time
	} else {
		a.created, a.deadline = it.job.Body.Created, it.job.Body.Deadline
	}
	if why := p.expired(a, now); why != "" {
		return m, a, &jobs.Ack{Outcome: jobs.Dead, Error: why, Body: bodyOf(&m, it)}
	}
	return m, a, nil
}

// message makes the message of a job. It reads what was not read with the claim.
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
		if it.event == nil && b.ContentType == cloudevent.ContentType { // it is a replayed dead letter
			it.event, _ = cloudevent.Parse(b.Data) // the message is complete without it
		}
		return sink.Message{Event: it.event, ID: b.Message, Key: b.Key, URL: b.URL, ContentType: b.ContentType, Data: b.Data}, nil
	}
	if it.event == nil {
		events, err := e.events.EventsAt(ctx, []uint64{it.job.Event})
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

// bodyOf returns what a dead letter keeps, and the summary of a job that ended, but for Data.
func bodyOf(m *sink.Message, it *item) jobs.Body {
	b := jobs.Body{Message: m.ID, Key: m.Key, Name: it.job.Name, Priority: it.job.Priority, URL: m.URL, ContentType: m.ContentType, Data: m.Data}
	if it.job.Body != nil {
		b.Created, b.Deadline = it.job.Body.Created, it.job.Body.Deadline
	} else if it.event != nil {
		b.Created = it.event.Time
	}
	return b
}

// describe returns the bodies of jobs that become dead letters because their events are about to be
// removed.
func (e *Engine) describe(ctx context.Context, list []jobs.Job) ([]jobs.Body, error) {
	events, err := e.eventsOf(ctx, list)
	if err != nil {
		return nil, err
	}
	bodies := make([]jobs.Body, len(list))
	for i := range list {
		ev := events[list[i].Event]
		if ev == nil {
			continue
		}
		m, err := e.eventMessage(ev)
		if err != nil {
			return nil, err
		}
		bodies[i] = bodyOf(&m, &item{event: ev})
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	for i := range list {
		if q := e.queues[list[i].Lane.Queue]; q != nil {
			q.dead.Add(1)
		}
	}
	e.outlived.Add(int64(len(list)))
	return bodies, nil
}
