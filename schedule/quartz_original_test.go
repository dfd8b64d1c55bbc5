package schedule_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/schedule"
)

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
