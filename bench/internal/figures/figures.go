// Package figures tells what benchmarks have measured, round by round: medians
// with their spread, ratios within a round, and the machine.
package figures

import (
	"fmt"
	"slices"
)

// Figure is what has a mean.
type Figure interface {
	~int | ~int64 | ~uint64 | ~float64
}

// Each returns one figure of all results.
func Each[T any, F Figure](results []T, f func(T) F) []F {
	figures := make([]F, 0, len(results))
	for _, r := range results {
		figures = append(figures, f(r))
	}
	return figures
}

// Median returns the middle one of some figures, at least one, or the mean of
// both that are in the middle.
func Median[F Figure](figures []F) F {
	sorted := slices.Sorted(slices.Values(figures))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// Spread formats the median, the least and the most of some figures, at least
// one. It is the median alone where they are equal.
func Spread[F Figure](format string, figures []F) string {
	one := func(f F) string { return fmt.Sprintf(format, f) }
	middle, least, most := one(Median(figures)), one(slices.Min(figures)), one(slices.Max(figures))
	if least == most {
		return middle
	}
	return fmt.Sprintf("%s (%s–%s)", middle, least, most)
}

// Ratios divides the figures of one by those of another, round by round, as far
// as both have them.
func Ratios(a, b []float64) []float64 {
	out := make([]float64, 0, len(a))
	for i := range min(len(a), len(b)) {
		out = append(out, a[i]/b[i])
	}
	return out
}

// Met says whether a target was met.
func Met(ok bool) string {
	if ok {
		return "met"
	}
	return "**missed**"
}

// Grouped writes a number with commas between thousands.
func Grouped[T int | uint64](n T) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
