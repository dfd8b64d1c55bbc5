package cron

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/strictjson"
)

// Kinds of schedules.
const (
	kindWebhook     = "webhook"
	kindCommand     = "command"
	kindReport      = "report"
	kindMaintenance = "maintenance"
)

// action is the action of a schedule.
type action interface {
	// check returns the errors that can be found before it runs.
	check(e *Engine) error
	// do performs the action. It ends soon after hard is done. It may end early once ctx is done;
	// then it returns the state idle if the run shall be started again.
	do(ctx, hard context.Context, e *Engine, run *claimedRun) outcome
}

// actionOf decodes the settings of a kind. Errors: ErrBad.
func actionOf(kind string, settings json.RawMessage) (action, error) {
	var a action
	switch kind {
	case kindWebhook:
		a = &webhook{}
	case kindCommand:
		a = &program{}
	case kindReport:
		a = &report{}
	case kindMaintenance:
		a = &window{}
	default:
		return nil, bad("kind: there is no kind %.40q; want webhook, command, report or maintenance", kind)
	}
	if err := strictjson.Decode(settings, a); err != nil {
		return nil, bad("settings: %w", err)
	}
	return a, nil
}

func failed(format string, args ...any) outcome {
	return outcome{State: Failed, Error: fmt.Errorf(format, args...).Error()}
}

// work runs a claimed run to its end.
func (e *Engine) work(ctx, hard context.Context, run *claimedRun) {
	if ctx.Err() != nil {
		e.finish(ctx, run, outcome{State: Idle})
		return
	}
	begun, err := e.insist(ctx, func(ctx context.Context) (bool, error) {
		now, err := e.config.Now(ctx)
		if err != nil {
			return false, err
		}
		return e.schedules.Start(ctx, &run.Run, now, e.config.Lease)
	})
	if err != nil || !begun { // the sweep will handle it
		return
	}
	e.mu.Lock()
	*e.flight[run.ID] = run.Run
	e.mu.Unlock()
	e.stats.begin(run)
	e.finish(ctx, run, e.perform(ctx, hard, run))
}

// perform performs the action of a run.
func (e *Engine) perform(ctx, hard context.Context, run *claimedRun) (out outcome) {
	defer func() {
		if r := recover(); r != nil {
			e.config.Logger.ErrorContext(ctx, "a run panicked", "schedule", run.Name, "run", run.ID, "panic", r)
			out = failed("it panicked: %v", r)
		}
	}()
	act, err := actionOf(run.Of.Kind, run.Of.Settings)
	if err != nil {
		return failed("%w", err)
	}
	out = act.do(ctx, hard, e, run)
	if out.State == Idle && run.Once {
		out.State = Lost
	}
	return out
}

// finish stores the outcome of a run.
func (e *Engine) finish(ctx context.Context, run *claimedRun, out outcome) {
	ended, err := e.insist(ctx, func(ctx context.Context) (bool, error) {
		now, err := e.config.Now(ctx)
		if err != nil {
			return false, err
		}
		return e.schedules.Finish(ctx, &run.Run, out, now)
	})
	switch {
	case err != nil:
		e.config.Logger.ErrorContext(ctx, "what came of a run could not be written", "schedule", run.Name, "run", run.ID, "state", out.State, "error", err)
	case ended:
		e.stats.add(out.State, 1)
	}
	if out.State == Failed {
		e.config.Logger.WarnContext(ctx, "a run failed", "schedule", run.Name, "run", run.ID, "error", out.Error)
	}
}

// lastWord is how long finish retries after Run was told to end.
const lastWord = 5 * time.Second

// insist repeats a database operation until it succeeds, the database cannot be written any more,
// or lastWord has passed since ctx was done.
func (e *Engine) insist(ctx context.Context, do func(ctx context.Context) (bool, error)) (bool, error) {
	patient, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(lastWord, cancel) })
	defer stop()
	for failures := 1; ; failures++ {
		ok, err := do(patient)
		if err == nil || errors.Is(err, sqldb.ErrFenced) || errors.Is(err, sqldb.ErrNotOpen) || patient.Err() != nil {
			return ok, err
		}
		pauseAfter(patient, failures)
	}
}
