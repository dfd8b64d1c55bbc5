package schedule

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Plan describes a schedule that is to be added to an engine. Its methods change it, return it, and must not be called concurrently;
// what is wrong with it is told by Do.
type Plan struct {
	engine *Engine
	errs   []error

	shape    shape
	text     string        // shapeCron
	schedule Schedule      // shapeCustom
	instant  time.Time     // shapeOnce
	period   time.Duration // shapePeriod
	days     int64         // shapeDays
	anyDay   bool          // else on weekday
	weekday  time.Weekday
	at       time.Duration // of the day

	name    string
	loc     *time.Location
	from    time.Time
	last    time.Time
	runs    uint64
	later   bool
	jitter  time.Duration
	overlap Overlap
	misfire Misfire
}

// shape is what kind of schedule a plan is for.
type shape uint8

const (
	shapeCustom shape = iota
	shapeCron
	shapeOnce
	shapePeriod
	shapeDays
)

// Schedule plans runs at the instants of s.
func (e *Engine) Schedule(s Schedule) *Plan {
	p := &Plan{engine: e, schedule: s}
	if s == nil {
		p.fail("the schedule is nil")
	}
	return p
}

// Cron plans runs at the instants of a crontab expression; see [Parse]. "@every 90s" runs first after 90 seconds.
func (e *Engine) Cron(text string) *Plan { return &Plan{engine: e, shape: shapeCron, text: text} }

// Once plans one run, at an instant, or at once if that has passed, however long ago.
func (e *Engine) Once(at time.Time) *Plan { return &Plan{engine: e, shape: shapeOnce, instant: at} }

// fail records a mistake.
func (p *Plan) fail(format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf("schedule: "+format, args...))
}

// Name gives the schedule a name, for its runs to know it by.
func (p *Plan) Name(name string) *Plan {
	p.name = name
	return p
}

// At sets the time of day, for days, weeks and weekdays. Default: midnight.
func (p *Plan) At(hour, minute int) *Plan { return p.AtExactly(hour, minute, 0, 0) }

// AtExactly is [Plan.At] to the nanosecond. See [Daily].
func (p *Plan) AtExactly(hour, minute, second, nanosecond int) *Plan {
	at, err := timeOfDay("At", hour, minute, second, nanosecond)
	if err != nil {
		p.errs = append(p.errs, err)
	}
	if p.shape != shapeDays {
		p.fail("At: only days, weeks and weekdays have a time of day")
	}
	p.at = at
	return p
}

// In sets the location of days and of a crontab expression. Default: that of the engine.
func (p *Plan) In(loc *time.Location) *Plan {
	if loc == nil {
		p.fail("In: the location is nil: want time.UTC or another")
	}
	if p.shape != shapeDays && p.shape != shapeCron {
		p.fail("In: only days, weeks, weekdays and crontab expressions have a location")
	}
	p.loc = loc
	return p
}

// From leaves out what is before an instant; periods and days count from there.
func (p *Plan) From(start time.Time) *Plan {
	p.from = start
	return p
}

// NotImmediately begins a period with a wait; otherwise its first instant is its start. Nothing else begins at once anyway, but for
// a single instant that has passed, which is an error with NotImmediately.
func (p *Plan) NotImmediately() *Plan {
	p.later = true
	return p
}

// Continue goes on where a schedule stopped, such as before a restart: the instants after last are due, those that have passed by
// the misfire policy, and runs are numbered from runs + 1. Periods and days count from last, unless From says otherwise. The zero time
// as last stands for a schedule that has not run yet.
func (p *Plan) Continue(last time.Time, runs uint64) *Plan {
	p.last, p.runs = last, runs
	return p
}

// Jitter delays each run by a random time below most, so that not all run at the same instant. Choose it smaller than the time
// between two instants: what passes during the delay is a misfire. Default: 0.
func (p *Plan) Jitter(most time.Duration) *Plan {
	if most < 0 || most > horizon {
		p.fail("Jitter is %v: want 0 to %v", most, horizon)
	}
	p.jitter = most
	return p
}

