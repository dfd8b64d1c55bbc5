package schedule_test

import (
	"fmt"
	"math/rand/v2"
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

// expression is a random crontab expression of five fields, and what it means.
type expression struct {
	text   string
	sets   [5]uint64
	wild   bool
	either bool
}

func (x expression) matches(civilMinute int64) bool {
	has := func(field, value int) bool { return x.sets[field]&(1<<value) != 0 }
	if !has(0, int(civilMinute%60)) || !has(1, int(civilMinute/60%24)) {
		return false
	}
	t := time.Unix(civilMinute*60, 0).UTC()
	day, week := has(2, t.Day()), has(4, int(t.Weekday()))
	if x.either {
		day = day || week
	} else {
		day = day && week
	}
	return day && has(3, int(t.Month()))
}

func randomExpression(r *rand.Rand) expression {
	bounds := [5][2]int{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 6}}
	var x expression
	var texts, stars [5]string
	for i, b := range bounds {
		star := []int{3, 2, 2, 1, 2}[i] // of 4: how often the field is no star
		texts[i], x.sets[i] = "*", ^uint64(0)
		if r.IntN(4) < star {
			texts[i], x.sets[i] = randomField(r, b[0], b[1])
		}
		stars[i] = texts[i][:1]
	}
	x.text = strings.Join(texts[:], " ")
	x.wild = stars[0] == "*" || stars[1] == "*"
	x.either = stars[2] != "*" && stars[4] != "*"
	return x
}

func randomField(r *rand.Rand, lo, hi int) (string, uint64) {
	var texts []string
	var set uint64
	for range 1 + r.IntN(3) {
		a := lo + r.IntN(hi-lo+1)
		b := a + r.IntN(hi-a+1)
		step := 1
		switch text := strconv.Itoa(a); r.IntN(4) {
		case 0:
			b = a
			texts = append(texts, text)
		case 1:
			texts = append(texts, fmt.Sprintf("%d-%d", a, b))
		case 2:
			if b > a+1 {
				step = 1 + r.IntN(b-a)
			}
			texts = append(texts, fmt.Sprintf("%d-%d/%d", a, b, step))
		default:
			a, b, step = lo, hi, 1+r.IntN(hi-lo)
			texts = append(texts, fmt.Sprintf("*/%d", step))
		}
		for v := a; v <= b; v += step {
			set |= 1 << v
		}
	}
	return strings.Join(texts, ","), set
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
	expressions := 6
	if testing.Short() {
		expressions = 3
	}
	for i, tt := range tests {
		t.Run(fmt.Sprintf("%s/%d", tt.zone, tt.year), func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(i), 7))
			loc := mustZone(t, tt.zone)
			v := newVixie(loc, tt.year)
			for range expressions {
				x := randomExpression(r)
				s, err := schedule.ParseIn(x.text, loc)
				if err != nil {
					if strings.Contains(err.Error(), "never") || strings.Contains(err.Error(), "the step is") {
						continue
					}
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
