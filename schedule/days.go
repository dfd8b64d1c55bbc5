package schedule

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Daily returns the schedule of a time of day in a location, on each day. A time of day that is skipped when the clock changes is
// at the fraction of a second that it has, after the gap. It returns an error for an hour that is not 0 to 23, a minute or a second
// that is not 0 to 59, a nanosecond that is not 0 to 999,999,999, and no location. [Plan.AtExactly] has it for other days.
func Daily(hour, minute, second, nanosecond int, loc *time.Location) (Schedule, error) {
	at, err := timeOfDay("Daily", hour, minute, second, nanosecond)
	if loc == nil {
		err = errors.Join(err, errors.New("schedule: Daily: the location is nil: want time.UTC or another"))
	}
	if err != nil {
		return nil, err
	}
	return &days{loc: loc, first: dayNumber(1, time.January, 1), every: 1, at: at}, nil
}

// timeOfDay returns the time since midnight, by the clock on the wall, that a func was given.
func timeOfDay(name string, hour, minute, second, nanosecond int) (time.Duration, error) {
	var errs []error
	for _, part := range []struct {
		name     string
		is, most int
	}{{"hour", hour, 23}, {"minute", minute, 59}, {"second", second, 59}, {"nanosecond", nanosecond, 1e9 - 1}} {
		if part.is < 0 || part.is > part.most {
			errs = append(errs, fmt.Errorf("schedule: %s: the %s is %d: want 0 to %d", name, part.name, part.is, part.most))
		}
	}
	at := time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute + time.Duration(second)*time.Second
	return at + time.Duration(nanosecond), errors.Join(errs...)
}

// days is a time of day on every so many days.
type days struct {
	loc   *time.Location
	first int64 // a day, counted from 1970-01-01
	every int64 // days
	at    time.Duration
}

func (d *days) Next(after time.Time) time.Time {
	fraction := d.at % time.Second
	next := nextInstant(d, d.loc, true, after.Add(-fraction), math.MaxInt64)
	if next.IsZero() {
		return next
	}
	return next.Add(fraction)
}

func (d *days) next(from, limit int64) (int64, bool) {
	day, second := d.first, int64(d.at/time.Second)
	if wait := from - second - d.first*daySeconds; wait > 0 {
		every := d.every * daySeconds
		day += (wait + every - 1) / every * d.every
	}
	found := day*daySeconds + second
	return found, found < limit
}

// startAt sets the first day: the first whose instant is not before start, and that is a given day of the week, unless anyDay.
func (d *days) startAt(start time.Time, anyDay bool, on time.Weekday) {
	y, m, day := start.In(d.loc).Date()
	daily := days{loc: d.loc, first: dayNumber(y, m, day), every: 1, at: d.at}
	if !anyDay {
		for weekday(daily.first) != on {
			daily.first++
		}
		daily.every = 7
	}
	first := daily.Next(start.Add(-1))
	y, m, day = first.Date()
	d.first = dayNumber(y, m, day)
}
