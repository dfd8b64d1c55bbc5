package judgement

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseExpect(t *testing.T) {
	tests := []struct {
		name, in, zone string
		want           string // a part of the error begins with !
		apart          time.Duration
	}{
		{"UTC", "0 3 * * *", "", "0 3 * * * UTC", day},
		{"zone", "  0 3 * *  * Europe/Berlin ", "", "0 3 * * * Europe/Berlin", day},
		{"zone apart", "0 3 * * *", "Europe/Berlin", "0 3 * * * Europe/Berlin", day},
		{"days by name", "0 3 * * MON-FRI", "", "0 3 * * MON-FRI UTC", day},
		{"a day by name", "30 4 * * sun", "", "30 4 * * sun UTC", week},
		{"days by name and a zone", "0 3 * * Mon#1 America/New_York", "", "0 3 * * Mon#1 America/New_York", 28 * day},
		{"with a second", "30 0 3 * * *", "", "30 0 3 * * * UTC", day},
		{"with a second and a zone", "30 0 3 * * * CET", "", "30 0 3 * * * CET", day},
		{"by a word", "@hourly Asia/Kathmandu", "", "@hourly Asia/Kathmandu", time.Hour},
		{"each quarter", "0 0 1 1,4,7,10 *", "", "0 0 1 1,4,7,10 * UTC", 91 * day},
		{"empty", " ", "", "!it is empty", 0},
		{"empty, with a zone", " ", "Europe/Berlin", "!it is empty", 0},
		{"a word", "nightly", "", "!the expression has 1 field", 0},
		{"a word, with a zone", "nightly", "Europe/Berlin", "!the expression has 1 field", 0},
		{"a zone only", "Europe/Berlin", "", "!the expression has 1 field", 0},
		{"no zone", "0 3 * * * Europe/Bonn", "", `!there is no time zone "Europe/Bonn"`, 0},
		{"no zone apart", "0 3 * * *", "Local", `!there is no time zone "Local"`, 0},
		{"two zones", "0 3 * * * UTC", "CET", "!the time zone is given twice", 0},
		{"a zone that is a number", "0 3 * * *", "5", `!there is no time zone "5"`, 0},
		{"a zone of two words", "0 3 * * *", "Europe/Berlin UTC", `!there is no time zone "Europe/Berlin UTC"`, 0},
		{"zone in front", "CRON_TZ=UTC 0 3 * * *", "", "!write the time zone behind the expression", 0},
		{"field", "0 25 * * *", "", "!field 2 (hour) is 25: want 0 to 23", 0},
		{"fields", "0 3 * *", "", "!the expression has 4 fields", 0},
		{"year", "0 0 3 * * * 2027", "", "!it has a year", 0},
		{"period", "@every 1h", "", "!for a period a timeout alone is enough", 0},
		{"by a name", "H 3 * * *", "", "!H", 0},
		{"never", "0 0 30 2 *", "", "!it never fires", 0},
		{"in leap years", "0 0 29 2 *", "", "!more than half a year", 0},
		{"once a year", "@yearly", "", "!more than half a year", 0},
		{"some weeks of a year", "0 0 * 1-3 *", "", "!more than half a year", 0},
		{"too long", strings.Repeat("1,", 600) + "1 3 * * *", "", "!bytes", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseExpect(tt.in, tt.zone)
			if part, bad := strings.CutPrefix(tt.want, "!"); bad {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("ParseExpect(%q, %q) = %q, %v, want an error with %q", tt.in, tt.zone, got, err, part)
				}
				return
			}
			if got != tt.want || err != nil {
				t.Fatalf("ParseExpect(%q, %q) = %q, %v, want %q", tt.in, tt.zone, got, err, tt.want)
			}
			e, err := parseExpect(got)
			if err != nil || e.text != got || e.apart != tt.apart {
				t.Errorf("parseExpect(%q) = %+v, %v, want the same text and %v apart", got, e, err, tt.apart)
			}
		})
	}
}

