package httpapi

import (
	"fmt"
	"strconv"
	"time"

	"github.com/holter-iot/holter/internal/duration"
)

// maxDuration is the longest duration that is accepted, so that no sum overflows.
const maxDuration = 366 * 24 * time.Hour

// parseDuration parses a duration, or a number of seconds.
func parseDuration(text string) (time.Duration, error) {
	d, err := duration.Parse(text)
	if err != nil {
		var seconds float64
		if seconds, err = strconv.ParseFloat(text, 64); err == nil {
			return durationOf(seconds, time.Second)
		}
	}
	if err != nil || d <= 0 || d > maxDuration {
		return 0, fmt.Errorf("%.40q is not a duration above 0 and up to 366 days; write 90s, 10m, 1h30m, or a number of seconds", text)
	}
	return d, nil
}

// durationOf returns a number of units.
func durationOf(n float64, unit time.Duration) (time.Duration, error) {
	d := time.Duration(0)
	if n > 0 && n <= float64(maxDuration)/float64(unit) {
		d = time.Duration(n * float64(unit))
	}
	if d <= 0 {
		return 0, fmt.Errorf("%v is not a number of seconds above 0 and up to 366 days", n)
	}
	return min(d, maxDuration), nil
}

// milliseconds returns a duration without loss up to some 100 days, and to a microsecond far beyond.
func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// fromMilliseconds returns a duration of at most maxDuration.
func fromMilliseconds(ms float64) time.Duration {
	return time.Duration(min(ms, milliseconds(maxDuration)) * float64(time.Millisecond))
}
