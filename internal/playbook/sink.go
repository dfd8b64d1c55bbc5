package playbook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/liveness"
)

// Kind returns the sink of the endpoints that start runs, see [EndpointKind]. It is a [sink.Kind].
func (e *Engine) Kind(target string, settings json.RawMessage) (sink.Sink, error) {
	if e.book(target) == nil {
		return nil, fmt.Errorf("target: there is no playbook %.80q", target)
	}
	w := &worker{engine: e, name: target}
	return w, sink.Decode(settings, w)
}

// stretch is the length of a segment, after which other runs are served. No step starts that might
// take longer. The last result is stored after it.
const stretch = 2*maxTimeout - patience

// segment are the settings of an endpoint, by which a run that does not end is given up.
func segment() json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"timeout_ms":%d}`, (stretch + patience).Milliseconds()))
}

// worker is the sink that advances the runs of a playbook.
type worker struct {
	sink.Settings

	engine *Engine
	name   string // of the playbook, which may change, and may be deleted
}

// Close implements sink.Sink.
func (w *worker) Close() error { return nil }

// Deliver implements sink.Sink. A message is delivered when its run has ended.
func (w *worker) Deliver(ctx context.Context, messages []sink.Message) []sink.Result {
	results := make([]sink.Result, len(messages))
	for i := range messages {
		results[i] = w.work(ctx, &messages[i])
	}
	return results
}

// retryAfter is the pause of a run whose state could not be read or stored.
const retryAfter = time.Second

// goneFor is the pause of a run whose playbook was deleted just now, before its endpoint is disabled.
const goneFor = 10 * time.Second

// work advances a run.
func (w *worker) work(ctx context.Context, m *sink.Message) sink.Result {
	b := w.engine.book(w.name)
	if b == nil {
		return sink.Result{Again: w.engine.config.Now().Add(goneFor)}
	}
	r, err := w.open(ctx, b, m)
	if err == nil && !r.State.Final() {
		w.engine.enter(r)
		defer w.engine.leave(r)
		err = r.advance(ctx)
	}
	switch {
	case err != nil:
		if ctx.Err() == nil {
			w.engine.config.Logger.WarnContext(ctx, "cannot continue a playbook run; retrying", "playbook", w.name, "run", m.Job, "error", err)
		}
		return sink.Result{Again: w.engine.config.Now().Add(retryAfter)}
	case r.State.Final() || r.ended.Load():
		return sink.Result{}
	}
	again := r.Wake
	if again.IsZero() { // none of its steps waits any more, because the playbook was changed
		again = w.engine.config.Now().Add(retryAfter)
	}
	return sink.Result{Again: again}
}

// open returns a run with its stored state.
func (w *worker) open(ctx context.Context, b *book, m *sink.Message) (*run, error) {
	r := &run{engine: w.engine, book: b, event: m.Event, begun: w.engine.config.Now(), steps: make(map[string]*RunStep)}
	stored, steps, err := w.engine.runs.Get(ctx, m.Job)
	switch {
	case errors.Is(err, ErrUnknown):
		r.Run = Run{ID: m.Job, Playbook: w.name, Subject: m.Key, Started: w.engine.config.Now()}
		if m.Event != nil {
			r.Event = m.Event.Offset
		}
		return r, r.store(ctx)
	case err != nil:
		return nil, err
	}
	r.Run = stored
	if !r.State.Final() {
		r.State, r.Wake = RunRunning, time.Time{}
	}
	for i := range steps {
		r.steps[steps[i].Step] = &steps[i]
	}
	return r, nil
}

func (e *Engine) enter(r *run) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.active[r.ID] = r
}

func (e *Engine) leave(r *run) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.active, r.ID)
	if r.State.Final() {
		e.ended[Ended{r.Playbook, r.State}]++
	}
}

// maxAfter bounds the later events of a device that are searched for a recovery.
const maxAfter = 10_000

// isOver reports whether the subject of a run has recovered, if the playbook reacts to that.
func (e *Engine) isOver(ctx context.Context, r *run) (bool, error) {
	if r.event == nil || r.book.Recovery == Ignore {
		return false, nil
	}
	ends, ok := recoveryOf(r.event.Type)
	switch {
	case !ok:
		return false, nil
	case isGroup(r.event.Type) || isSource(r.event.Type):
		return len(e.look(r)) == 0, nil
	}
	events, err := e.config.Store.DeviceEvents(ctx, r.Subject, r.event.Seq, maxAfter)
	if err != nil {
		return false, err
	}
	for i := range events {
		goesOn := ends == liveness.DeviceMaintenanceStopped && events[i].Maintenance // one kind of maintenance ended, and the other continues
		if events[i].Type == ends && !goesOn || events[i].Type == liveness.DeviceForgotten {
			return true, nil
		}
	}
	return false, nil
}