// Overlap sets what happens to an instant during a run. Default: OverlapSkip.
func (p *Plan) Overlap(policy Overlap) *Plan {
	if policy < OverlapAllow || policy > MaxWaiting {
		p.errs = append(p.errs, errOverlap)
	}
	p.overlap = policy
	return p
}

// Misfire sets what happens to instants that passed without a run. Default: MisfireOnce. The runs
// of [MisfireAll] wait for each other, whatever the overlap policy.
func (p *Plan) Misfire(policy Misfire) *Plan {
	if policy < MisfireSkip || policy > MaxMisfires {
		p.errs = append(p.errs, errMisfire)
	}
	p.misfire = policy
	return p
}

// Do adds the schedule to the engine, which calls f for each run, on a worker's goroutine. See [Plan.DoRun] for errors.
func (p *Plan) Do(f func()) (*Handle, error) {
	if f == nil {
		return p.DoRun(nil)
	}
	return p.DoRun(func(context.Context, Run) { f() })
}

// DoTask is [Plan.DoRun] for a task, whose errors are counted and go to [Config.OnError].
func (p *Plan) DoTask(t Task) (*Handle, error) {
	if t == nil {
		return p.DoRun(nil)
	}
	return p.DoRun(func(ctx context.Context, r Run) {
		err := t(ctx, r)
		if err == nil {
			return
		}
		p.engine.counters.failed.Add(1)
		if report := p.engine.cfg.OnError; report != nil {
			report(r, err)
		}
	})
}

// DoRun is [Plan.Do] for a func with more arguments. The context ends with that of [Engine.Run].
// Panics of f are recovered and reported.
//
// Errors: all that is wrong with the plan; ErrNever if nothing would ever be run; ErrFull; ErrClosed.
func (p *Plan) DoRun(f func(context.Context, Run)) (*Handle, error) {
	if f == nil {
		p.fail("the func is nil")
	}
	if len(p.errs) > 0 {
		return nil, errors.Join(p.errs...)
	}
	h, err := p.handle()
	if err != nil {
		return nil, err
	}
	h.call = f
	if err := p.engine.add(h); err != nil {
		return nil, err
	}
	h.rearm()
	return h, nil
}

// handle returns a handle that the engine does not know yet.
func (p *Plan) handle() (h *Handle, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("schedule: the schedule panicked: %v", v)
		}
	}()
	h = &Handle{
		engine: p.engine, name: p.name, jitter: p.jitter, overlap: p.overlap, misfire: p.misfire, number: p.runs,
	}
	now := time.Unix(0, p.engine.clock.read(false))
	s, err := p.resolve(now)
	if err != nil {
		return nil, err
	}
	after := p.after(now)
	if every, ok := s.(period); ok {
		h.steady = true
		shift := -time.Duration(p.engine.clock.shift(true))
		every.start, after = every.start.Add(shift), after.Add(shift)
		s = every
	}
	h.schedule = s
	h.mu.Lock() // not shared yet; for the convention
	defer h.mu.Unlock()
	if !h.setNextLocked(following(s, after)) {
		return nil, ErrNever
	}
	return h, p.wouldRun(h, s)
}

// wouldRun returns an error if the misfire policy leaves nothing of a schedule.
func (p *Plan) wouldRun(h *Handle, s Schedule) error {
	now := time.Unix(0, p.engine.clock.read(h.steady))
	first := time.Unix(0, h.next)
	if first.After(now) || !following(s, now).IsZero() {
		return nil
	}
	if p.later || len(due(s, first, now, p.misfire, p.engine.cfg.Grace)) == 0 {
		return fmt.Errorf("%w: all its instants have passed", ErrNever)
	}
	return nil
}

// after returns the instant after which the first run is due.
func (p *Plan) after(now time.Time) time.Time {
	switch {
	case !p.last.IsZero():
		return p.last
	case p.shape == shapeOnce:
		return p.instant.Add(-1)
	case p.shape == shapePeriod && p.from.IsZero() && !p.later:
		return now.Add(-1)
	case p.shape == shapePeriod && p.later:
		return laterOf(now, p.from)
	default:
		return laterOf(now, p.from.Add(-1))
	}
}
