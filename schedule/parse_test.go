package schedule_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holter-iot/holter/internal/test/testcron"
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
		{"a step wider than the range: the first only", "*/90 5-6/20 * * *", []string{"2026-01-01T05:00:00Z", "2026-01-02T05:00:00Z"}},
		{"a step of one value", "59/2 0 5-5/9 * *", []string{"2026-01-05T00:59:00Z", "2026-02-05T00:59:00Z"}},
		{"a step across the end", "0 22-3/2 * * *", []string{"2026-01-01T02:00:00Z", "2026-01-01T22:00:00Z", "2026-01-02T00:00:00Z"}},
		{"a step across the week", "0 0 * * FRI-MON/2", []string{"2026-01-02T00:00:00Z", "2026-01-04T00:00:00Z", "2026-01-09T00:00:00Z"}},
		{"a weekday with a step goes to Saturday", "0 0 * * 1/2", []string{"2026-01-02T00:00:00Z", "2026-01-05T00:00:00Z", "2026-01-07T00:00:00Z", "2026-01-09T00:00:00Z"}},
		{"a range to the other Sunday", "0 0 * * 6-7", []string{"2026-01-03T00:00:00Z", "2026-01-04T00:00:00Z", "2026-01-10T00:00:00Z"}},
		{"the last day of the month", "0 0 L * *", []string{"2026-01-31T00:00:00Z", "2026-02-28T00:00:00Z", "2026-03-31T00:00:00Z"}},
		{"the third day before it", "0 0 L-3 2 *", []string{"2026-02-25T00:00:00Z", "2027-02-25T00:00:00Z", "2028-02-26T00:00:00Z"}},
		{"only long months have an L-30", "0 0 l-30 * *", []string{"2026-03-01T00:00:00Z", "2026-05-01T00:00:00Z"}},
		{"the nearest weekday", "0 0 15W * *", []string{"2026-01-15T00:00:00Z", "2026-02-16T00:00:00Z", "2026-03-16T00:00:00Z", "2026-04-15T00:00:00Z"}},
		{"the nearest weekday within the month", "0 0 1W,31W * *", []string{"2026-01-30T00:00:00Z", "2026-02-02T00:00:00Z", "2026-03-02T00:00:00Z", "2026-03-31T00:00:00Z"}},
		{"the last weekday", "0 0 LW * *", []string{"2026-01-30T00:00:00Z", "2026-02-27T00:00:00Z", "2026-03-31T00:00:00Z"}},
		{"the weekday nearest to L-1", "0 0 L-1W * *", []string{"2026-01-30T00:00:00Z", "2026-02-27T00:00:00Z", "2026-03-30T00:00:00Z"}},
		{"the last Friday", "0 0 * * 5L", []string{"2026-01-30T00:00:00Z", "2026-02-27T00:00:00Z", "2026-03-27T00:00:00Z"}},
		{"the last Sunday", "0 0 * * 7l,sunL", []string{"2026-01-25T00:00:00Z", "2026-02-22T00:00:00Z"}},
		{"the second Friday", "0 0 * * 5#2", []string{"2026-01-09T00:00:00Z", "2026-02-13T00:00:00Z"}},
		{"the fifth Sunday", "0 0 * * SUN#5", []string{"2026-03-29T00:00:00Z", "2026-05-31T00:00:00Z"}},
		{"the last day or the second Friday", "0 0 L * FRI#2", []string{"2026-01-09T00:00:00Z", "2026-01-31T00:00:00Z", "2026-02-13T00:00:00Z"}},
		{"years", "0 0 0 29 2 * 2027-2040", []string{"2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z", "2036-02-29T00:00:00Z", "2040-02-29T00:00:00Z"}},
		{"a list of years", "0 0 12 1 1 ? 2030,2028/50", []string{"2028-01-01T12:00:00Z", "2030-01-01T12:00:00Z", "2078-01-01T12:00:00Z", "2128-01-01T12:00:00Z", "2178-01-01T12:00:00Z"}},
		{"all years", "0 0 0 1 1 * *", []string{"2027-01-01T00:00:00Z", "2028-01-01T00:00:00Z"}},
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
		{"", "schedule: the expression has 0 fields: want 5 (minute, hour, day of month, month, day of week), 6 (second first) or 7 (year last)"},
		{"* * * *", "schedule: the expression has 4 fields: want 5 (minute, hour, day of month, month, day of week), 6 (second first) or 7 (year last)"},
		{"* * * * * * * *", "schedule: the expression has 8 fields: want 5 (minute, hour, day of month, month, day of week), 6 (second first) or 7 (year last)"},
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
		{"*/0 1 * * *", "schedule: field 1 (minute) is */0: the step is 0, want 1 or more"},
		{"*/ 1 * * *", `schedule: field 1 (minute) is */: the step is "", want 1 or more`},
		{"*/2/3 1 * * *", "schedule: field 1 (minute) is */2/3: the step is 2/3, want 1 or more"},
		{"/2 1 * * *", "schedule: field 1 (minute) is /2: a value is missing, want 0 to 59"},
		{"99999999999999999999 1 * * *", "schedule: field 1 (minute) is 99999999999999999999: want 0 to 59"},
		{"0 L * * *", "schedule: field 2 (hour) is L: want 0 to 23"},
		{"0 0 L-31 * *", "schedule: field 3 (day of month) is L-31: L-31 is wrong, want L or L-1 to L-30"},
		{"0 0 L-0 * *", "schedule: field 3 (day of month) is L-0: L-0 is wrong, want L or L-1 to L-30"},
		{"0 0 1,L3 * *", "schedule: field 3 (day of month) is 1,L3: in L3: L3 is wrong, want L or L-1 to L-30"},
		{"0 0 L/2 * *", "schedule: field 3 (day of month) is L/2: L/2 is wrong, want L or L-1 to L-30"},
		{"0 0 W * *", "schedule: field 3 (day of month) is W: a value is missing, want 1 to 31"},
		{"0 0 32W * *", "schedule: field 3 (day of month) is 32W: 32 is wrong, want 1 to 31"},
		{"0 0 1-5W * *", "schedule: field 3 (day of month) is 1-5W: 1-5 is wrong, want 1 to 31"},
		{"0 0 5L * *", "schedule: field 3 (day of month) is 5L: want 1 to 31"},
		{"0 0 * * L", "schedule: field 5 (day of week) is L: want a day of the week before L, such as 5L or FRIL for the last Friday of the month"},
		{"0 0 * * 8L", "schedule: field 5 (day of week) is 8L: 8 is wrong, want 0 to 7 or SUN to SAT"},
		{"0 0 * * FRI#6", "schedule: field 5 (day of week) is FRI#6: #6 is wrong, want #1 to #5"},
		{"0 0 * * 5#", "schedule: field 5 (day of week) is 5#: # is wrong, want #1 to #5"},
		{"0 0 * * #2", "schedule: field 5 (day of week) is #2: a value is missing, want 0 to 7 or SUN to SAT"},
		{"0 0 * * 1-5#2", "schedule: field 5 (day of week) is 1-5#2: 1-5 is wrong, want 0 to 7 or SUN to SAT"},
		{"0 0 * * 5W", "schedule: field 5 (day of week) is 5W: want 0 to 7 or SUN to SAT"},
		{"0 0 0 1 1 * 1969", "schedule: field 7 (year) is 1969: want 1970 to 2199"},
		{"0 0 0 1 1 * 2030-2027", "schedule: field 7 (year) is 2030-2027: 2027 is before 2030: want the earlier one first"},
		{"0 0 0 1 1 * H", "schedule: field 7 (year) is H: want 1970 to 2199"},
		{"0 0 1 1 * 2027", "schedule: field 6 (day of week) is 2027: want 0 to 7 or SUN to SAT"},
		{"H 0 * * *", "schedule: field 1 (minute) is H: H spreads schedules by their names, and this one has none"},
		{"H(5) 0 * * *", "schedule: field 1 (minute) is H(5): H(5) is wrong, want H or a range such as H(0-59)"},
		{"H(5-60) 0 * * *", "schedule: field 1 (minute) is H(5-60): 60 is wrong, want 0 to 59"},
		{"H- 0 * * *", "schedule: field 1 (minute) is H-: H- is wrong, want H or a range such as H(0-59)"},
		{"H/0 0 * * *", "schedule: field 1 (minute) is H/0: the step is 0, want 1 or more"},
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
		{"TZ=UTC", "schedule: the expression has 0 fields: want 5 (minute, hour, day of month, month, day of week), 6 (second first) or 7 (year last)"},
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

