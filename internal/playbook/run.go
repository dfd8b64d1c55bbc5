package playbook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/dag"
	"github.com/holter-iot/holter/liveness"
)

var (
	// errOver cancels the steps of a run whose subject has recovered.
	errOver = errors.New("its subject has recovered")
	// errNotStored is wrapped by the error of a step whose outcome could not be stored.
	errNotStored = errors.New("cannot store the result of a step")
)

// run is a run in progress. It is the state of its graphs.
type run struct {
	Run

	engine *Engine
	book   *book
	event  *liveness.Event // the event that started it; nil if it was started by hand
	begun  time.Time       // start of the current segment
	over   atomic.Bool     // the subject recovered meanwhile
	ended  atomic.Bool     // the run was canceled
	spent  atomic.Bool     // the segment is to end: its time is used up, or the playbook was changed

	mu    sync.Mutex          // guards the field below
	steps map[string]*RunStep // steps that have started
}

// known returns the stored state of a step.
func (r *run) known(name string) RunStep {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.steps[name]; s != nil {
		return *s
	}
	return RunStep{Step: name}
}

// holds reports whether a condition holds. A skipped condition neither holds nor fails.
func (r *run) holds(condition string, want bool) bool {
	s := r.known(condition)
	return s.State == StepDone && s.Holds == want
}

// outputs returns the outputs of the steps that are done.
func (r *run) outputs() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[string]string)
	for name, s := range r.steps {
		if s.State == StepDone {
			out[name] = s.Output
		}
	}
	return out
}

// keep stores the state of a step.
func (r *run) keep(ctx context.Context, s RunStep) error {
	r.mu.Lock()
	r.steps[s.Step] = &s
	r.mu.Unlock()
	if err := r.engine.saver.Add(ctx, &runChange{Run: r.Run, Steps: []RunStep{s}}); err != nil {
		return fmt.Errorf("%w: %w", errNotStored, err)
	}
	return nil
}

// run performs a step unless it is done, and stores the result. It is the dag.Func of a step. A
// waiting step continues in time while other steps are running; when all remaining steps wait, the
// run does.
func (s *Step) run(ctx context.Context, r *run) error {
	for {
		err := s.try(ctx, r)
		if !errors.Is(err, dag.ErrWaiting) || r.spent.Load() {
			return err
		}
		if err := dag.Pause(ctx, r.known(s.Name).Wake.Sub(r.engine.config.Now())); err != nil {
			return err
		}
	}
}

