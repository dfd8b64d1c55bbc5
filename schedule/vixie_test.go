package schedule_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the zones are the same on each machine

	"github.com/holter-iot/holter/schedule"
)

// vixie plays the main loop of Vixie cron (cron.c of cron 4.1 and of cronie: the four kinds of wakeups), a minute at a time, over the local time of a year.
type vixie struct {
	minutes []time.Time // all minutes of the year
	local   []int64     // their civil minutes
}

func newVixie(loc *time.Location, year int) *vixie {
	v := &vixie{}
	end := time.Date(year+1, 1, 1, 0, 0, 0, 0, time.UTC)
	for t := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC); t.Before(end); t = t.Add(time.Minute) {
		_, offset := t.In(loc).Zone()
		v.minutes = append(v.minutes, t.In(loc))
		v.local = append(v.local, (t.Unix()+int64(offset))/60)
	}
	return v
}

// runs returns when an expression runs.
func (v *vixie) runs(x expression) []time.Time {
	var runs []time.Time
	virtual := v.local[0] - 1
	for i, t := range v.minutes {
		local := v.local[i]
		jump := local - virtual - 1
		fire := x.wild && x.matches(local)
		switch {
		case jump >= 180 || jump < -180:
			fire, virtual = x.matches(local), local
		case jump >= 0:
			for virtual < local {
				virtual++
				fire = fire || !x.wild && x.matches(virtual)
			}
		}
		if fire {
			runs = append(runs, t)
		}
	}
	return runs
}

// expression is a random crontab expression of five or seven fields, and what it means.
type expression struct {
	text   string
	fields [6]func(day time.Time, value int) bool // minute, hour, day of month, month, day of week, year
	days   map[int64]bool                         // that were asked for
	wild   bool
	either bool
}

func (x expression) matches(civilMinute int64) bool {
	if !x.fields[0](time.Time{}, int(civilMinute%60)) || !x.fields[1](time.Time{}, int(civilMinute/60%24)) {
		return false
	}
	day := civilMinute / (24 * 60)
	matches, known := x.days[day]
	if !known {
		matches = x.matchesDay(time.Unix(civilMinute*60, 0).UTC())
		x.days[day] = matches
	}
	return matches
}

func (x expression) matchesDay(t time.Time) bool {
	day, week := x.fields[2](t, t.Day()), x.fields[4](t, int(t.Weekday()))
	if x.either {
		day = day || week
	} else {
		day = day && week
	}
	return day && x.fields[3](t, int(t.Month())) && x.fields[5](t, t.Year())
}

func randomExpression(r *rand.Rand) expression {
	bounds := [6][2]int{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 6}, {1970, 2199}}
	x := expression{days: make(map[int64]bool)}
	var texts, stars [6]string
	for i, b := range bounds {
		star := []int{3, 2, 2, 1, 2, 1}[i] // of 4: how often the field is no star
		texts[i], x.fields[i] = "*", func(time.Time, int) bool { return true }
		if r.IntN(4) < star {
			texts[i], x.fields[i] = randomField(r, i, b[0], b[1])
		}
		stars[i] = texts[i][:1]
	}
	x.text = strings.Join(texts[:5], " ")
	if texts[5] != "*" {
		x.text = "0 " + x.text + " " + texts[5]
	}
	x.wild = stars[0] == "*" || stars[1] == "*"
	x.either = stars[2] != "*" && stars[4] != "*"
	return x
}

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

// An expression never fires if no day of years of all kinds does.
func TestNeverLikeCounting(t *testing.T) {
	r := newRand(11)
	for range 400 {
		x := randomExpression(r)
		_, err := schedule.ParseIn(x.text, time.UTC)
		if never := errors.Is(err, schedule.ErrNever); err != nil && !never || never == x.hasDay() {
			t.Errorf("ParseIn(%q): %v", x.text, err)
		}
	}
}

func (x expression) hasDay() bool {
	for d := time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC); d.Year() < 2200; d = d.AddDate(0, 0, 1) {
		if x.matchesDay(d) {
			return true
		}
	}
	return false
}

// Next must agree with the program whose behaviour the package promises, for each minute of years with all kinds of changes.
func TestNextLikeVixieCron(t *testing.T) {
	tests := []struct {
		zone string
		year int
		why  string
	}{
		{"UTC", 2026, "none"},
		{"Europe/Berlin", 2026, "an hour at 2 in spring, at 3 in autumn"},
		{"America/New_York", 2026, "an hour at 2"},
		{"Australia/Lord_Howe", 2026, "half an hour at 2"},
		{"Pacific/Apia", 2011, "a day was left out"},
		{"America/Sao_Paulo", 2018, "midnight did not exist"},
		{"Antarctica/Troll", 2026, "two hours"},
		{"Africa/Casablanca", 2026, "the hour is taken back for Ramadan"},
		{"Asia/Kathmandu", 1986, "a quarter of an hour, at midnight of New Year's day"},
		{"Antarctica/Casey", 2010, "three hours back"},
		{"Europe/Berlin", 2040, "a leap year beyond the table of changes"},
		{"Australia/Sydney", 2044, "the same, where summer is in winter"},
		{"Asia/Pyongyang", 2018, "half an hour before midnight, for good"},
	}
	expressions := 12
	if testing.Short() {
		expressions = 6
	}
	for i, tt := range tests {
		t.Run(fmt.Sprintf("%s/%d", tt.zone, tt.year), func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(i), 7))
			loc := mustZone(t, tt.zone)
			v := newVixie(loc, tt.year)
			for range expressions {
				x := randomExpression(r)
				s, err := schedule.ParseIn(x.text, loc)
				if errors.Is(err, schedule.ErrNever) {
					continue
				} else if err != nil {
					t.Fatalf("ParseIn(%q): %v", x.text, err)
				}
				compare(t, x.text, s, v.runs(x), v.minutes[0].Add(-time.Second), v.minutes[len(v.minutes)-1])
			}
		})
	}
}

// compare checks that a schedule has exactly the given instants in a while.
func compare(t *testing.T, text string, s schedule.Schedule, want []time.Time, after, last time.Time) {
	t.Helper()
	for _, w := range want {
		got := s.Next(after)
		if !got.Equal(w) {
			t.Fatalf("%q: Next(%v) = %v, want %v", text, after, got, w)
		}
		after = got
	}
	if got := s.Next(after); !got.IsZero() && !got.After(last) {
		t.Fatalf("%q: Next(%v) = %v, want none in the year", text, after, got)
	}
}

func mustZone(tb testing.TB, name string) *time.Location {
	tb.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		tb.Fatal(err)
	}
	return loc
}

// ends reports whether the expression has years, after which it has no instant.
func (x expression) ends() bool { return len(strings.Fields(x.text)) == 7 }
