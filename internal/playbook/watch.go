package playbook

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// watch wakes runs whose subject has recovered, until ctx is done.
func (e *Engine) watch(ctx context.Context) error {
	w := watcher{engine: e, changed: make(map[string]bool), claimed: make(map[uint64]bool), behind: true}
	for ctx.Err() == nil {
		err := w.step(ctx)
		if err == nil || ctx.Err() != nil {
			continue
		}
		if !w.failing {
			e.config.Logger.WarnContext(ctx, "cannot pass recoveries to playbook runs; retrying", "error", err)
		}
		w.failing = true
		select {
		case <-ctx.Done():
		case <-time.After(retryAfter):
		}
	}
	return nil
}

// watcher follows the events.
type watcher struct {
	engine  *Engine
	after   uint64          // offset of the last event that was read
	behind  bool            // events were missed or the clock was set back: all open runs must be checked
	changed map[string]bool // playbooks whose open runs are to be woken, since it was changed
	claimed map[uint64]bool // runs to wake that are in progress
	buffer  []liveness.Event
	failing bool
	seen    time.Time // last reading of the clock
}

// step waits a while for events, and wakes the runs that they affect.
func (w *watcher) step(ctx context.Context) error {
	now := w.engine.config.Now().Round(0) // wall time, not monotonic time
	if w.seen.Sub(now) > time.Second {
		w.behind = true // it was set back
	}
	w.seen = now
	if w.behind {
		_, w.after = w.engine.config.Store.Bounds()
	}
	maps.Copy(w.changed, w.engine.takeChanged())
	if w.behind || len(w.changed) > 0 {
		if err := w.all(ctx); err != nil {
			return err
		}
		w.behind = false
		clear(w.changed)
	}
	waiting, cancel := context.WithTimeout(ctx, retryAfter)
	defer cancel()
	events, err := w.engine.config.Store.Wait(waiting, w.buffer[:0], w.after, openAtOnce)
	switch {
	case errors.Is(err, eventlog.ErrMissed):
		w.behind = true
		return nil
	case err != nil && waiting.Err() == nil:
		return err
	}
	w.buffer = events
	retried := slices.Collect(maps.Keys(w.claimed)) // they were in progress when they were to be woken
	clear(w.claimed)
	if err := w.wake(ctx, retried); err != nil {
		return err
	}
	if err := w.recovered(ctx, events); err != nil {
		return err
	}
	if len(events) > 0 {
		w.after = events[len(events)-1].Offset
	}
	w.failing = false
	return nil
}

// openAtOnce is the number of events or runs read at a time.
const openAtOnce = 1000

// recovered wakes the runs whose subject events may have recovered.
func (w *watcher) recovered(ctx context.Context, events []liveness.Event) error {
	subjects := make(map[string]bool)
	for i := range events {
		if endsRuns(events[i].Type) {
			subjects[events[i].Subject] = true
		}
	}
	if len(subjects) == 0 {
		return nil
	}
	runs, err := w.engine.runs.Open(ctx, slices.Collect(maps.Keys(subjects)))
	if err != nil {
		return err
	}
	var ids []uint64
	for i := range runs {
		if w.engine.mayRecover(&runs[i]) {
			ids = append(ids, runs[i].ID)
		}
	}
	return w.wake(ctx, ids)
}

// mayRecover reports whether the playbook of a run reacts to a recovery.
func (e *Engine) mayRecover(r *Run) bool {
	b := e.book(r.Playbook)
	return b != nil && b.Recovery != Ignore && !r.Diverted
}

// wake makes runs check whether their subject has recovered.
func (w *watcher) wake(ctx context.Context, ids []uint64) error {
	if len(ids) == 0 {
		return nil
	}
	claimed, err := w.engine.outbox.Jobs().Wake(ctx, ids)
	if err != nil {
		for _, id := range ids {
			w.claimed[id] = true
		}
		return err
	}
	for _, id := range claimed {
		w.claimed[id] = true
		if r := w.engine.activeRun(id); r != nil {
			over, err := w.engine.isOver(ctx, r)
			if err != nil {
				return err
			}
			if over {
				r.over.Store(true)
			}
		}
	}
	return nil
}

// all wakes the open runs whose devices have changed since they started, those that wait until an
// instant too far ahead, and those whose playbook was changed.
func (w *watcher) all(ctx context.Context) error {
	for after := uint64(0); ; {
		runs, err := w.engine.runs.AllOpen(ctx, after, openAtOnce)
		if err != nil || len(runs) == 0 {
			return err
		}
		ids, err := w.engine.tooFar(ctx, runs)
		if err != nil {
			return err
		}
		for i := range runs {
			if w.changed[runs[i].Playbook] {
				ids = append(ids, runs[i].ID)
				continue
			}
			if !w.engine.mayRecover(&runs[i]) {
				continue
			}
			view, err := w.engine.config.Fleet.Device(runs[i].Subject)
			if err != nil || view.Since.After(runs[i].Started) {
				ids = append(ids, runs[i].ID)
			}
		}
		if err := w.wake(ctx, ids); err != nil {
			return err
		}
		after = runs[len(runs)-1].ID
	}
}

// tooFar returns the runs with a step that waits longer than it may.
func (e *Engine) tooFar(ctx context.Context, runs []Run) (ids []uint64, err error) {
	now := e.config.Now()
	steps := make(map[uint64][]Step)
	for i := range runs {
		r := &runs[i]
		if b := e.book(r.Playbook); b != nil && r.State == RunWaiting {
			steps[r.ID] = slices.Concat(b.Steps, b.Recovered)
		}
	}
	if len(steps) == 0 {
		return nil, nil
	}
	waiting, err := e.runs.Waiting(ctx, slices.Collect(maps.Keys(steps)))
	if err != nil {
		return nil, err
	}
	for id, list := range waiting {
		if slices.ContainsFunc(list, func(w RunStep) bool {
			return slices.ContainsFunc(steps[id], func(s Step) bool { return s.Name == w.Step && s.tooFar(&w, now) })
		}) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}
