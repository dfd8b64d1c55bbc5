// Package figures writes what benchmarks have measured, round by round, as Markdown: medians with their spread, ratios within a round,
// and tables. A figure is NaN in a round that did not measure it.
package figures

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// none stands for a figure that was not measured.
const none = "–"

// Each returns one figure of all results.
func Each[R any](results []R, of func(R) float64) []float64 {
	figures := make([]float64, 0, len(results))
	for _, r := range results {
		figures = append(figures, of(r))
	}
	return figures
}

// Median returns the middle figure, or the mean of the two in the middle, and NaN if there are no figures.
func Median(figures []float64) float64 {
	sorted := sort(figures)
	n := len(sorted)
	if n == 0 {
		return math.NaN()
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// sort returns the figures that were measured in ascending order.
func sort(figures []float64) []float64 {
	sorted := slices.DeleteFunc(slices.Clone(figures), math.IsNaN)
	slices.Sort(sorted)
	return sorted
}

// Spread formats the median with the least and the greatest figure in parentheses, unless they look equal.
func Spread(format func(float64) string, figures []float64) string {
	sorted := sort(figures)
	if len(sorted) == 0 {
		return none
	}
	text := format(Median(sorted))
	if least, most := format(sorted[0]), format(sorted[len(sorted)-1]); least != most {
		text += " (" + least + "–" + most + ")"
	}
	return text
}

// Ratios divides the figures of one subject by those of another, round by round, as far as both have them.
func Ratios(a, b []float64) []float64 {
	out := make([]float64, 0, len(a))
	for i := range min(len(a), len(b)) {
		if b[i] > 0 {
			out = append(out, a[i]/b[i])
		}
	}
	return out
}

// Fixed returns a format with so many digits after the point and with commas between thousands.
func Fixed(digits int) func(float64) string {
	return func(x float64) string {
		text := fmt.Sprintf("%.*f", digits, math.Abs(x))
		sign := ""
		if math.Signbit(x) && x != 0 {
			sign = "-"
		}
		point := len(text)
		if digits > 0 {
			point -= digits + 1
		}
		for i := point - 3; i > 0; i -= 3 {
			text = text[:i] + "," + text[i:]
		}
		return sign + text
	}
}

// Significant formats a figure with three significant digits.
func Significant(x float64) string {
	switch a := math.Abs(x); {
	case a < 0.00005:
		return "0"
	case a < 0.01:
		return Fixed(4)(x)
	case a < 0.1:
		return Fixed(3)(x)
	case a < 10:
		return Fixed(2)(x)
	case a < 100:
		return Fixed(1)(x)
	default:
		return Fixed(0)(x)
	}
}

// Grouped writes a whole number with commas between thousands.
func Grouped[T ~int | ~int64 | ~uint64](n T) string { return Fixed(0)(float64(n)) }

// Duration writes a time with three significant digits, in milliseconds or seconds.
func Duration(d time.Duration) string {
	if d >= time.Second {
		return Significant(d.Seconds()) + " s"
	}
	return Significant(Millis(d)) + " ms"
}

// Millis returns a time in milliseconds.
func Millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Met returns the words for a target that was met, or missed.
func Met(ok bool) string {
	if ok {
		return "met"
	}
	return "**missed**"
}
