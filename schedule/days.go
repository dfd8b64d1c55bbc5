package schedule

import "time"

// days is a time of day on every so many days.
type days struct {
	loc    *time.Location
	first  int64 // a day, counted from 1970-01-01
	every  int64 // days
	second int64 // of the day
}

func (d *days) Next(after time.Time) time.Time { return nextInstant(d, d.loc, true, after) }

func (d *days) next(from, limit int64) (int64, bool) {
	day := d.first
	if wait := from - d.second - d.first*daySeconds; wait > 0 {
		every := d.every * daySeconds
		day += (wait + every - 1) / every * d.every
	}
	found := day*daySeconds + d.second
	return found, found < limit
}

// startAt sets the first day: the first whose instant is not before start, and that is a given day of the week, unless anyDay.
func (d *days) startAt(start time.Time, anyDay bool, on time.Weekday) {
	y, m, day := start.In(d.loc).Date()
	daily := days{loc: d.loc, first: dayNumber(y, m, day), every: 1, second: d.second}
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
