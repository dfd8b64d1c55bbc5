// Package metrics writes statistics in the form of Prometheus. A [Collector] is a function that is
// called at each scrape and names, explains and reports its metrics in one place.
package metrics

import (
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Collector reports metrics at each scrape. It may be called concurrently.
type Collector func(Sample)

// Describe implements prometheus.Collector. It describes the metrics that there are now: those of a
// queue or an endpoint that does not exist yet are described when they are collected.
func (c Collector) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, out) }

// Collect implements prometheus.Collector.
func (c Collector) Collect(out chan<- prometheus.Metric) { c(Sample{out: out, prefix: "holter_"}) }

// Sample takes the metrics of one scrape.
type Sample struct {
	out    chan<- prometheus.Metric
	prefix string
	labels []string // pairs of a name and a value
}

// Sub returns a sample whose metrics have a longer prefix, which ends with _, and more labels. Labels
// are pairs of a name and a value.
func (s Sample) Sub(prefix string, labels ...string) Sample {
	return Sample{s.out, s.prefix + prefix, slices.Concat(s.labels, labels)}
}

// Add adds a metric: a counter if its name ends with _total, else a gauge.
func (s Sample) Add(name, help string, value float64, labels ...string) {
	kind := prometheus.GaugeValue
	if strings.HasSuffix(name, "_total") {
		kind = prometheus.CounterValue
	}
	d, values := s.describe(name, help, labels)
	s.out <- prometheus.MustNewConstMetric(d, kind, value, values...)
}

// Count adds a whole number, see Add.
func (s Sample) Count(name, help string, n uint64, labels ...string) {
	s.Add(name, help, float64(n), labels...)
}

// Flag adds a gauge that is 1 or 0.
func (s Sample) Flag(name, help string, yes bool, labels ...string) {
	value := 0.0
	if yes {
		value = 1
	}
	s.Add(name, help, value, labels...)
}

// Histogram adds a histogram of durations in seconds. counts[i] is the number within bounds[i] and
// beyond the bound before; the last, which has no bound, is the number of longer ones.
func (s Sample) Histogram(name, help string, bounds []time.Duration, counts []uint64, sum float64, labels ...string) {
	total, buckets := uint64(0), make(map[float64]uint64, len(bounds))
	for i, n := range counts {
		total += n
		if i < len(bounds) {
			buckets[bounds[i].Seconds()] = total
		}
	}
	d, values := s.describe(name, help, labels)
	s.out <- prometheus.MustNewConstHistogram(d, total, sum, buckets, values...)
}

func (s Sample) describe(name, help string, labels []string) (d *prometheus.Desc, values []string) {
	var names []string
	for pair := range slices.Chunk(slices.Concat(s.labels, labels), 2) {
		names, values = append(names, pair[0]), append(values, pair[1])
	}
	return prometheus.NewDesc(s.prefix+name, help, names, nil), values
}
