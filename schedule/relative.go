package schedule

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// relativeDays are days that no fixed number stands for: they depend on the month.
type relativeDays struct {
	last        uint32 // bit n: L-n
	nearest     uint32 // bit d: dW
	nearestLast uint32 // bit n: L-nW
	lastWeekday uint8  // bit w: wL
	nthWeekday  uint64 // bit 7(n-1)+w: w#n
}

// parseRelative adds an item if it is one of L, L-3, 15W, LW, 5L and 5#2, and reports whether it is meant to be.
func (f *field) parseRelative(item string, days *relativeDays) (bool, error) {
	text := strings.ToUpper(item)
	switch {
	case f.days == monthDays && strings.ContainsAny(text, "LW"):
		return true, f.parseMonthDay(item, text, days)
	case f.days == weekDays && strings.Contains(text, "#"):
		day, nth, _ := strings.Cut(text, "#")
		w, err := f.value(day, item)
		if err != nil {
			return true, err
		}
		n, ok := number(nth)
		if !ok || n < 1 || n > 5 {
			return true, fmt.Errorf("%s is wrong, want #1 to #5", show("#"+nth))
		}
		days.nthWeekday |= 1 << (7*(n-1) + w%7)
		return true, nil
	case f.days == weekDays && strings.HasSuffix(text, "L"):
		if text == "L" {
			return true, errors.New("want a day of the week before L, such as 5L or FRIL for the last Friday of the month")
		}
		w, err := f.value(text[:len(text)-1], item)
		days.lastWeekday |= 1 << (w % 7)
		return true, err
	}
	return false, nil
}

// parseMonthDay adds one of L, L-3, 15W, LW and L-3W.
func (f *field) parseMonthDay(item, text string, days *relativeDays) error {
	day, nearest := strings.CutSuffix(text, "W")
	before, last := strings.CutPrefix(day, "L")
	if !last {
		d, err := f.value(day, item)
		days.nearest |= 1 << d
		return err
	}
	n := 0
	if before != "" {
		var ok bool
		if n, ok = number(strings.TrimPrefix(before, "-")); !ok || before[0] != '-' || n < 1 || n >= f.hi {
			return fmt.Errorf("%s is wrong, want L or L-1 to L-%d", show(day), f.hi-1)
		}
	}
	if nearest {
		days.nearestLast |= 1 << n
	} else {
		days.last |= 1 << n
	}
	return nil
}

// onMonthDay reports whether a day of the month, a given day of the week, is one of L, L-3, 15W and LW. The month ends with last.
func (r *relativeDays) onMonthDay(d, last int, w time.Weekday) bool {
	if r.last&(1<<(last-d)) != 0 {
		return true
	}
	if r.nearest|r.nearestLast == 0 || w == time.Saturday || w == time.Sunday {
		return false
	}
	return r.near(d, last) || w == time.Friday && (d+1 <= last && r.near(d+1, last) || d+2 == last && r.near(last, last)) ||
		w == time.Monday && (d > 1 && r.near(d-1, last) || d == 3 && r.near(1, last))
}

// near reports whether the weekday nearest to a day of the month is meant.
func (r *relativeDays) near(d, last int) bool {
	return r.nearest&(1<<d) != 0 || r.nearestLast&(1<<(last-d)) != 0
}

// onWeekday reports whether it is one of 5L and 5#2.
func (r *relativeDays) onWeekday(d, last int, w time.Weekday) bool {
	return r.lastWeekday&(1<<w) != 0 && d+7 > last || r.nthWeekday&(1<<(7*((d-1)/7)+int(w))) != 0
}
