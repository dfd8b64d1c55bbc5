package judgement

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the zones are the same on each machine

	"pgregory.net/rapid"
)

func mustQuiet(t interface {
	Helper()
	Fatal(args ...any)
}, windows ...string,
) quiet {
	t.Helper()
	q, err := parseQuiet(strings.Join(windows, ";"))
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestParseQuiet(t *testing.T) {
	tests := []struct {
		name string
		in   []string
		want string // a part of the error begins with !
	}{
		{"none", nil, ""},
		{"UTC", []string{"22:00-06:00"}, "22:00-06:00 UTC"},
		{"zone", []string{" 22:00-06:00   Europe/Berlin "}, "22:00-06:00 Europe/Berlin"},
		{"days", []string{"mon-fri 22:00-06:00"}, "Mon-Fri 22:00-06:00 UTC"},
		{"list of days", []string{"Sun,Sat 00:00-24:00 Asia/Kathmandu"}, "Sat,Sun 00:00-24:00 Asia/Kathmandu"},
		{"over the week's end", []string{"Sat-Mon,Wed 01:00-02:00"}, "Mon,Wed,Sat,Sun 01:00-02:00 UTC"},
		{"every day by name", []string{"Mon-Sun 01:00-02:00"}, "01:00-02:00 UTC"},
		{"two", []string{"01:00-02:00", "03:00-04:00 Europe/Berlin"}, "01:00-02:00 UTC; 03:00-04:00 Europe/Berlin"},
		{"two in one", []string{"01:00-02:00; 03:00-04:00;"}, "01:00-02:00 UTC; 03:00-04:00 UTC"},
		{"all but an hour", []string{"Mon-Sat 00:00-24:00", "Sun 01:00-24:00"}, "Mon-Sat 00:00-24:00 UTC; Sun 01:00-24:00 UTC"},
		{"no span", []string{"Mon"}, `!window "Mon": it has no span of the day`},
		{"no day", []string{"Man 01:00-02:00"}, `!"Man" is not a day`},
		{"no time", []string{"25:00-02:00"}, `!"25:00" is not a time of the day`},
		{"a digit is missing", []string{"1:00-02:00"}, `!"1:00" is not a time of the day`},
		{"open", []string{"01:00"}, `!"" is not a time of the day`},
		{"empty span", []string{"06:00-06:00"}, "!the whole day is 00:00-24:00"},
		{"begins at the end", []string{"24:00-06:00"}, "!is no span of the day"},
		{"no zone", []string{"01:00-02:00 Europe/Bonn"}, `!there is no time zone "Europe/Bonn"`},
		{"local", []string{"01:00-02:00 Local"}, `!there is no time zone "Local"`},
		{"words", []string{"01:00-02:00 UTC always"}, "!too many words"},
		{"always", []string{"00:00-24:00"}, "!leave less than 1h0m0s"},
		{"always, in parts", []string{"00:00-13:00", "12:30-23:30 America/New_York", "12:00-04:00 Asia/Tokyo", "12:00-24:00"}, "!leave less than 1h0m0s"},
		{"too many", []string{strings.Repeat("01:00-02:00;", 17)}, "!17 windows"},
		{"too long", []string{strings.Repeat(" ", 2049)}, "!2049 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseQuiet(tt.in)
			if part, bad := strings.CutPrefix(tt.want, "!"); bad {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("ParseQuiet = %q, %v, want an error with %q", got, err, part)
				}
				return
			}
			if again, _ := ParseQuiet(QuietWindows(got)); got != tt.want || err != nil || again != got {
				t.Errorf("ParseQuiet = %q, %v, want %q; again %q", got, err, tt.want, again)
			}
		})
	}
}

// naiveQuiet reports whether the clocks show a time in the window, by the words of the documentation.
func naiveQuiet(w *quietWindow, at time.Time) bool {
	at = at.In(w.zone)
	clock := time.Duration(at.Hour()*60+at.Minute()) * time.Minute
	began := int(at.Weekday())
	if w.to <= w.from && clock < w.to { // it began the day before
		began = (began + 6) % 7
		return w.days&(1<<began) != 0
	}
	in := clock >= w.from && (clock < w.to || w.to <= w.from)
	return in && w.days&(1<<began) != 0
}

func quietGenerator() *rapid.Generator[quiet] {
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "America/Sao_Paulo", "Pacific/Apia"}
	window := rapid.Custom(func(t *rapid.T) quietWindow {
		zone, err := time.LoadLocation(rapid.SampledFrom(zones).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		from := rapid.IntRange(0, 24*60-1).Draw(t, "from")
		to := rapid.IntRange(1, 24*60).Filter(func(to int) bool { return to != from }).Draw(t, "to")
		return quietWindow{
			days: uint8(rapid.IntRange(1, 127).Draw(t, "days")), zone: zone,
			from: time.Duration(from) * time.Minute, to: time.Duration(to) * time.Minute,
		}
	})
	all := rapid.Custom(func(t *rapid.T) quiet { return rapid.SliceOfN(window, 1, 3).Draw(t, "windows") })
	return all.Filter(func(q quiet) bool { return q.leaves(leastCounting) })
}