func mustExpect(t interface {
	Helper()
	Fatal(args ...any)
}, text string,
) *expectation {
	t.Helper()
	e, err := parseExpect(text)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestExpectDue(t *testing.T) {
	const layout = "2006-01-02 15:04:05"
	tests := []struct {
		name, expect, heard, want string // in UTC
		grace                     time.Duration
	}{
		{"in between", "0 3 * * *", "2026-01-01 12:00:00", "2026-01-02 03:00:00", time.Hour},
		{"at the instant", "0 3 * * *", "2026-01-01 03:00:00", "2026-01-02 03:00:00", time.Hour},
		{"by a clock that is ahead", "0 3 * * *", "2026-01-01 02:59:58", "2026-01-02 03:00:00", time.Hour},
		{"just early enough", "0 3 * * *", "2026-01-01 02:59:01", "2026-01-02 03:00:00", time.Hour},
		{"too early", "0 3 * * *", "2026-01-01 02:59:00", "2026-01-01 03:00:00", time.Hour},
		{"too early for its grace", "0 3 * * *", "2026-01-01 02:59:55", "2026-01-01 03:00:00", 10 * time.Second},
		{"early, of a short grace", "0 3 * * *", "2026-01-01 02:59:56", "2026-01-02 03:00:00", 10 * time.Second},
		{"nearer to the one before", "* * * * *", "2026-01-01 03:00:29", "2026-01-01 03:01:00", time.Hour},
		{"nearer to the next", "* * * * *", "2026-01-01 03:00:31", "2026-01-01 03:02:00", time.Hour},
		{"as near to both", "* * * * *", "2026-01-01 03:00:30", "2026-01-01 03:02:00", time.Hour},
		{"nearer to the one before, irregular", "0,1 3 * * *", "2026-01-01 03:00:05", "2026-01-01 03:01:00", time.Hour},
		{"nearer to the next, irregular", "0,1 3 * * *", "2026-01-01 03:00:50", "2026-01-02 03:00:00", time.Hour},
		{"an hour that is skipped", "30 2 * * * Europe/Berlin", "2026-03-28 12:00:00", "2026-03-29 01:00:00", time.Hour},
		{"an hour that comes twice", "30 2 * * * Europe/Berlin", "2026-10-24 12:00:00", "2026-10-25 00:30:00", time.Hour},
		{"after its first time", "30 2 * * * Europe/Berlin", "2026-10-25 00:31:00", "2026-10-26 01:30:00", time.Hour},
		{"half an hour that comes twice", "45 1 * * * Australia/Lord_Howe", "2026-04-04 14:40:00", "2026-04-04 14:45:00", time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			heard, err := time.Parse(layout, tt.heard)
			if err != nil {
				t.Fatal(err)
			}
			if got := mustExpect(t, tt.expect).due(heard, tt.grace).UTC().Format(layout); got != tt.want {
				t.Errorf("due(%s) = %s, want %s", tt.heard, got, tt.want)
			}
		})
	}
}

// However a device is heard later, it is not expected earlier; and it is expected within what is allowed between
// two instants.
func TestExpectDueGrows(t *testing.T) {
	texts := []string{"0 3 * * *", "* * * * *", "*/7 1-3 * * * Europe/Berlin", "0,1 3 * * *", "30 2 * * * America/New_York", "*/20 * * * * *", "0 0 L * *"}
	rapid.Check(t, func(t *rapid.T) {
		e := mustExpect(t, rapid.SampledFrom(texts).Draw(t, "text"))
		grace := time.Duration(rapid.Int64Range(int64(time.Second), int64(3*time.Hour)).Draw(t, "grace"))
		first := time.Unix(rapid.Int64Range(1_700_000_000, 1_900_000_000).Draw(t, "first"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns"))
		later := first.Add(time.Duration(rapid.Int64Range(0, int64(3*day)).Draw(t, "later")))
		a, b := e.due(first, grace), e.due(later, grace)
		switch {
		case b.Before(a):
			t.Fatalf("heard at %v: expected at %v; heard at %v: expected at %v", first, a, later, b)
		case !a.After(first) || a.Sub(first) > 2*31*day:
			t.Fatalf("heard at %v: expected at %v", first, a)
		}
	})
}

func FuzzParseExpect(f *testing.F) {
	for _, seed := range []string{"0 3 * * * Europe/Berlin", "@daily CET", "*/5 9-17 * * MON-FRI", "0 0 12 L * 5#2 UTC", "CRON_TZ=UTC * * * * *"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := parseExpect(text)
		if err != nil {
			return
		}
		again, err := parseExpect(e.text)
		if err != nil || again.text != e.text || again.apart != e.apart {
			t.Errorf("parseExpect(%q) = %q, %v apart; parsed again: %v", text, e.text, e.apart, err)
		}
	})
}
