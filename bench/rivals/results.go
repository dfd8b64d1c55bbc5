package rivals

import (
	"math"

	"github.com/holter-iot/holter/bench/internal/figures"
)

// metric is one thing that is measured.
type metric string

// values are the figures of one rival in one round.
type values map[metric]float64

// of returns a figure, NaN if it was not measured.
func (v values) of(m metric) float64 {
	if x, ok := v[m]; ok {
		return x
	}
	return math.NaN()
}

// add notes a figure of a round.
func (b *bench) add(round int, rival string, m metric, figure float64) {
	for len(b.results[rival]) <= round {
		b.results[rival] = append(b.results[rival], values{})
	}
	b.results[rival][round][m] = figure
}

// get returns the figures of a rival, one for each round.
func (b *bench) get(m metric, rival string) []float64 {
	return figures.Each(b.results[rival], func(v values) float64 { return v.of(m) })
}

// median returns the median of a rival's figures, NaN if there are none.
func (b *bench) median(m metric, rival string) float64 { return figures.Median(b.get(m, rival)) }

// quantile returns the value that a share q of the sorted values is not above.
func quantile[T any](sorted []T, q float64) T {
	return sorted[min(int(math.Ceil(q*float64(len(sorted)))), len(sorted))-1]
}
