package rivals

import (
	"fmt"
	"maps"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/bench/internal/figures"
)

// heartbeats is how many each timer gets when growth is measured.
const heartbeats = 20

// operations measures arming, memory, collections, heartbeats and cancels with n live timers.
func (j *job) operations() (values, error) {
	var fired atomic.Int64
	v, before := values{}, heapBytes()
	r := j.open(newSetup(j.n, false, func(int) { fired.Add(1) }))
	start := time.Now()
	v["arm_ns"], v["arm_allocs"] = j.perOp(r, r.arm)
	v["live_bytes"] = r.bytesPer(j.n, before)
	v["gc_ms"] = collectMillis()
	j.shuffle(r)
	v["touch_ns"], v["touch_allocs"] = j.perOp(r, r.touch)
	j.shuffle(r) // again: what a renewal allocates lies in the order of the heartbeats
	v["cancel_ns"], _ = j.perOp(r, func(i int, _ time.Duration) { r.cancel(i) })
	if took := time.Since(start); fired.Load() > 0 {
		return nil, fmt.Errorf("%d timers of 30 s and more have expired after %v", fired.Load(), took)
	}
	if j.name == baselineName {
		maps.DeleteFunc(v, func(m metric, _ float64) bool { return !strings.HasPrefix(string(m), "touch_") })
	}
	return v, nil
}

// perOp does something at each place and returns the time and the allocations of one.
func (j *job) perOp(r *rival, do func(i int, period time.Duration)) (nanos, allocs float64) {
	before := memory().Mallocs
	r.batch()
	start := time.Now()
	for i, period := range j.periods {
		do(i, period)
	}
	took := time.Since(start)
	n := float64(len(j.periods))
	return float64(took) / n, float64(memory().Mallocs-before) / n
}

// shuffle puts the ids and their periods in random order.
func (j *job) shuffle(r *rival) {
	j.random.Shuffle(j.n, func(a, b int) {
		r.swap(a, b)
		j.periods[a], j.periods[b] = j.periods[b], j.periods[a]
	})
}

// growing measures what heartbeats leave behind. The first timer, which has the earliest deadline,
// gets none, so that entries that a rival drops only when they come up stay behind it.
func (j *job) growing() (values, error) {
	n, before := j.growth, heapBytes()
	r := j.open(newSetup(n, false, func(int) {}))
	j.periods[0] = 30 * time.Second
	r.batch()
	for i, period := range j.periods[:n] {
		r.arm(i, period)
	}
	v := values{"grown_before": r.bytesPer(n, before)}
	for range heartbeats {
		r.batch()
		for i := 1; i < n; i++ {
			r.touch(i, j.periods[i])
		}
	}
	v["grown_after"] = r.bytesPer(n, before)
	runtime.KeepAlive(r)
	return v, nil
}

// memory returns the state of memory after two collections.
func memory() (m runtime.MemStats) {
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m
}

// heapBytes returns the bytes of live objects.
func heapBytes() float64 { return float64(memory().HeapAlloc) }

// bytesPer returns the live bytes of each of n timers, without its id, beyond those that there were before.
func (r *rival) bytesPer(n int, before float64) float64 {
	return (heapBytes()-before)/float64(n) - float64(r.idBytes)
}

// collectMillis returns the time of a collection, the median of five.
func collectMillis() float64 {
	took := make([]float64, 5)
	for i := range took {
		start := time.Now()
		runtime.GC()
		took[i] = figures.Millis(time.Since(start))
	}
	return figures.Median(took)
}
