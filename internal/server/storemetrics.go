package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holter-iot/holter/store"
)

// storeCollector shows a store's Stats to Prometheus.
type storeCollector struct {
	store   *store.Store
	latency *prometheus.Desc
	values  []storeValue
}

type storeValue struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(*store.Stats) float64
}

func newStoreCollector(s *store.Store) *storeCollector {
	c := &storeCollector{
		store:   s,
		latency: prometheus.NewDesc("holter_store_commit_seconds", "How long it took to store a batch of events.", nil, nil),
	}
	add := func(name, help string, kind prometheus.ValueType, of func(*store.Stats) float64) {
		c.values = append(c.values, storeValue{prometheus.NewDesc("holter_store_"+name, help, nil, nil), kind, of})
	}
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	add("events_total", "Events stored by this process.", counter, func(s *store.Stats) float64 { return float64(s.Appended) })
	add("failures_total", "Attempts to use the database that failed.", counter, func(s *store.Stats) float64 { return float64(s.Failures) })
	add("failing_seconds", "For how long the database has failed; 0 if it works.", gauge, func(s *store.Stats) float64 { return ago(s.Failing) })
	add("harmed_seconds", "For how long the database file, or the data directory, has been gone, replaced or overwritten; 0 if it is what it was.", gauge,
		func(s *store.Stats) float64 { return ago(s.Harmed) })
	add("repairs_total", "How often the database file or the data directory was gone and written anew.", counter,
		func(s *store.Stats) float64 { return float64(s.Repairs) })
	add("set_aside_devices", "Rows of devices that could not be read and are in the table set_aside.", gauge,
		func(s *store.Stats) float64 { return float64(s.SetAside) })
	add("pruned_events_total", "Events removed because of their number or age.", counter, func(s *store.Stats) float64 { return float64(s.Pruned) })
	add("devices", "Devices that have a row.", gauge, func(s *store.Stats) float64 { return float64(s.Devices) })
	add("bytes", "Size of the database; 0 if it is not known.", gauge, func(s *store.Stats) float64 { return float64(s.Bytes) })
	add("checkpoints_total", "Checkpoints written.", counter, func(s *store.Stats) float64 { return float64(s.Checkpoint.Written) })
	add("checkpoint_bytes_total", "Bytes of heartbeats that checkpoints wrote.", counter, func(s *store.Stats) float64 { return float64(s.Checkpoint.Total) })
	add("checkpoint_age_seconds", "Time since the latest checkpoint; 0 if there was none.", gauge, func(s *store.Stats) float64 { return ago(s.Checkpoint.At) })
	add("checkpoint_seconds", "How long the latest checkpoint took.", gauge, func(s *store.Stats) float64 { return s.Checkpoint.Duration.Seconds() })
	return c
}

// ago returns the seconds since an instant, 0 if it is none.
func ago(at time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return time.Since(at).Seconds()
}

// Describe implements prometheus.Collector.
func (c *storeCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.latency
	for _, v := range c.values {
		out <- v.desc
	}
}

// Collect implements prometheus.Collector.
func (c *storeCollector) Collect(out chan<- prometheus.Metric) {
	st := c.store.Stats()
	for _, v := range c.values {
		out <- prometheus.MustNewConstMetric(v.desc, v.kind, v.of(&st))
	}
	buckets, total := make(map[float64]uint64), uint64(0)
	for i, bound := range store.LatencyBounds() {
		total += st.Latency[i]
		buckets[bound.Seconds()] = total
	}
	total += st.Latency[len(st.Latency)-1]
	out <- prometheus.MustNewConstHistogram(c.latency, total, st.LatencySum.Seconds(), buckets)
}
