package schedule

import (
	"math"
	"math/bits"
	"time"
)

// A civil second counts the seconds of the clock on the wall, as if there were no time zones: that of 1970-01-01 00:00:00 is 0.

const (
	daySeconds = 24 * 60 * 60
	// searched is how far Next looks: more than the 40 years between two 29ths of February that are a given day of the week, and
	// than the years that an expression may name.
	searched = 240 * 366 * daySeconds
	// lastSearched is the greatest year that a search begins in.
	lastSearched = 9999
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

	rare *rareSets // nil for most
}

// rareSets are what few expressions have.
type rareSets struct {
	days  relativeDays
	years valueSet // counted from firstYear
	final int      // the last of them; 0 if every year counts
}

// yearFrom returns the first year, not before y, that counts.
func (r *rareSets) yearFrom(y int) (int, bool) {
	if r == nil || r.final == 0 {
		return y, true
	}
	for y = max(y, firstYear); y <= r.final; y++ {
		if r.years.has(y - firstYear) {
			return y, true
		}
	}
	return 0, false
}

func (c *crontab) Next(after time.Time) time.Time {
	until := int64(math.MaxInt64)
	if c.rare != nil && c.rare.final != 0 {
		until = dayNumber(c.rare.final+1, time.January, 2) * daySeconds // in each time zone
	}
	return nextInstant(&c.sets, c.loc, c.fixed, after, until)
}

// hasDay reports whether there is any day that matches. Years of the same length that begin with the same day of the week are equal.
func (s *sets) hasDay() bool {
	seen := make(map[[2]int64]bool)
	for y := firstYear; y <= lastYear; y++ {
		from, to := dayNumber(y, time.January, 1), dayNumber(y+1, time.January, 1)
		kind := [2]int64{to - from, int64(weekday(from))}
		if first, _ := s.rare.yearFrom(y); first != y || seen[kind] {
			continue
		}
		if _, ok := s.next(from*daySeconds, to*daySeconds); ok {
			return true
		}
		seen[kind] = true
	}
	return false
}

// next returns the first civil second in [from, limit) that matches.
func (s *sets) next(from, limit int64) (int64, bool) {
	day := floorDiv(from, daySeconds)
	second := from - day*daySeconds
	for day*daySeconds < limit {
		y, m, d := date(day)
		first, ok := s.rare.yearFrom(y)
		switch {
		case !ok:
			return 0, false
		case first != y:
			day = dayNumber(first, time.January, 1)
		case s.month&(1<<m) == 0:
			day = dayNumber(y, m+1, 1)
		case s.matchesDay(y, m, d, day):
			if at, ok := s.secondOfDay(int(second)); ok {
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

func (s *sets) matchesDay(y int, m time.Month, d int, day int64) bool {
	w := weekday(day)
	ofMonth := s.day&(1<<d) != 0
	ofWeek := s.weekday&(1<<w) != 0
	if s.rare != nil {
		last := int(dayNumber(y, m+1, 1)-day) + d - 1
		ofMonth = ofMonth || s.rare.days.onMonthDay(d, last, w)
		ofWeek = ofWeek || s.rare.days.onWeekday(d, last, w)
	}
	if s.either {
		return ofMonth || ofWeek
	}
	return ofMonth && ofWeek
}

// secondOfDay returns the first second of a day, not before from, that matches.
func (s *sets) secondOfDay(from int) (int, bool) {
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
