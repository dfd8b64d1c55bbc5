package cron

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/holter-iot/holter/internal/errkind"
	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/schedule"
)

var (
	// ErrUnknown is wrapped by errors for a name that no schedule has.
	ErrUnknown = errors.New("cron: unknown schedule")
	// ErrExists is wrapped by the error for a name that is taken.
	ErrExists = errors.New("cron: there is such a schedule")
	// ErrBusy is returned by [Engine.RunNow] when the overlap policy of the schedule allows no further
	// run.
	ErrBusy = errors.New("cron: a run still goes on, and no more of them may wait")
	// errRace is returned when a schedule changes faster than it can be changed.
	errRace = errors.New("cron: the schedule is being changed by others all the time")
)

const (
	maxSettings  = 64 << 10
	maxJitter    = 24 * time.Hour
	maxSchedules = 10_000
	races        = 20
)

// List returns all schedules, by name, with their owners.
func (e *Engine) List(ctx context.Context) ([]Schedule, error) {
	list, err := e.schedules.List(ctx)
	if err != nil {
		return nil, err
	}
	return list, e.schedules.own(ctx, list)
}

// Schedule returns a schedule by name, with its owner. Errors: ErrUnknown.
func (e *Engine) Schedule(ctx context.Context, name string) (Schedule, error) {
	sc, err := e.schedules.Named(ctx, name)
	if err != nil {
		return Schedule{}, err
	}
	list := []Schedule{sc}
	err = e.schedules.own(ctx, list)
	return list[0], err
}

// History returns up to limit runs, the latest first.
func (e *Engine) History(ctx context.Context, f RunFilter, limit int) ([]Run, error) {
	return e.schedules.History(ctx, f, limit)
}

// Put creates a schedule, or changes the one with its name unless fresh is set. It ignores the
// fields of sc that the store sets. A schedule whose instants change continues from now, others
// where they were. Errors: ErrBad, ErrExists.
func (e *Engine) Put(ctx context.Context, sc Schedule, fresh bool) error {
	act, err := e.check(&sc)
	if err != nil {
		return err
	}
	return e.change(ctx, sc.Name, func(old *Schedule, now time.Time) (*Schedule, error) {
		switch {
		case old != nil && fresh:
			return nil, errkind.Errorf(ErrExists, "name: there is a schedule %q; choose another name, or change that one", sc.Name)
		case old != nil && old.Kind != sc.Kind:
			return nil, ofKind(old)
		}
		if err := act.check(e); err != nil {
			return nil, err
		}
		next := sc
		next.Num, next.Claim = 0, 1
		if old != nil {
			next.Num, next.Claim, next.Began, next.Last, next.Due = old.Num, old.Claim, old.Began, old.Last, old.Due
			if old.Spec == next.Spec && old.Zone == next.Zone && old.Paused == next.Paused {
				return &next, nil
			}
		}
		next.Began, next.Last = now, now
		if err := arm(&next, now); err != nil {
			return nil, err
		}
		return &next, nil
	})
}

// arm sets the first due time of a schedule. A paused schedule needs one as well.
func arm(sc *Schedule, now time.Time) error {
	due, err := first(sc, now)
	if err != nil {
		return err
	}
	if sc.Due = due; sc.Paused {
		sc.Due = time.Time{}
	}
	return nil
}

