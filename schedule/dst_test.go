package schedule_test

import (
	"testing"
	"time"

	"github.com/holter-iot/holter/schedule"
)

// The changes of IANA's time zone database, by hand.
func TestNextAcrossChanges(t *testing.T) {
	tests := []struct {
		name  string
		text  string
		after string
		want  []string
	}{
		{
			"Berlin, skipped, fixed: once, right after the gap", "CRON_TZ=Europe/Berlin 30 2 * * *", "2026-03-28T12:00:00Z",
			[]string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"},
		},
		{
			"Berlin, skipped, several: still once", "CRON_TZ=Europe/Berlin 0,30 2,3 * * *", "2026-03-28T12:00:00Z",
			[]string{"2026-03-29T03:00:00+02:00", "2026-03-29T03:30:00+02:00", "2026-03-30T02:00:00+02:00"},
		},
		{
			"Berlin, skipped, wild: left out", "CRON_TZ=Europe/Berlin */30 2 * * *", "2026-03-28T12:00:00Z",
			[]string{"2026-03-30T02:00:00+02:00", "2026-03-30T02:30:00+02:00"},
		},
		{
			"Berlin, twice, fixed: the first only", "CRON_TZ=Europe/Berlin 30 2 * * *", "2026-10-24T12:00:00Z",
			[]string{"2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"},
		},
		{
			"Berlin, twice, wild: both", "CRON_TZ=Europe/Berlin 30 * * * *", "2026-10-24T23:45:00Z",
			[]string{"2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00", "2026-10-25T03:30:00+01:00"},
		},
		{
			"Berlin, asked within the second pass", "CRON_TZ=Europe/Berlin 30 2 * * *", "2026-10-25T01:15:00Z",
			[]string{"2026-10-26T02:30:00+01:00"},
		},
		{
			"Berlin, seconds, skipped", "TZ=Europe/Berlin 15 30 2 * * *", "2026-03-28T12:00:00Z",
			[]string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:30:15+02:00"},
		},
		{
			"New York, @daily is not touched", "CRON_TZ=America/New_York @daily", "2026-03-07T12:00:00Z",
			[]string{"2026-03-08T00:00:00-05:00", "2026-03-09T00:00:00-04:00"},
		},
		{
			"New York, @hourly in autumn has 25 hours", "CRON_TZ=America/New_York @hourly", "2026-11-01T04:30:00Z",
			[]string{"2026-11-01T01:00:00-04:00", "2026-11-01T01:00:00-05:00", "2026-11-01T02:00:00-05:00"},
		},
		{
			"Lord Howe, half an hour is skipped", "CRON_TZ=Australia/Lord_Howe 15 2 * * *", "2026-10-03T00:00:00Z",
			[]string{"2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"},
		},
		{
			"Lord Howe, half an hour comes twice", "CRON_TZ=Australia/Lord_Howe 45 1 * * *", "2026-04-04T00:00:00Z",
			[]string{"2026-04-05T01:45:00+11:00", "2026-04-06T01:45:00+10:30"},
		},
		{
			"Lord Howe, wild, twice", "CRON_TZ=Australia/Lord_Howe 45 * * * *", "2026-04-04T14:30:00Z",
			[]string{"2026-04-05T01:45:00+11:00", "2026-04-05T01:45:00+10:30", "2026-04-05T02:45:00+10:30"},
		},
		{
			"Apia, the day that was not", "CRON_TZ=Pacific/Apia 0 12 * * *", "2011-12-29T00:00:00Z",
			[]string{"2011-12-29T12:00:00-10:00", "2011-12-31T12:00:00+14:00"},
		},
		{
			"Apia, that very day: next year", "CRON_TZ=Pacific/Apia 0 12 30 12 *", "2011-12-01T00:00:00Z",
			[]string{"2012-12-30T12:00:00+14:00"},
		},
		{
			"Sao Paulo, no midnight", "CRON_TZ=America/Sao_Paulo @daily", "2018-11-03T12:00:00Z",
			[]string{"2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"},
		},
		{
			"the last day of a leap year beyond the table", "CRON_TZ=Europe/Berlin 30 22 31 12 *", "2040-12-31T12:00:00Z",
			[]string{"2040-12-31T22:30:00+01:00", "2041-12-31T22:30:00+01:00"},
		},
		{
			"beyond that day", "CRON_TZ=America/New_York 0 9 1 * *", "2040-12-31T23:59:59Z",
			[]string{"2041-01-01T09:00:00-05:00", "2041-02-01T09:00:00-05:00"},
		},
		{
			"29 February, a Sunday", "CRON_TZ=UTC 0 0 29 2 */7", "1970-01-01T00:00:00Z",
			[]string{"1976-02-29T00:00:00Z", "2004-02-29T00:00:00Z"},
		},
		{
			"29 February across 2100", "CRON_TZ=UTC 0 0 29 2 *", "2096-03-01T00:00:00Z",
			[]string{"2104-02-29T00:00:00Z"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			checkInstants(t, mustParse(t, tt.text), at(t, tt.after), tt.want)
		})
	}
}

func checkInstants(t *testing.T, s schedule.Schedule, after time.Time, want []string) {
	t.Helper()
	for _, w := range want {
		next := s.Next(after)
		if got := next.Format(time.RFC3339Nano); got != w {
			t.Fatalf("Next(%v) = %v, want %v", after, got, w)
		}
		after = next
	}
}

func mustParse(tb testing.TB, text string) schedule.Schedule {
	tb.Helper()
	s, err := schedule.Parse(text)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func at(tb testing.TB, text string) time.Time {
	tb.Helper()
	v, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		tb.Fatal(err)
	}
	return v
}