// What stretch returns is what a look at every minute gives, around all changes of the clocks.
func TestStretchMinuteByMinute(t *testing.T) {
	begin := time.Date(2011, time.January, 1, 0, 0, 0, 0, time.UTC) // the year in which Samoa had no 30 December
	rapid.Check(t, func(rt *rapid.T) {
		q := quietGenerator().Draw(rt, "quiet")
		if again := mustQuiet(rt, q.String()); again.String() != q.String() {
			rt.Errorf("%q is %q when it is read again", q, again)
		}
		day := rapid.SampledFrom([]int{0, 84, 85, 88, 90, 91, 92, 93, 276, 281, 288, 302, 303, 304, 309, 362, 363}).Draw(rt, "day")
		from := begin.AddDate(0, 0, day).Add(time.Duration(rapid.IntRange(0, 24*60-1).Draw(rt, "minute")) * time.Minute)
		want := rapid.IntRange(1, 3*24*60).Draw(rt, "d")
		span := 0
		for counted := 0; counted < want; span++ {
			at, in := from.Add(time.Duration(span)*time.Minute), false
			for i := range q {
				in = in || naiveQuiet(&q[i], at)
			}
			if !in {
				counted++
			}
		}
		d := time.Duration(want) * time.Minute
		if got := q.stretch(from, d); got != time.Duration(span)*time.Minute {
			rt.Errorf("%q: stretch(%v, %v) = %v, want %v", q, from, d, got, time.Duration(span)*time.Minute)
		}
	})
}

func FuzzParseQuiet(f *testing.F) {
	for _, seed := range []string{"", "22:00-06:00", "Mon-Fri,Sun 22:00-06:00 Europe/Berlin; 00:00-24:00", "Sat-Mon 24:00-00:00", "; ;", "Mon"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q, err := parseQuiet(text)
		if err != nil {
			return
		}
		again, err := parseQuiet(q.String())
		if err != nil || again.String() != q.String() {
			t.Errorf("%q is %q, and that %q, %v", text, q, again, err)
		}
		from := time.Unix(1_790_000_000, 0)
		if got := q.stretch(from, time.Hour); got < time.Hour || got > 16*day {
			t.Errorf("%q: an hour takes %v", text, got)
		}
	})
}

// Whole weeks at a time are what single steps are.
func TestQuietWeeks(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca"}
	for range 300 {
		var windows []string
		for range 1 + random.IntN(4) {
			from := random.IntN(24)
			windows = append(windows, fmt.Sprintf("%02d:%02d-%02d:00 %s", from, random.IntN(60), (from+1+random.IntN(5))%24, zones[random.IntN(len(zones))]))
			if random.IntN(2) == 0 {
				windows[len(windows)-1] = "Mon-Thu " + windows[len(windows)-1]
			}
		}
		q, err := parseQuiet(strings.Join(windows, ";"))
		if err != nil {
			continue // they leave too little
		}
		at := time.Date(2026, 1, 1, 0, 0, random.IntN(365*86400), random.IntN(1e9), time.UTC)
		most := time.Duration(random.Int64N(int64(MaxSpan)))
		want := time.Duration(random.Int64N(int64(most)))
		switch random.IntN(3) {
		case 0:
			want = want.Truncate(time.Hour) // perhaps the end of a window
			at = at.Truncate(24 * time.Hour)
		case 1:
			want = most
		}
		span, counts := q.walk(at, most, want)
		if s, c := q.step(at, most, want); span != s || counts != c {
			t.Errorf("%v from %v, %v of %v: %v and %v, want %v and %v", q, at, want, most, span, counts, s, c)
		}
	}
}

// What has passed at the end of a week has passed before the window in which that ends.
func TestQuietWeeksEnd(t *testing.T) {
	q := mustQuiet(t, "Mon 00:00-12:00 UTC")
	at := time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)
	if span, _ := q.walk(at, MaxSpan, 5*(week-12*time.Hour)); span != 5*week-12*time.Hour {
		t.Errorf("%v, want %v", span, 5*week-12*time.Hour)
	}
}

func BenchmarkQuietYear(b *testing.B) {
	var windows []string
	for hour := range MaxWindows {
		windows = append(windows, fmt.Sprintf("%02d:00-%02d:30 Europe/Berlin", hour, hour))
	}
	q, err := parseQuiet(strings.Join(windows, ";"))
	if err != nil {
		b.Fatal(err)
	}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	b.ReportAllocs()
	for b.Loop() {
		q.stretch(at, 300*day)
	}
}