// check returns the errors of a schedule that do not depend on the present time.
func (e *Engine) check(sc *Schedule) (action, error) {
	var errs []error
	reject := func(isBad bool, err error) {
		if isBad {
			errs = append(errs, err)
		}
	}
	err := jobs.ValidateName(sc.Name)
	reject(err != nil, bad("name: %w", err))
	if len(sc.Settings) == 0 {
		sc.Settings = json.RawMessage("{}")
	}
	reject(len(sc.Settings) > maxSettings, bad("settings: they have %d bytes, want %d at most", len(sc.Settings), maxSettings))
	reject(sc.Jitter < 0 || sc.Jitter > maxJitter, bad("jitter: it is %v, want 0 to %v", sc.Jitter, maxJitter))
	reject(sc.Jitter != 0 && sc.Kind == kindMaintenance, bad("jitter: it is %v, but a maintenance window opens at its instant; want 0", sc.Jitter))
	reject(len(sc.Spec) > schedule.MaxExpression, bad("when: it has %d bytes, want %d at most", len(sc.Spec), schedule.MaxExpression))
	if len(sc.Spec) <= schedule.MaxExpression {
		errs = append(errs, checkInstants(sc))
	}
	if len(sc.Settings) > maxSettings {
		return nil, errors.Join(errs...)
	}
	act, err := actionOf(sc.Kind, sc.Settings)
	return act, errors.Join(append(errs, err)...)
}

// checkInstants returns the errors of the expression and the zone.
func checkInstants(sc *Schedule) error {
	if err := checkZone(sc); err != nil {
		return err
	}
	_, err := compile(sc)
	return err
}

// change applies do to a schedule, which is nil if there is none, and stores the result. It repeats
// that if the schedule was changed meanwhile.
func (e *Engine) change(ctx context.Context, name string, do func(old *Schedule, now time.Time) (*Schedule, error)) error {
	for range races {
		now, err := e.config.Now(ctx)
		if err != nil {
			return err
		}
		var old *Schedule
		switch sc, err := e.schedules.Named(ctx, name); {
		case err == nil:
			old = &sc
		case !errors.Is(err, ErrUnknown):
			return err
		}
		next, err := do(old, now)
		if err != nil {
			return err
		}
		if old == nil {
			if n, err := e.schedules.Count(ctx); err != nil {
				return err
			} else if n >= maxSchedules {
				return bad("there are %d schedules, and no more are allowed", n)
			}
		}
		ok, err := e.schedules.Put(ctx, *next)
		if err != nil {
			return err
		}
		if ok {
			e.signal()
			e.windows.look()
			return nil
		}
	}
	return errRace
}

// Delete deletes a schedule and its runs. A running command continues; a maintenance window ends
// within [Config.Poll]. Errors: ErrUnknown.
func (e *Engine) Delete(ctx context.Context, name string) error {
	if err := e.schedules.Delete(ctx, name); err != nil {
		return err
	}
	e.windows.look()
	return nil
}

// Pause pauses or resumes a schedule. Instants of the pause are not made up for. Waiting and
// running runs are not affected. Errors: ErrUnknown.
func (e *Engine) Pause(ctx context.Context, name string, paused bool) error {
	return e.change(ctx, name, func(old *Schedule, now time.Time) (*Schedule, error) {
		if old == nil {
			return nil, unknown(name)
		}
		next := *old
		if old.Paused == paused {
			return &next, nil
		}
		next.Paused, next.Due = paused, time.Time{}
		if !paused {
			s, err := compile(&next)
			if err != nil {
				return nil, err
			}
			next.Last, next.Due = later(now, old.Last), s.Next(later(now, old.Last))
		}
		return &next, nil
	})
}

// RunNow creates a run of a schedule in addition to its instants, also if it is paused or has no
// instant left. It returns the run. Errors: ErrBusy, ErrUnknown.
func (e *Engine) RunNow(ctx context.Context, name string) (Run, error) {
	for range races {
		now, err := e.config.Now(ctx)
		if err != nil {
			return Run{}, err
		}
		sc, err := e.schedules.Named(ctx, name)
		if err != nil {
			return Run{}, err
		}
		f := begin(&sc, 1)
		f.Manual, f.Runs = true, []firingRun{{Scheduled: now, Ready: now}}
		fired, err := e.schedules.Fire(ctx, []firing{f}, now)
		switch {
		case err != nil:
			return Run{}, err
		case fired[0].Skipped > 0:
			return Run{}, ErrBusy
		case len(fired[0].Runs) > 0:
			e.signal()
			return fired[0].Runs[0], nil
		}
	}
	return Run{}, errRace
}
