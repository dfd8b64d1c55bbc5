package replay

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/duration"
)

// ParseSpans reads a value such as 90s, a list such as 60s,90s,3m, or a range such as 60s..10m, which
// stands for values between its ends, both included, each about a tenth more than the one before. A number
// without a unit is seconds. The values are ordered, and each is there once. Its errors wrap [ErrBad].
func ParseSpans(text string) ([]time.Duration, error) {
	return parseValues(text, parseSpan, spanGrid)
}

// ParseShares is [ParseSpans] for shares: 0.3, 0.1,0.2,0.3 or 0.05..0.5.
func ParseShares(text string) ([]float64, error) {
	return parseValues(text, parseShare, shareGrid)
}

func parseValues[T cmp.Ordered](text string, parse func(string) (T, error), grid func(from, to T) []T) (values []T, err error) {
	from, to, isRange := strings.Cut(text, "..")
	if !isRange {
		for part := range strings.SplitSeq(text, ",") {
			v, err := parse(strings.TrimSpace(part))
			if err != nil {
				return nil, fmt.Errorf("%w: %w", ErrBad, err)
			}
			values = append(values, v)
		}
	} else {
		least, err := parse(strings.TrimSpace(from))
		if err != nil {
			return nil, fmt.Errorf("%w: the beginning of %.60q: %w", ErrBad, text, err)
		}
		most, err := parse(strings.TrimSpace(to))
		if err != nil {
			return nil, fmt.Errorf("%w: the end of %.60q: %w", ErrBad, text, err)
		}
		if most < least {
			return nil, fmt.Errorf("%w: the range %.60q ends before it begins; write the smaller value first", ErrBad, text)
		}
		values = grid(least, most)
	}
	slices.Sort(values)
	if values = slices.Compact(values); len(values) > MaxValues {
		return nil, fmt.Errorf("%w: there are %d values, want at most %d; a range such as 60s..10m makes as many as fit", ErrBad, len(values), MaxValues)
	}
	return values, nil
}

func parseSpan(text string) (time.Duration, error) {
	d, err := duration.Parse(text)
	if err != nil {
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil || !(math.Abs(seconds) <= MaxSpan.Seconds()) { // nor NaN
			return 0, fmt.Errorf("%.40q is not a duration; write 90s, 60s,90s,3m or 60s..10m", text)
		}
		d = time.Duration(seconds * float64(time.Second))
	}
	return d, checkSpan(d)
}

func parseShare(text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("%.40q is not a share; write 0.3, 0.1,0.2 or 0.05..0.5", text)
	}
	return v, checkShare(v)
}

const (
	gridRatio  = 1.1
	gridPoints = 40
)

// steps returns how many steps a logarithmic grid has.
func steps(ratio float64) int {
	return max(min(int(math.Ceil(math.Log(ratio)/math.Log(gridRatio)-1e-9)), gridPoints-1), 1)
}

// spanGrid returns values from one to another, rounded to what people would write.
func spanGrid(from, to time.Duration) []time.Duration {
	n := steps(float64(to) / float64(from))
	values := []time.Duration{from}
	for i := 1; i < n; i++ {
		v := time.Duration(float64(from) * math.Pow(float64(to)/float64(from), float64(i)/float64(n)))
		values = append(values, max(min(v.Round(readable(v)), to), from))
	}
	return slices.Compact(append(values, to))
}

// readable returns the unit to which a value is rounded.
func readable(v time.Duration) time.Duration {
	for _, unit := range []time.Duration{time.Hour, 10 * time.Minute, time.Minute, 10 * time.Second, time.Second, 100 * time.Millisecond} {
		if v >= 50*unit {
			return unit
		}
	}
	return time.Millisecond
}

func shareGrid(from, to float64) []float64 {
	n := steps(to / from)
	values := []float64{from}
	for i := 1; i < n; i++ {
		v := from * math.Pow(to/from, float64(i)/float64(n))
		values = append(values, max(min(math.Round(v*1000)/1000, to), from))
	}
	return slices.Compact(append(values, to))
}
