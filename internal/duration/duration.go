// Package duration reads and writes durations as people do: with days, and without units that are zero.
package duration

import (
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// Parse reads what [time.ParseDuration] does, and days: 1d, 1d12h, 0.5d.
func Parse(text string) (time.Duration, error) {
	rest, negative := strings.CutPrefix(text, "-")
	if !negative {
		rest = strings.TrimPrefix(text, "+")
	}
	number, rest, ok := strings.Cut(rest, "d")
	if !ok {
		return time.ParseDuration(text)
	}
	// Hours stand for the days, so that the number of days is checked as strictly as any other.
	days, err := time.ParseDuration(number + "h")
	if err != nil || strings.ContainsAny(number, "+-hmsuµμn") || days > (1<<63-1)/24 {
		return time.ParseDuration(text) // its error is about the whole text
	}
	d := days * 24
	if rest != "" {
		more, err := time.ParseDuration(rest)
		if err != nil || more < 0 || rest[0] == '+' || rest[0] == '-' || d+more < d {
			return time.ParseDuration(text)
		}
		d += more
	}
	if negative {
		d = -d
	}
	return d, nil
}

// String writes a duration exactly, so that Parse reads it: 3d and 1h30m, where
// [time.Duration.String] writes 72h0m0s and 1h30m0s.
func String(d time.Duration) string {
	if d < 0 && -d > 0 {
		return "-" + String(-d)
	}
	if d < time.Second {
		return d.String()
	}
	var text strings.Builder
	for _, unit := range []struct {
		name string
		size time.Duration
	}{{"d", day}, {"h", time.Hour}, {"m", time.Minute}} {
		if n := d / unit.size; n > 0 {
			text.WriteString(strconv.Itoa(int(n)) + unit.name)
			d %= unit.size
		}
	}
	if d > 0 {
		text.WriteString(d.String())
	}
	return text.String()
}