// try performs a step if it is due.
func (s *Step) try(ctx context.Context, r *run) error {
	before, timeout := r.known(s.Name), cmp.Or(s.Timeout, defaultTimeout)
	switch now := r.engine.config.Now(); {
	case before.State == StepDone:
		return nil
	case before.State == StepFailed:
		return errors.New(before.Error)
	case r.over.Load() && !r.Diverted || r.ended.Load():
		return errOver
	case before.State == StepWaiting && now.Before(before.Wake) && !s.tooFar(&before, now):
		return dag.ErrWaiting
	case now.Sub(r.begun)+timeout > stretch, // the segment would end during the attempt, and it would start again
		r.engine.book(r.Playbook) != r.book: // the playbook was changed; the next segment has the new one
		r.spent.Store(true)
		return dag.ErrWaiting
	case before.Started.IsZero() || before.Started.After(now): // the clock was ahead
		before.Started = now
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	o := s.Do.do(limited, r, s, before)
	cancel()
	if o.err != nil && ctx.Err() != nil { // the process ends, or another step has failed
		return o.err
	}
	after, err := s.after(before, o, r.engine.config.Now())
	if failed := r.keep(ctx, after); failed != nil {
		return failed
	}
	return err
}

// after returns the state of a step after an attempt, and the result for the graph.
func (s *Step) after(before RunStep, o outcome, now time.Time) (RunStep, error) {
	after := before
	after.Error, after.Wake, after.Output, after.Holds = "", time.Time{}, o.output, o.holds
	after.Attempts = max(before.Attempts, o.asked)
	switch {
	case o.err == nil && o.again.IsZero():
		after.State, after.Ended = StepDone, now
		return after, nil
	case o.err == nil:
		after.State, after.Wake = StepWaiting, o.again
		return after, dag.ErrWaiting
	}
	after.Attempts++
	after.Error = o.err.Error()
	if final := errors.As(o.err, new(permanent)); final || after.Attempts >= cmp.Or(s.Attempts, defaultAttempts) {
		after.State, after.Ended = StepFailed, now
		return after, o.err
	}
	after.State, after.Wake = StepWaiting, now.Add(s.pause(after.Attempts, rand.Float64()))
	return after, dag.ErrWaiting
}

// tooFar reports whether the step, of which was is stored, waits for longer than it may: until an instant
// that was computed with a clock that was ahead, or with a longer wait than the playbook has now.
func (s *Step) tooFar(was *RunStep, now time.Time) bool {
	longest := maxPause
	switch do := s.Do.(type) {
	case Wait:
		longest = do.For
		if was.Wake.After(was.Started.Add(do.For)) {
			return true
		}
	case Probe:
		longest = max(do.Wait, defaultProbeWait)
	}
	return was.Wake.Sub(now) > longest
}

// advance performs the steps that can be performed now, and stores the state of the run.
func (r *run) advance(ctx context.Context) error {
	for {
		if err := r.divert(ctx); err != nil || r.State.Final() {
			return err
		}
		graph := r.book.steps
		if r.Diverted {
			if graph = r.book.recovered; graph == nil { // the configuration has no such steps any more
				return r.finish(ctx, RunRecovered, "")
			}
		}
		_, err := graph.Run(ctx, r)
		switch {
		case r.ended.Load():
			return nil // that is stored
		case err == nil && r.Diverted:
			return r.finish(ctx, RunRecovered, "")
		case err == nil:
			return r.finish(ctx, RunDone, "")
		case errors.Is(err, errOver) || r.over.Load() && !r.Diverted && ctx.Err() == nil:
			continue
		case errors.Is(err, errNotStored):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, new(*dag.NodeError)):
			return r.finish(ctx, RunFailed, err.Error())
		}
		return r.wait(ctx)
	}
}

// divert cancels or diverts a run whose subject has recovered.
func (r *run) divert(ctx context.Context) error {
	if !r.engine.mayRecover(&r.Run) {
		return nil
	}
	over := r.over.Load()
	if !over {
		var err error
		if over, err = r.engine.isOver(ctx, r); err != nil {
			return err
		}
	}
	switch {
	case !over:
		return nil
	case r.book.Recovery == Divert:
		r.Diverted, r.Wake = true, time.Time{}
		return r.store(ctx)
	}
	return r.finish(ctx, RunRecovered, "")
}

func (r *run) finish(ctx context.Context, state RunState, why string) error {
	r.State, r.Ended, r.Wake, r.Error = state, r.engine.config.Now(), time.Time{}, why
	if state == RunFailed {
		r.engine.config.Logger.WarnContext(ctx, "playbook run failed", "playbook", r.Playbook, "run", r.ID, "subject", r.Subject, "error", why)
	}
	return r.store(ctx)
}

// wait stores that the run waits, until its first step is due or for its next segment.
func (r *run) wait(ctx context.Context) error {
	steps := r.book.Steps
	if r.Diverted {
		steps = r.book.Recovered
	}
	var wake time.Time
	now := r.engine.config.Now()
	for i := range steps {
		s := r.known(steps[i].Name)
		if s.State != StepWaiting {
			continue
		}
		if steps[i].tooFar(&s, now) { // the clock was set back, or the wait made shorter, while the run was worked on
			s.Wake = now
		}
		if wake.IsZero() || s.Wake.Before(wake) {
			wake = s.Wake
		}
	}
	if r.spent.Load() {
		wake = now
	}
	r.State, r.Wake = RunWaiting, wake
	return r.store(ctx)
}

func (r *run) store(ctx context.Context) error {
	if err := r.engine.saver.Add(ctx, &runChange{Run: r.Run}); err != nil {
		return fmt.Errorf("%w: %w", errNotStored, err)
	}
	return nil
}
