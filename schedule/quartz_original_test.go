package schedule_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/schedule"
)

// What Quartz's CronExpressionTest (github.com/quartz-scheduler/quartz) asks of L, W, # and years, told anew. Its days of the week
// are 1 higher than those of a crontab.
func TestQuartzInstants(t *testing.T) {
	tests := []struct {
		name, text, day string
		want            bool
	}{
		{"isSatisfiedBy", "0 15 10 * * ? 2005", "2005-06-01T10:15:00Z", true},
		{"isSatisfiedBy, another year", "0 15 10 * * ? 2005", "2006-06-01T10:15:00Z", false},
		{"isSatisfiedBy, a minute later", "0 15 10 * * ? 2005", "2005-06-01T10:16:00Z", false},
		{"isSatisfiedBy, a minute before", "0 15 10 * * ? 2005", "2005-06-01T10:14:00Z", false},
		{"lastDayOffset", "0 15 10 L-2 * ? 2010", "2010-10-29T10:15:00Z", true},
		{"lastDayOffset, the day before", "0 15 10 L-2 * ? 2010", "2010-10-28T10:15:00Z", false},
		{"lastDayOffset, a weekday", "0 15 10 L-5W * ? 2010", "2010-10-26T10:15:00Z", true},
		{"lastDayOffset of 1", "0 15 10 L-1 * ? 2010", "2010-10-30T10:15:00Z", true},
		{"lastDayOffset, nearest", "0 15 10 L-1W * ? 2010", "2010-10-29T10:15:00Z", true},
		{"lastDayOffset, nearest, not the day itself", "0 15 10 L-1W * ? 2010", "2010-10-30T10:15:00Z", false},
		{"QUARTZ-571", "19 15 10 4 Apr ? ", "2026-04-04T10:15:19Z", true},
		{"QUARTZ-640, 5L there, Thursday", "0 43 9 ? * 4L", "2026-10-29T09:43:00Z", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			day := at(t, tt.day)
			s, err := schedule.ParseIn(tt.text, time.UTC)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Next(day.Add(-time.Second)).Equal(day); got != tt.want {
				t.Errorf("%q at %s: %v, want %v", tt.text, tt.day, got, tt.want)
			}
		})
	}
}

// QTZ-259: an offset from the last day, and the last weekday, come once in each month.
func TestQuartzEachMonthOnce(t *testing.T) {
	for _, text := range []string{"0 0 0 L-2 * ? *", "0 0 0 LW * ? *"} {
		s, err := schedule.ParseIn(text, time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		last := s.Next(at(t, "2026-01-01T00:00:00Z"))
		for range 26 {
			next := s.Next(last)
			if months := int(next.Month()) - int(last.Month()) + 12*(next.Year()-last.Year()); months != 1 {
				t.Fatalf("%q: %v, then %v", text, last, next)
			}
			last = next
		}
	}
}

func TestQuartzErrors(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"QUARTZ-574", "* * * * Foo ?", "field 5 (month) is Foo"},
		{"QUARTZ-574, a range", "* * * * Jan-Foo ?", "field 5 (month) is Jan-Foo: Foo is wrong"},
		{"QUARTZ-640, L among days of the week", "0 43 9 ? * SAT,SUN,L", "in L: want a day of the week before L"},
		{"QTZ-96", "0/5 * * 32W 1 ?", "32 is wrong, want 1 to 31"},
		{"issue 58, no value", "/120 0 8-18 ? * 2-6", "a value is missing"},
		{"issue 58, no step", "0/ 0 8-18 ? * 2-6", `the step is ""`},
		{"issue 58, neither", "0 0 / ? * 2-6", `the step is ""`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := schedule.ParseIn(tt.text, time.UTC); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%q: %v, want %s", tt.text, err, tt.want)
			}
		})
	}
	// Refused by Quartz, and valid here as they are in a crontab: L in a list, * for both kinds of days, a step beyond the range.
	for _, text := range []string{"0 43 9 1,5,29,L * ?", "0 0 * * * *", "0 0 * 4 * *", "0 0 * * * 4", "0/120 0 8-18 ? * 2-6"} {
		if _, err := schedule.ParseIn(text, time.UTC); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}
