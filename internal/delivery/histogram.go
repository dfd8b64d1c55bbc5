package delivery

import (
	"slices"
	"sync/atomic"
	"time"
)

// Histogram counts durations: Counts[i] those up to Bounds[i] and beyond the bound before, its last
// element, which has no bound, the longer ones. Sum is their sum.
type Histogram struct {
	Bounds []time.Duration
	Counts []uint64
	Sum    time.Duration
}

// histogram is a Histogram that is being counted, without a lock: a snapshot of it may have a duration
// in its counts, and not yet in its sum.
type histogram struct {
	bounds []time.Duration
	counts []atomic.Uint64
	sum    atomic.Int64
}

func newHistogram(bounds ...time.Duration) *histogram {
	return &histogram{bounds: bounds, counts: make([]atomic.Uint64, len(bounds)+1)}
}

// newDurations returns the histogram of QueueStats.Durations.
func newDurations() *histogram {
	const ms = time.Millisecond
	return newHistogram(ms, 5*ms, 10*ms, 50*ms, 100*ms, 500*ms, time.Second, 5*time.Second, 10*time.Second, 30*time.Second, time.Minute, 5*time.Minute)
}

// newLatencies returns the histogram of QueueStats.Latencies.
func newLatencies() *histogram {
	const ms, s = time.Millisecond, time.Second
	return newHistogram(10*ms, 50*ms, 100*ms, 500*ms, s, 5*s, 10*s, 30*s, time.Minute, 5*time.Minute, 15*time.Minute, time.Hour, 6*time.Hour, 24*time.Hour)
}

// add counts a duration. One below 0, as after a step of the clock, counts as 0.
func (h *histogram) add(d time.Duration) {
	d = max(d, 0)
	i, _ := slices.BinarySearch(h.bounds, d)
	h.counts[i].Add(1)
	h.sum.Add(int64(d))
}

func (h *histogram) read() Histogram {
	out := Histogram{Bounds: h.bounds, Counts: make([]uint64, len(h.counts)), Sum: time.Duration(h.sum.Load())}
	for i := range h.counts {
		out.Counts[i] = h.counts[i].Load()
	}
	return out
}
