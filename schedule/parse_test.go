package schedule_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holter-iot/holter/schedule"
)

func TestParse(t *testing.T) {
	tests := []struct {
		name string
		text string
		want []string // after 2026-01-01T00:00:00Z, a Thursday
	}{
		{"five fields", "15 10 * * *", []string{"2026-01-01T10:15:00Z", "2026-01-02T10:15:00Z"}},
		{"six fields", "30 15 10 * * *", []string{"2026-01-01T10:15:30Z"}},
		{"every second", "* * * * * *", []string{"2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z"}},
		{"names in any case", "0 0 * feb mOn", []string{"2026-02-02T00:00:00Z", "2026-02-09T00:00:00Z"}},
		{"range of names", "0 0 * NOV-DEC FRI-SAT", []string{"2026-11-06T00:00:00Z", "2026-11-07T00:00:00Z", "2026-11-13T00:00:00Z"}},
		{"0 and 7 are Sunday", "0 0 * * 7", []string{"2026-01-04T00:00:00Z"}},
		{"range across the end", "0 22-1 * * *", []string{"2026-01-01T01:00:00Z", "2026-01-01T22:00:00Z", "2026-01-01T23:00:00Z", "2026-01-02T00:00:00Z"}},
		{"across the week", "0 0 * * FRI-SUN", []string{"2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z", "2026-01-04T00:00:00Z", "2026-01-09T00:00:00Z"}},
		{"list with a step", "0,30-40/5 0 * * *", []string{"2026-01-01T00:30:00Z", "2026-01-01T00:35:00Z", "2026-01-01T00:40:00Z", "2026-01-02T00:00:00Z"}},
		{"value with a step goes to the end", "50/4 0 * * *", []string{"2026-01-01T00:50:00Z", "2026-01-01T00:54:00Z", "2026-01-01T00:58:00Z", "2026-01-02T00:50:00Z"}},
		{"day of month or of week", "0 0 13 * FRI", []string{"2026-01-02T00:00:00Z", "2026-01-09T00:00:00Z", "2026-01-13T00:00:00Z", "2026-01-16T00:00:00Z"}},
		{"a step counts as *: both days", "0 0 */10 * FRI", []string{"2026-05-01T00:00:00Z", "2026-07-31T00:00:00Z"}},
		{"? is *", "0 0 ? * MON", []string{"2026-01-05T00:00:00Z"}},
		{"@yearly", "@yearly", []string{"2027-01-01T00:00:00Z"}},
		{"@annually", "@annually", []string{"2027-01-01T00:00:00Z"}},
		{"@monthly", "@monthly", []string{"2026-02-01T00:00:00Z"}},
		{"@weekly", "@weekly", []string{"2026-01-04T00:00:00Z"}},
		{"@daily", "@daily", []string{"2026-01-02T00:00:00Z"}},
		{"@midnight", "@midnight", []string{"2026-01-02T00:00:00Z"}},
		{"@hourly", "@hourly", []string{"2026-01-01T01:00:00Z"}},
		{"@every counts from 1970", "@every 5h", []string{"2026-01-01T04:00:00Z", "2026-01-01T09:00:00Z"}},
		{"@every below a second", "@every 250ms", []string{"2026-01-01T00:00:00.25Z", "2026-01-01T00:00:00.5Z"}},
		{"zone and blanks", "  CRON_TZ=Asia/Tokyo   0  9 * *\t* ", []string{"2026-01-02T09:00:00+09:00"}},
		{"zone and descriptor", "TZ=Asia/Kolkata @daily", []string{"2026-01-02T00:00:00+05:30"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := schedule.ParseIn(tt.text, time.UTC)
			if err != nil {
				t.Fatal(err)
			}
			checkInstants(t, s, at(t, "2026-01-01T00:00:00Z"), tt.want)
		})
	}
}

