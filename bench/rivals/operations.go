package rivals

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/bench/internal/figures"
)

const (
	armNanos     metric = "arm_ns"
	armAllocs    metric = "arm_allocs"
	touchNanos   metric = "touch_ns"
	touchAllocs  metric = "touch_allocs"
	cancelNanos  metric = "cancel_ns"
	liveBytesPer metric = "bytes_per_timer"
	gcMillis     metric = "gc_ms"
	grownBefore  metric = "growth_before_bytes"
	grownAfter   metric = "growth_after_bytes"
)

// baselineName is the row of the least that a heartbeat can cost: see casBaseline.
const baselineName = "one compare-and-swap on a random word"

// operations measures arming, memory, collections, heartbeats and cancels with n live timers.
func (b *bench) operations(_ context.Context, round int, c contender) error {
	freeMemory()
	before := liveBytes()
	var fired atomic.Int64
	r, err := c.open(newSetup(b.n, func(int) { fired.Add(1) }))
	if err != nil {
		return err
	}
	defer r.close()
	start := time.Now()
	add := func(m metric, v float64) { b.add(round, c.name, m, v) }

	nanos, allocs := perOp(r, b.n, func(i int) { err = r.arm(i, b.periods[i]) })
	if err != nil {
		return err
	}
	add(armNanos, nanos)
	add(armAllocs, allocs)

	add(liveBytesPer, float64(liveBytes()-before)/float64(b.n)-float64(r.idBytes()))
	add(gcMillis, figures.Millis(collectTime()))

	b.shuffle(r)
	nanos, allocs = perOp(r, b.n, func(i int) { r.touch(i, b.periods[i]) })
	add(touchNanos, nanos)
	add(touchAllocs, allocs)

	b.shuffle(r) // again: what a renewal allocates lies in the order of the heartbeats
	nanos, _ = perOp(r, b.n, r.cancel)
	add(cancelNanos, nanos)
	if took := time.Since(start); fired.Load() > 0 {
		return fmt.Errorf("%d timers of 30 s and more have expired after %v", fired.Load(), took)
	}
	return nil
}

// perOp does something at each place, and returns the time and the allocations of one.
func perOp(r rival, n int, do func(i int)) (nanos, allocs float64) {
	runtime.GC()
	before := mallocs()
	batch(r)
	start := time.Now()
	for i := range n {
		do(i)
	}
	took := time.Since(start)
	return float64(took) / float64(n), float64(mallocs()-before) / float64(n)
}

// collectTime returns the time of a collection, the median of five.
func collectTime() time.Duration {
	took := make([]time.Duration, 5)
	for i := range took {
		start := time.Now()
		runtime.GC()
		took[i] = time.Since(start)
	}
	slices.Sort(took)
	return took[2]
}

// shuffle puts the ids and their periods in random order.
func (b *bench) shuffle(r rival) {
	b.random.Shuffle(b.n, func(i, j int) {
		r.swap(i, j)
		b.periods[i], b.periods[j] = b.periods[j], b.periods[i]
	})
}

// baseline measures one compare-and-swap where the rivals have a heartbeat.
func (b *bench) baseline(round int) {
	r := newCASBaseline(b.n)
	b.shuffle(r)
	nanos, allocs := perOp(r, b.n, func(i int) { r.touch(i, b.periods[i]) })
	b.add(round, baselineName, touchNanos, nanos)
	b.add(round, baselineName, touchAllocs, allocs)
}

// growing measures what heartbeats leave behind. The first timer, which has the earliest deadline, gets none, so that entries
// which a rival drops only when they come up stay behind it.
func (b *bench) growing(_ context.Context, round int, c contender) error {
	if round >= growthRounds {
		return nil
	}
	n := b.sizes.growth
	freeMemory()
	before := liveBytes()
	r, err := c.open(newSetup(n, func(int) {}))
	if err != nil {
		return err
	}
	defer r.close()
	batch(r)
	for i := range n {
		period := b.periods[i]
		if i == 0 {
			period = 30 * time.Second
		}
		if err := r.arm(i, period); err != nil {
			return err
		}
	}
	perTimer := func() float64 { return float64(liveBytes()-before)/float64(n) - float64(r.idBytes()) }
	b.add(round, c.name, grownBefore, perTimer())
	for range heartbeats {
		batch(r)
		for i := 1; i < n; i++ {
			r.touch(i, b.periods[i])
		}
	}
	b.add(round, c.name, grownAfter, perTimer())
	return nil
}

// casBaseline is no timer: its touch is one compare-and-swap on an eight-byte word that is found through a table of ids.
type casBaseline struct {
	ids   []uint64
	words []atomic.Uint64
}

func newCASBaseline(n int) *casBaseline {
	r := &casBaseline{ids: make([]uint64, n), words: make([]atomic.Uint64, n)}
	for i := range r.ids {
		r.ids[i] = uint64(i)
	}
	return r
}

func (r *casBaseline) touch(i int, _ time.Duration) {
	w := &r.words[r.ids[i]]
	old := w.Load()
	w.CompareAndSwap(old, old+1)
}

func (r *casBaseline) arm(int, time.Duration) error { return nil }
func (r *casBaseline) cancel(int)                   {}
func (r *casBaseline) swap(i, j int)                { r.ids[i], r.ids[j] = r.ids[j], r.ids[i] }
func (r *casBaseline) idBytes() int                 { return 8 }
func (r *casBaseline) close()                       {}
