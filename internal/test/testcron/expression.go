package testcron

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Expression is a crontab expression, and what it means. It is for one goroutine.
type Expression struct {
	Text string // of five, six or seven fields
	Wild bool   // the second, minute or hour begins with *, so it follows the clock on the wall

	second func(int) bool                         // nil for 0
	fields [6]func(day time.Time, value int) bool // minute, hour, day of month, month, day of week, year
	days   map[int64]bool                         // that were asked for
	either bool
}

// Matches reports whether the fields match a civil second: that of 1970-01-01 00:00:00 is 0 in each zone.
func (x Expression) Matches(civil int64) bool {
	second := int(civil % 60)
	if x.second == nil && second != 0 || x.second != nil && !x.second(second) {
		return false
	}
	if !x.fields[0](time.Time{}, int(civil/60%60)) || !x.fields[1](time.Time{}, int(civil/3600%24)) {
		return false
	}
	day := civil / (24 * 60 * 60)
	matches, known := x.days[day]
	if !known {
		matches = x.matchesDay(time.Unix(civil, 0).UTC())
		x.days[day] = matches
	}
	return matches
}

func (x Expression) matchesDay(t time.Time) bool {
	day, week := x.fields[2](t, t.Day()), x.fields[4](t, int(t.Weekday()))
	if x.either {
		day = day || week
	} else {
		day = day && week
	}
	return day && x.fields[3](t, int(t.Month())) && x.fields[5](t, t.Year())
}

// Random returns an expression of five or seven fields, with all that such a field may hold but names and H.
func Random(r *rand.Rand) Expression {
	x := Expression{days: make(map[int64]bool)}
	var texts, stars [6]string
	for i, b := range bounds() {
		star := []int{3, 2, 2, 1, 2, 1}[i] // of 4: how often the field is no star
		texts[i], x.fields[i] = "*", func(time.Time, int) bool { return true }
		if r.IntN(4) < star {
			texts[i], x.fields[i] = randomField(r, i, b[0], b[1])
		}
		stars[i] = texts[i][:1]
	}
	x.Text = strings.Join(texts[:5], " ")
	if texts[5] != "*" {
		x.Text = "0 " + x.Text + " " + texts[5]
	}
	x.Wild = stars[0] == "*" || stars[1] == "*"
	x.either = stars[2] != "*" && stars[4] != "*"
	return x
}

// bounds are the least and the greatest value of the fields.
func bounds() [6][2]int {
	return [6][2]int{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 6}, {1970, 2199}}
}

// HasDay reports whether any day that an expression may name matches.
func (x Expression) HasDay() bool {
	for d := time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC); d.Year() < 2200; d = d.AddDate(0, 0, 1) {
		if x.matchesDay(d) {
			return true
		}
	}
	return false
}

// Ends reports whether the expression has years, after which it has no instant.
func (x Expression) Ends() bool { return len(strings.Fields(x.Text)) == 7 }

func randomField(r *rand.Rand, i, lo, hi int) (string, func(time.Time, int) bool) {
	var texts []string
	var items []func(time.Time, int) bool
	for range 1 + r.IntN(3) {
		var text string
		var matches func(time.Time, int) bool
		switch {
		case i == 2 && r.IntN(2) == 0:
			text, matches = randomMonthDay(r)
		case i == 4 && r.IntN(2) == 0:
			text, matches = randomWeekday(r)
		case i == 5: // few years, about those that are tested
			lo := 2005 + r.IntN(10)
			text, matches = randomRange(r, lo, lo+r.IntN(40), false)
		default:
			text, matches = randomRange(r, lo, hi, true)
		}
		texts, items = append(texts, text), append(items, matches)
	}
	return strings.Join(texts, ","), func(day time.Time, value int) bool {
		return slices.ContainsFunc(items, func(m func(time.Time, int) bool) bool { return m(day, value) })
	}
}

// randomRange returns a value, a range that may pass the end, or all from lo to hi, with steps that may be wider than that.
func randomRange(r *rand.Rand, lo, hi int, wraps bool) (string, func(time.Time, int) bool) {
	a, b, step := lo+r.IntN(hi-lo+1), lo+r.IntN(hi-lo+1), 1
	var text string
	switch r.IntN(5) {
	case 0:
		text, b = strconv.Itoa(a), a
	case 1:
		step = 1 + r.IntN(hi-lo+3)
		text, b = fmt.Sprintf("%d/%d", a, step), hi
		if !wraps {
			b = 2199
		}
	case 2, 3:
		if !wraps {
			a, b = min(a, b), max(a, b)
		}
		step = 1 + r.IntN(4)
		text = fmt.Sprintf("%d-%d/%d", a, b, step)
		if step == 1 {
			text = fmt.Sprintf("%d-%d", a, b)
		}
	default:
		step = 1 + r.IntN(hi-lo+3)
		text, a, b = fmt.Sprintf("*/%d", step), lo, hi
		if !wraps {
			a, b = 1970, 2199
		}
	}
	set := make([]bool, 2200)
	for i, v := 0, a; ; i, v = i+1, v+1 { // one by one, around the end
		if wraps && v > hi {
			v = lo
		}
		set[v] = set[v] || i%step == 0
		if v == b {
			break
		}
	}
	return text, func(_ time.Time, value int) bool { return set[value] }
}

// daysOfMonth returns the days of a day's month.
func daysOfMonth(day time.Time) (days []time.Time) {
	first := time.Date(day.Year(), day.Month(), 1, 0, 0, 0, 0, time.UTC)
	for d := first; d.Month() == first.Month(); d = d.AddDate(0, 0, 1) {
		days = append(days, d)
	}
	return days
}

// nearestWeekday returns the day from Monday to Friday that is nearest to the nth of a month's days; 0 if there is no nth.
func nearestWeekday(days []time.Time, nth int) int {
	best, distance := 0, 100
	for _, d := range days {
		away := max(d.Day()-nth, nth-d.Day())
		if d.Weekday() != time.Saturday && d.Weekday() != time.Sunday && away < distance {
			best, distance = d.Day(), away
		}
	}
	if nth < 1 || nth > len(days) {
		return 0
	}
	return best
}

func randomMonthDay(r *rand.Rand) (string, func(time.Time, int) bool) {
	n := r.IntN(31)
	before := ""
	if n > 0 {
		before = fmt.Sprintf("-%d", n)
	}
	switch r.IntN(3) {
	case 0:
		return "L" + before, func(day time.Time, d int) bool { return d == len(daysOfMonth(day))-n }
	case 1:
		return "L" + before + "W", func(day time.Time, d int) bool {
			days := daysOfMonth(day)
			return d == nearestWeekday(days, len(days)-n)
		}
	default:
		return fmt.Sprintf("%dW", n+1), func(day time.Time, d int) bool { return d == nearestWeekday(daysOfMonth(day), n+1) }
	}
}

func randomWeekday(r *rand.Rand) (string, func(time.Time, int) bool) {
	w, n := r.IntN(8), 1+r.IntN(5)
	same := func(day time.Time) (same []int) {
		for _, d := range daysOfMonth(day) {
			if int(d.Weekday()) == w%7 {
				same = append(same, d.Day())
			}
		}
		return same
	}
	if r.IntN(2) == 0 {
		return fmt.Sprintf("%dL", w), func(day time.Time, _ int) bool { return day.Day() == same(day)[len(same(day))-1] }
	}
	return fmt.Sprintf("%d#%d", w, n), func(day time.Time, _ int) bool {
		days := same(day)
		return n <= len(days) && day.Day() == days[n-1]
	}
}