func TestParseErrors(t *testing.T) {
	tests := []struct {
		text string
		want string
	}{
		{"", "schedule: the expression has 0 fields: want 5 (minute, hour, day of month, month, day of week) or 6 (second first)"},
		{"* * * *", "schedule: the expression has 4 fields: want 5 (minute, hour, day of month, month, day of week) or 6 (second first)"},
		{"* * * * * * 2026", "schedule: the expression has 7 fields: want 5 (minute, hour, day of month, month, day of week) or 6 (second first)"},
		{"0 25 * * *", "schedule: field 2 (hour) is 25: want 0 to 23"},
		{"0 0 25 * * *", "schedule: field 3 (hour) is 25: want 0 to 23"},
		{"99 * * * * *", "schedule: field 1 (second) is 99: want 0 to 59"},
		{"0 0 0 * *", "schedule: field 3 (day of month) is 0: want 1 to 31"},
		{"0 0 * 13 *", "schedule: field 4 (month) is 13: want 1 to 12 or JAN to DEC"},
		{"0 0 * * 8", "schedule: field 5 (day of week) is 8: want 0 to 7 or SUN to SAT"},
		{"0 0 * * MONDAY", "schedule: field 5 (day of week) is MONDAY: want 0 to 7 or SUN to SAT"},
		{"0 9-25 * * *", "schedule: field 2 (hour) is 9-25: 25 is wrong, want 0 to 23"},
		{"0 1,2,24 * * *", "schedule: field 2 (hour) is 1,2,24: in 24: want 0 to 23"},
		{"0 1,,2 * * *", "schedule: field 2 (hour) is 1,,2: a value is missing: want 0 to 23"},
		{", 1 * * *", "schedule: field 1 (minute) is ,: a value is missing: want 0 to 59"},
		{"5- 1 * * *", "schedule: field 1 (minute) is 5-: a value is missing, want 0 to 59"},
		{"-5 1 * * *", "schedule: field 1 (minute) is -5: a value is missing, want 0 to 59"},
		{"1-2-3 1 * * *", "schedule: field 1 (minute) is 1-2-3: 2-3 is wrong, want 0 to 59"},
		{"+5 1 * * *", "schedule: field 1 (minute) is +5: want 0 to 59"},
		{"*-5 1 * * *", "schedule: field 1 (minute) is *-5: * is wrong, want 0 to 59"},
		{"? 1 * * *", "schedule: field 1 (minute) is ?: want 0 to 59"},
		{"*/0 1 * * *", "schedule: field 1 (minute) is */0: the step is 0, want 1 to 59"},
		{"*/60 1 * * *", "schedule: field 1 (minute) is */60: the step is 60, want 1 to 59"},
		{"*/ 1 * * *", `schedule: field 1 (minute) is */: the step is "", want 1 to 59`},
		{"*/2/3 1 * * *", "schedule: field 1 (minute) is */2/3: the step is 2/3, want 1 to 59"},
		{"59/2 1 * * *", "schedule: field 1 (minute) is 59/2: the step is 2, want none: there is one value only"},
		{"0 0 * * FRI-MON/2", "schedule: field 5 (day of week) is FRI-MON/2: a step across the end of the week: want the days one by one"},
		{"99999999999999999999 1 * * *", "schedule: field 1 (minute) is 99999999999999999999: want 0 to 59"},
		{"0 0 L * *", "schedule: field 3 (day of month) is L: want 1 to 31"},
		{"0 \x00 * * *", `schedule: field 2 (hour) is "\x00": want 0 to 23`},
		{"@reboot", "schedule: @reboot is not known: want @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly or @every and a period"},
		{"@daily 5", "schedule: @daily is followed by 5: want nothing"},
		{"@every", "schedule: @every is followed by 0 words: want one period such as 90s or 1h30m"},
		{"@every 5", "schedule: the period of @every is 5: want a number and a unit, such as 90s, 1h30m or 250ms"},
		{"@every -5s", "schedule: the period is -5s: want 1ms or more"},
		{"@every 5us", "schedule: the period is 5µs: want 1ms or more"},
		{"CRON_TZ=Europe/Berln 0 0 * * *", "schedule: time zone Europe/Berln is not known here: want a name of the IANA time zone database such as Europe/Berlin"},
		{"TZ=../../etc/passwd 0 0 * * *", "schedule: time zone ../../etc/passwd is not known here: want a name of the IANA time zone database such as Europe/Berlin"},
		{"TZ= 0 0 * * *", "schedule: the time zone has no name: want a name of the IANA time zone database such as Europe/Berlin"},
		{"TZ=UTC", "schedule: the expression has 0 fields: want 5 (minute, hour, day of month, month, day of week) or 6 (second first)"},
		{strings.Repeat("*", 1025), "schedule: the expression has 1025 bytes: want 1024 at most"},
	}
	for _, tt := range tests {
		t.Run(tt.text[:min(len(tt.text), 40)], func(t *testing.T) {
			_, err := schedule.Parse(tt.text)
			if err == nil || err.Error() != tt.want {
				t.Errorf("Parse(%q): %v, want %s", tt.text, err, tt.want)
			}
		})
	}
	if _, err := schedule.ParseIn("@daily", nil); err == nil {
		t.Error("ParseIn with no location: no error")
	}
}