// H is one value for a name, always the same, and spreads names.
func TestParseNamed(t *testing.T) {
	tests := []struct {
		text     string
		from, to int // minutes of the hour
		runs     int // in an hour
		apart    int // minutes between two of them
		spread   int // first minutes that there are
	}{
		{"H * * * *", 0, 59, 1, 0, 60},
		{"h/15 * * * *", 0, 59, 4, 15, 15},
		{"H(0-29)/10 * * * *", 0, 29, 3, 10, 10},
		{"H(50-9) * * * *", 0, 59, 1, 0, 20},
		{"H(30-39) * * * *", 30, 39, 1, 0, 10},
		{"H/90 * * * *", 0, 59, 1, 0, 60},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			first := make(map[int]int)
			for i := range 600 {
				s, err := schedule.ParseNamed(fmt.Sprintf("backup-%d", i), tt.text, time.UTC)
				if err != nil {
					t.Fatal(err)
				}
				var minutes []int
				for next := s.Next(at(t, "2026-01-01T00:00:00Z").Add(-1)); next.Hour() == 0; next = s.Next(next) {
					minutes = append(minutes, next.Minute())
				}
				if len(minutes) != tt.runs || minutes[0] < tt.from || minutes[tt.runs-1] > tt.to {
					t.Fatalf("%d: minutes %v", i, minutes)
				}
				for k := 1; k < len(minutes); k++ {
					if minutes[k]-minutes[k-1] != tt.apart {
						t.Fatalf("%d: minutes %v", i, minutes)
					}
				}
				first[minutes[0]]++
			}
			if len(first) != tt.spread {
				t.Errorf("600 names are at %d minutes, want %d", len(first), tt.spread)
			}
			for m, n := range first {
				if n > 3*600/tt.spread {
					t.Errorf("%d of 600 names are at minute %d", n, m)
				}
			}
		})
	}
	for text, want := range map[string]string{ // the same for ever
		"H H * * *":        "2026-01-01T06:58:00Z",
		"H H H * *":        "2026-01-12T06:58:00Z",
		"H H H H *":        "2026-10-12T06:58:00Z",
		"H H * * H":        "2026-01-03T06:58:00Z",
		"H H H(1-7)/3 * *": "2026-01-02T06:58:00Z",
	} {
		s, err := schedule.ParseNamed("nightly", text, time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Next(at(t, "2026-01-01T00:00:00Z")).Format(time.RFC3339); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	if _, err := schedule.ParseIn("H 3 * * *", time.UTC); !errors.Is(err, schedule.ErrNoName) {
		t.Errorf("H without a name: %v, want ErrNoName", err)
	}
	var of *schedule.FieldError
	if _, err := schedule.Parse("TZ=UTC 0 0 25 * * *"); !errors.As(err, &of) || of.Field != 3 || of.Name != "hour" || of.Text != "25" {
		t.Errorf("a wrong hour: %+v", of)
	}
}

func TestParseNever(t *testing.T) {
	for _, text := range []string{
		"0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 30-31 FEB */2", "0 0 L-29 2 *", "0 0 30W 2 *", "0 0 31W 4 *", "0 0 LW * */6", "0 0 */40 2 1#2",
		"0 0 0 29 2 * 2025-2027", "0 0 0 */31 1 1#2 *",
	} {
		if _, err := schedule.Parse(text); !errors.Is(err, schedule.ErrNever) {
			t.Errorf("Parse(%q): %v, want ErrNever", text, err)
		}
	}
	_, err := schedule.Parse("0 0 0 30 2 *")
	const want = "schedule: it never fires: fields 4 and 5 (day of month, month) are 30 and 2, and no such month has such a day"
	if err == nil || err.Error() != want {
		t.Errorf("six fields: %v, want %s", err, want)
	}
	for text, want := range map[string]string{
		"0 0 L-29 2 *":           "schedule: it never fires: no day matches fields 3 to 5: L-29 2 *",
		"0 0 0 29 2 * 2025-2027": "schedule: it never fires: no day matches fields 4 to 7: 29 2 * 2025-2027",
		"0 0 0 LW 2 */6":         "schedule: it never fires: no day matches fields 4 to 6: LW 2 */6",
	} {
		if _, err := schedule.Parse(text); err == nil || err.Error() != want {
			t.Errorf("Parse(%q): %v, want %s", text, err, want)
		}
	}
	// After the last year, and in its last hours by any clock.
	for _, zone := range []string{"Pacific/Kiritimati", "Etc/GMT+12"} {
		s := mustParse(t, "TZ="+zone+" 59 59 23 31 12 ? 2027")
		last := s.Next(at(t, "2026-01-01T00:00:00Z"))
		if got := last.Format("2006-01-02 15:04:05"); got != "2027-12-31 23:59:59" || !s.Next(last).IsZero() || !s.Next(last.AddDate(3, 0, 0)).IsZero() {
			t.Errorf("%s: %s, then %v", zone, got, s.Next(last))
		}
	}
	for _, text := range []string{"0 0 30 2 MON", "0 0 29 2 *", "0 0 31 2,3 *", "0 0 29W 2 *", "0 0 * 2 1#5", "0 0 0 29 2 */6 2000-2040"} {
		mustParse(t, text)
	}
}

// The next instant is strictly later, matches the fields in local time unless local time jumped, and nothing is left out between.
func TestNextProperties(t *testing.T) {
	zones := []string{
		"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "America/Sao_Paulo", "Africa/Monrovia", "Asia/Kathmandu",
	}
	rapid.Check(t, func(t *rapid.T) {
		x := testcron.Random(newRand(rapid.Uint64().Draw(t, "expression")))
		loc, err := time.LoadLocation(rapid.SampledFrom(zones).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		s, err := schedule.ParseIn(x.Text, loc)
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

func checkNext(t *rapid.T, x testcron.Expression, s schedule.Schedule, loc *time.Location, after time.Time) {
	next := s.Next(after)
	if next.IsZero() && x.Ends() {
		return
	}
	if !next.After(after) || next.Location() != loc {
		t.Fatalf("%q: Next(%v) = %v", x.Text, after.In(loc), next)
	}
	start, _ := next.ZoneBounds()
	_, offset := next.Zone()
	if !next.Equal(start) && (!x.Matches(next.Unix()+int64(offset)) || next.Nanosecond() != 0) {
		t.Fatalf("%q: Next(%v) = %v, which does not match", x.Text, after.In(loc), next)
	}
	between := after.Add(time.Duration(rapid.Int64Range(0, int64(next.Sub(after)-1)).Draw(t, "between")))
	if got := s.Next(between); !got.Equal(next) {
		t.Fatalf("%q: Next(%v) = %v, but Next(%v) = %v", x.Text, after.In(loc), next, between.In(loc), got)
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
