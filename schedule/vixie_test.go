package schedule_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
	_ "time/tzdata" // the zones are the same on each machine

	"github.com/holter-iot/holter/internal/test/testcron"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/schedule"
)

// An expression never fires if no day of years of all kinds does.
func TestNeverLikeCounting(t *testing.T) {
	r, expressions := newRand(11), 100
	if testenv.Checks() {
		expressions = 150
	}
	for range expressions {
		x := testcron.Random(r)
		_, err := schedule.ParseIn(x.Text, time.UTC)
		if never := errors.Is(err, schedule.ErrNever); err != nil && !never || never == x.HasDay() {
			t.Errorf("ParseIn(%q): %v", x.Text, err)
		}
	}
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
	expressions := 3
	if testenv.Checks() {
		expressions = 6
	}
	for i, tt := range tests {
		t.Run(fmt.Sprintf("%s/%d", tt.zone, tt.year), func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(i), 7))
			loc := mustZone(t, tt.zone)
			v := testcron.NewVixie(loc, time.Date(tt.year, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(tt.year+1, 1, 1, 0, 0, 0, 0, time.UTC), time.Minute)
			for range expressions {
				x := testcron.Random(r)
				s, err := schedule.ParseIn(x.Text, loc)
				if errors.Is(err, schedule.ErrNever) {
					continue
				} else if err != nil {
					t.Fatalf("ParseIn(%q): %v", x.Text, err)
				}
				compare(t, x.Text, s, v.Runs(x), v.Instants[0].Add(-time.Second), v.Instants[len(v.Instants)-1])
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
		t.Fatalf("%q: Next(%v) = %v, want none in that time", text, after, got)
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

// The same with seconds, for the two days around each change of the clock.
func TestNextLikeVixieCronWithSeconds(t *testing.T) {
	for i, change := range []struct{ zone, day string }{
		{"Europe/Berlin", "2026-03-29"},
		{"Europe/Berlin", "2026-10-25"},
		{"Australia/Lord_Howe", "2026-04-05"},
		{"Australia/Lord_Howe", "2026-10-04"},
		{"America/Sao_Paulo", "2018-02-18"},
		{"America/Sao_Paulo", "2018-11-04"},
	} {
		t.Run(change.zone+"/"+change.day, func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(i), 8))
			loc := mustZone(t, change.zone)
			day := at(t, change.day+"T00:00:00Z")
			v := testcron.NewVixie(loc, day.Add(-24*time.Hour), day.Add(24*time.Hour), time.Second)
			for range 12 {
				x := testcron.PlainSeconds(r)
				s, err := schedule.ParseIn(x.Text, loc)
				if errors.Is(err, schedule.ErrNever) {
					continue
				} else if err != nil {
					t.Fatalf("ParseIn(%q): %v", x.Text, err)
				}
				compare(t, x.Text, s, v.Runs(x), v.Instants[0].Add(-time.Second), v.Instants[len(v.Instants)-1])
			}
		})
	}
}
