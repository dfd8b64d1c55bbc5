package playbook

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/holter-iot/holter/internal/jobs"
)

// turn says why a run has not started.
const turn = "it waits for its turn: runs of a playbook about one device come one after the other"

// Show returns a run and its steps. A run that has not started is shown as waiting. Errors:
// ErrUnknown.
func (e *Engine) Show(ctx context.Context, id uint64) (Run, []RunStep, error) {
	run, steps, err := e.runs.Get(ctx, id)
	if !errors.Is(err, ErrUnknown) {
		return run, steps, err
	}
	run, there, failed := e.queued(ctx, id)
	if failed != nil || !there {
		return run, nil, cmp.Or(failed, err)
	}
	run.Error = turn
	return run, nil, nil
}

// queued returns a run of which only the job exists.
func (e *Engine) queued(ctx context.Context, id uint64) (run Run, there bool, err error) {
	list, err := e.outbox.Jobs().List(ctx, jobs.Filter{IDs: []uint64{id}}, 1, e.config.Now())
	if err != nil || len(list) == 0 {
		return run, false, err
	}
	endpoints := e.outbox.Settings().Endpoints
	i := slices.IndexFunc(endpoints, func(p jobs.Endpoint) bool { return p.Num == list[0].Lane.Endpoint && p.Kind == EndpointKind })
	if i < 0 {
		return run, false, nil
	}
	run = Run{ID: id, Playbook: endpoints[i].Target, Event: list[0].Event, State: RunWaiting}
	if run.Event != 0 {
		events, err := e.config.Store.EventsAt(ctx, []uint64{run.Event})
		if err == nil && len(events) > 0 {
			run.Subject = events[0].Subject
		}
		return run, true, err
	}
	body, err := e.outbox.Jobs().Body(ctx, id)
	if err == nil && body != nil {
		run.Subject = body.Key
	}
	return run, true, err
}

// Cancel ends an open run. A step in progress may still complete. Errors: ErrUnknown,
// ErrEnded.
func (e *Engine) Cancel(ctx context.Context, id uint64, why string) error {
	err := e.cancel(ctx, id, why)
	if !errors.Is(err, ErrUnknown) {
		return err
	}
	run, there, failed := e.queued(ctx, id)
	if failed != nil || !there {
		return cmp.Or(failed, err)
	}
	run.Started = e.config.Now()
	if err := e.runs.Save(ctx, []*runChange{{Run: run}}); err != nil {
		return err
	}
	return e.cancel(ctx, id, why)
}

func (e *Engine) cancel(ctx context.Context, id uint64, why string) error {
	if r := e.activeRun(id); r != nil {
		r.ended.Store(true)
	}
	if err := e.runs.Cancel(ctx, id, why, e.config.Now()); err != nil {
		return err
	}
	_, err := e.outbox.Jobs().Delete(ctx, jobs.Filter{IDs: []uint64{id}})
	return err
}