func TestParseNever(t *testing.T) {
	for _, text := range []string{"0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 30-31 FEB */2"} {
		if _, err := schedule.Parse(text); !errors.Is(err, schedule.ErrNever) {
			t.Errorf("Parse(%q): %v, want ErrNever", text, err)
		}
	}
	_, err := schedule.Parse("0 0 0 30 2 *")
	const want = "schedule: it never fires: fields 4 and 5 (day of month, month) are 30 and 2, and no such month has such a day"
	if err == nil || err.Error() != want {
		t.Errorf("six fields: %v, want %s", err, want)
	}
	for _, text := range []string{"0 0 30 2 MON", "0 0 29 2 *", "0 0 31 2,3 *"} {
		mustParse(t, text)
	}
}

// The next instant is strictly later, matches the fields in local time unless local time jumped, and nothing is left out between.
func TestNextProperties(t *testing.T) {
	zones := []string{
		"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "America/Sao_Paulo", "Africa/Monrovia", "Asia/Kathmandu",
	}
	rapid.Check(t, func(t *rapid.T) {
		x := randomExpression(newRand(rapid.Uint64().Draw(t, "expression")))
		loc, err := time.LoadLocation(rapid.SampledFrom(zones).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		s, err := schedule.ParseIn(x.text, loc)
		if errors.Is(err, schedule.ErrNever) {
			t.Skip("the expression matches no instant")
		} else if err != nil {
			t.Fatal(err)
		}
		// Each second time near the turn of a year, where the time package's idea of a zone has its seams.
		if rapid.Bool().Draw(t, "turn") {
			turn := time.Date(rapid.IntRange(1971, 2096).Draw(t, "year"), 1, 1, 0, 0, 0, 0, time.UTC).Unix()
			checkNext(t, x, s, loc, time.Unix(turn+rapid.Int64Range(-3*86400, 86400).Draw(t, "around"), 0))
			return
		}
		after := time.Unix(rapid.Int64Range(1e5, 4e9).Draw(t, "after"), rapid.Int64Range(0, 1e9-1).Draw(t, "nanos"))
		checkNext(t, x, s, loc, after)
	})
}

func checkNext(t *rapid.T, x expression, s schedule.Schedule, loc *time.Location, after time.Time) {
	next := s.Next(after)
	if !next.After(after) || next.Location() != loc {
		t.Fatalf("%q: Next(%v) = %v", x.text, after.In(loc), next)
	}
	start, _ := next.ZoneBounds()
	_, offset := next.Zone()
	if !next.Equal(start) && (!x.matches((next.Unix()+int64(offset))/60) || next.Second() != 0 || next.Nanosecond() != 0) {
		t.Fatalf("%q: Next(%v) = %v, which does not match", x.text, after.In(loc), next)
	}
	between := after.Add(time.Duration(rapid.Int64Range(0, int64(next.Sub(after)-1)).Draw(t, "between")))
	if got := s.Next(between); !got.Equal(next) {
		t.Fatalf("%q: Next(%v) = %v, but Next(%v) = %v", x.text, after.In(loc), next, between.In(loc), got)
	}
}

func TestPeriod(t *testing.T) {
	start := at(t, "2026-01-01T00:00:00Z")
	s, err := schedule.Period(start, 90*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	checkInstants(t, s, start.Add(-time.Hour), []string{"2026-01-01T00:00:00Z", "2026-01-01T00:01:30Z", "2026-01-01T00:03:00Z"})
	if got := s.Next(start.AddDate(300, 0, 0)); !got.IsZero() {
		t.Errorf("300 years later: %v, want none", got)
	}
	checkInstants(t, schedule.Starting(s, start.Add(time.Second)), start, []string{"2026-01-01T00:00:01Z", "2026-01-01T00:01:31Z"})
	daily := schedule.Starting(schedule.Starting(mustParse(t, "TZ=UTC @daily"), start.AddDate(0, 0, 2)), start)
	checkInstants(t, daily, start, []string{"2026-01-03T00:00:00Z", "2026-01-04T00:00:00Z"})
}
