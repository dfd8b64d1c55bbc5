package schedule_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holter-iot/holter/schedule"
)

// What the tests of robfig/cron (spec_test.go of github.com/robfig/cron) ask of its expressions, told anew.
func TestRobfigInstants(t *testing.T) {
	const monday = "2012-07-09T23:35:51Z"
	tests := []struct{ name, text, after, want string }{
		{"quarters of an hour", "0 0/15 * * * *", "2012-07-09T14:59:59Z", "2012-07-09T15:00:00Z"},
		{"quarters of an hour from 5 on", "0 5/15 * * * *", "2012-07-09T15:05:00Z", "2012-07-09T15:20:00Z"},
		{"into the next hour", "0 20-35/15 * * * *", "2012-07-09T15:45:00Z", "2012-07-09T16:20:00Z"},
		{"into the next day", "15/35 20-35/15 * * * *", monday, "2012-07-10T00:20:15Z"},
		{"odd hours", "15/35 20-35/15 1/2 * * *", monday, "2012-07-10T01:20:15Z"},
		{"a range of hours", "15/35 20-35/15 10-12 * * *", monday, "2012-07-10T10:20:15Z"},
		{"odd days", "15/35 20-35/15 1/2 */2 * *", monday, "2012-07-11T01:20:15Z"},
		{"a range of days", "15/35 20-35/15 * 9-20 Jul *", monday, "2012-07-10T00:20:15Z"},
		{"into the next month", "0 0 0 9 Apr-Oct ?", monday, "2012-08-09T00:00:00Z"},
		{"both kinds of days, one with *", "0 0 0 */5 Apr,Aug,Oct Mon", monday, "2012-08-06T00:00:00Z"},
		{"the same, a month", "0 0 0 */5 Oct Mon", monday, "2012-10-01T00:00:00Z"},
		{"into the next year", "0 0 0 * Feb Mon", monday, "2013-02-04T00:00:00Z"},
		{"weekdays from Monday by twos", "0 0 0 * Feb Mon/2", monday, "2013-02-01T00:00:00Z"},
		{"a leap year", "0 0 0 29 Feb ?", monday, "2016-02-29T00:00:00Z"},
		{"all fields turn over", "0 * * * * *", "2012-12-31T23:59:45Z", "2013-01-01T00:00:00Z"},
		{"both kinds of days, either", "0 0 0 1,15 * Sun", "2012-07-31T12:00:00Z", "2012-08-01T00:00:00Z"},
		{"every day from Monday on, to Saturday", "0 0 0 * * 1/1", "2012-07-14T12:00:00Z", "2012-07-16T00:00:00Z"},
		{"a step beyond the range", "0 */90 * * * *", "2012-07-09T15:00:00Z", "2012-07-09T16:00:00Z"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := schedule.ParseIn(tt.text, time.UTC)
			if err != nil {
				t.Fatal(err)
			}
			checkInstants(t, s, at(t, tt.after), []string{tt.want})
		})
	}
	for _, text := range []string{"0 0 0 30 Feb ?", "0 0 0 31 Apr ?"} {
		if _, err := schedule.Parse(text); !errors.Is(err, schedule.ErrNever) {
			t.Errorf("%q: %v, want ErrNever", text, err)
		}
	}
}
