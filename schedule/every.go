package schedule

import (
	"math"
	"time"
)

// Every is the number of a plan that has no unit yet; see [Engine.Every].
type Every struct {
	engine *Engine
	n      int
}

// Every plans runs every so many of a unit that is named next, as in Every(2).Seconds() or Every(1).Monday().
func (e *Engine) Every(n int) Every { return Every{e, n} }

func (e Every) period(unit time.Duration) *Plan {
	p := &Plan{engine: e.engine, shape: shapePeriod, period: time.Duration(e.n) * unit}
	if most := math.MaxInt64 / int64(unit); e.n < 1 || int64(e.n) > most {
		p.fail("Every(%d): want 1 to %d of this unit", e.n, most)
	}
	return p
}

func (e Every) ofDays(each int64, anyDay bool, on time.Weekday) *Plan {
	const most = 36_500
	p := &Plan{engine: e.engine, shape: shapeDays, days: int64(e.n) * each, anyDay: anyDay, weekday: on}
	if e.n < 1 || int64(e.n) > most/each {
		p.fail("Every(%d): want 1 to %d of this unit", e.n, most/each)
	}
	return p
}

// Milliseconds makes it a period of milliseconds.
func (e Every) Milliseconds() *Plan { return e.period(time.Millisecond) }

// Second makes it a period of seconds.
func (e Every) Second() *Plan { return e.period(time.Second) }

// Seconds makes it a period of seconds.
func (e Every) Seconds() *Plan { return e.period(time.Second) }

// Minute makes it a period of minutes.
func (e Every) Minute() *Plan { return e.period(time.Minute) }

// Minutes makes it a period of minutes.
func (e Every) Minutes() *Plan { return e.period(time.Minute) }

// Hour makes it a period of hours.
func (e Every) Hour() *Plan { return e.period(time.Hour) }

// Hours makes it a period of hours.
func (e Every) Hours() *Plan { return e.period(time.Hour) }

// Day makes it a time of day; see [Plan.At].
func (e Every) Day() *Plan { return e.ofDays(1, true, 0) }

// Days makes it a time of day on every so many days, counted from the first; see [Plan.At].
func (e Every) Days() *Plan { return e.ofDays(1, true, 0) }

// Week is 7 days.
func (e Every) Week() *Plan { return e.ofDays(7, true, 0) }

// Weeks are 7 days each.
func (e Every) Weeks() *Plan { return e.ofDays(7, true, 0) }

// Monday makes it a time of day on every so many Mondays, counted from the first; see [Plan.At].
func (e Every) Monday() *Plan { return e.ofDays(7, false, time.Monday) }

// Tuesday is like Monday.
func (e Every) Tuesday() *Plan { return e.ofDays(7, false, time.Tuesday) }

// Wednesday is like Monday.
func (e Every) Wednesday() *Plan { return e.ofDays(7, false, time.Wednesday) }

// Thursday is like Monday.
func (e Every) Thursday() *Plan { return e.ofDays(7, false, time.Thursday) }

// Friday is like Monday.
func (e Every) Friday() *Plan { return e.ofDays(7, false, time.Friday) }

// Saturday is like Monday.
func (e Every) Saturday() *Plan { return e.ofDays(7, false, time.Saturday) }

// Sunday is like Monday.
func (e Every) Sunday() *Plan { return e.ofDays(7, false, time.Sunday) }

// resolve makes a schedule of a plan.
func (p *Plan) resolve(now time.Time) (Schedule, error) {
	loc := p.loc
	if loc == nil {
		loc = p.engine.cfg.Location
	}
	start := p.from
	if start.IsZero() {
		start = p.last
	}
	if start.IsZero() {
		start = now
	}
	switch p.shape {
	case shapeCron:
		return p.resolveCron(loc, start)
	case shapeOnce:
		return At(p.instant), nil
	case shapePeriod:
		return Period(start, p.period)
	case shapeDays:
		d := &days{loc: loc, every: p.days, at: p.at}
		d.startAt(start, p.anyDay, p.weekday)
		return d, nil
	default:
		return p.schedule, nil
	}
}

func (p *Plan) resolveCron(loc *time.Location, start time.Time) (Schedule, error) {
	s, zoned, err := parse(p.name, p.text, loc, p.engine.zones.load)
	if err != nil {
		return nil, err
	}
	if zoned && p.loc != nil {
		p.fail("In: the expression names its time zone itself")
		return nil, p.errs[len(p.errs)-1]
	}
	if every, ok := s.(period); ok {
		return Starting(every, start), nil
	}
	return s, nil
}
