package main

import (
	"maps"
	"math"
	"slices"
)

// metric is one thing that is measured.
type metric string

// series are the values of one metric and one rival, by round; NaN where a round has none.
type series []float64

// results holds what was measured.
type results struct {
	rounds int
	values map[metric]map[string]series
	sizes  map[metric]map[string]int // how many timers a rival had
}

func newResults(rounds int) *results {
	return &results{
		rounds: rounds,
		values: make(map[metric]map[string]series),
		sizes:  make(map[metric]map[string]int),
	}
}

// add notes what a round has measured with n timers.
func (r *results) add(round int, rival string, m metric, n int, value float64) {
	if r.values[m] == nil {
		r.values[m] = make(map[string]series)
		r.sizes[m] = make(map[string]int)
	}
	s, ok := r.values[m][rival]
	if !ok {
		s = make(series, r.rounds)
		for i := range s {
			s[i] = math.NaN()
		}
		r.values[m][rival] = s
	}
	s[round] = value
	r.sizes[m][rival] = n
}

// get returns the values of a rival, nil if there are none.
func (r *results) get(m metric, rival string) series { return r.values[m][rival] }

// ratios returns, for each round that has both, how many times Holter's value a rival's is.
func (r *results) ratios(m metric, rival string) series {
	base, s := r.get(m, holterName), r.get(m, rival)
	var out series
	for i := range s {
		if i < len(base) && base[i] > 0 && !math.IsNaN(s[i]) {
			out = append(out, s[i]/base[i])
		}
	}
	return out
}

// summary is the median of a series and its ends.
type summary struct {
	n                int
	median, min, max float64
}

func (s series) summary() summary {
	sorted := slices.DeleteFunc(slices.Clone(s), math.IsNaN)
	slices.Sort(sorted)
	n := len(sorted)
	if n == 0 {
		return summary{}
	}
	return summary{n: n, median: (sorted[(n-1)/2] + sorted[n/2]) / 2, min: sorted[0], max: sorted[n-1]}
}

// quantile returns the value that a share q of the sorted values is not above.
func quantile[T any](sorted []T, q float64) T {
	return sorted[min(int(math.Ceil(q*float64(len(sorted)))), len(sorted))-1]
}

// metrics returns what was measured, in alphabetical order.
func (r *results) metrics() []metric { return slices.Sorted(maps.Keys(r.values)) }

// rivals returns those that have values of a metric, in alphabetical order.
func (r *results) rivals(m metric) []string { return slices.Sorted(maps.Keys(r.values[m])) }
