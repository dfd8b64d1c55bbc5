package schedule

import (
	"math/bits"
	"time"
)

// A civil second counts the seconds of the clock on the wall, as if there were no time zones: that of 1970-01-01 00:00:00 is 0.

const (
	daySeconds = 24 * 60 * 60
	// searched is how far Next looks: more than the 40 years between two 29ths of February that are a given day of the week.
	searched = 100 * 366 * daySeconds
	// lastYear is the greatest year that a search begins in.
	lastYear = 9999
)

// crontab is a crontab expression. 48 bytes.
type crontab struct {
	sets

	loc *time.Location
}

// sets says what the fields hold, as bits.
type sets struct {
	second, minute uint64
	hour, day      uint32
	month          uint16
	weekday        uint8
	either         bool // one of day and weekday must match, not both
	fixed          bool // the time of day is fixed, as cron has it: no *
}

func (c *crontab) Next(after time.Time) time.Time { return nextInstant(&c.sets, c.loc, c.fixed, after) }

// hasDay reports whether there is any day that matches.
func (s *sets) hasDay() bool {
	if s.either {
		return true
	}
	for m := time.January; m <= time.December; m++ {
		longest := time.Date(2000, m+1, 0, 0, 0, 0, 0, time.UTC).Day() // of a leap year
		if s.month&(1<<m) != 0 && bits.TrailingZeros32(s.day) <= longest {
			return true
		}
	}
	return false
}

// next returns the first civil second in [from, limit) that matches.
func (s *sets) next(from, limit int64) (int64, bool) {
	day := floorDiv(from, daySeconds)
	second := from - day*daySeconds
	for day*daySeconds < limit {
		y, m, d := date(day)
		switch {
		case s.month&(1<<m) == 0:
			day = dayNumber(y, m+1, 1)
		case s.matchesDay(d, day):
			if at, ok := s.timeOfDay(int(second)); ok {
				found := day*daySeconds + int64(at)
				return found, found < limit
			}
			day++
		default:
			day++
		}
		second = 0
	}
	return 0, false
}

func (s *sets) matchesDay(d int, day int64) bool {
	ofMonth := s.day&(1<<d) != 0
	ofWeek := s.weekday&(1<<weekday(day)) != 0
	if s.either {
		return ofMonth || ofWeek
	}
	return ofMonth && ofWeek
}

// timeOfDay returns the first second of a day, not before from, that matches.
func (s *sets) timeOfDay(from int) (int, bool) {
	h, m := from/3600, from/60%60
	if s.hour&(1<<h) != 0 {
		if s.minute&(1<<m) != 0 {
			if sec, ok := bitFrom(s.second, from%60); ok {
				return h*3600 + m*60 + sec, true
			}
		}
		if m, ok := bitFrom(s.minute, m+1); ok {
			return h*3600 + m*60 + bits.TrailingZeros64(s.second), true
		}
	}
	h, ok := bitFrom(uint64(s.hour), h+1)
	return h*3600 + bits.TrailingZeros64(s.minute)*60 + bits.TrailingZeros64(s.second), ok
}

// bitFrom returns the first bit, not before from, that is set.
func bitFrom(set uint64, from int) (int, bool) {
	rest := set >> from << from
	return bits.TrailingZeros64(rest), rest != 0
}

// date returns the date of a day, counted from 1970-01-01.
func date(day int64) (int, time.Month, int) { return time.Unix(day*daySeconds, 0).UTC().Date() }

func dayNumber(y int, m time.Month, d int) int64 {
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / daySeconds
}

// weekday of a day counted from 1970-01-01, which was a Thursday.
func weekday(day int64) time.Weekday {
	since := day + int64(time.Thursday)
	return time.Weekday(since - 7*floorDiv(since, 7))
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
