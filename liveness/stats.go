package liveness

import (
	"sync/atomic"
	"time"
)

// Stats is a picture of a registry.
type Stats struct {
	Devices  int
	Capacity int // the most devices that there may be
	States   map[State]int
	Queued   int    // events that wait for the sink
	Outbox   int    // beyond so many of these, verdicts wait
	Waits    uint64 // times that a verdict was held up because the outbox was full
	Fails    uint64 // times that the sink failed
	Lost     uint64 // events that the sink refused when Run ended, or that came afterwards
	Cut      uint64 // messages of which less was kept because too much waited for the sink, see [MaxMessage]
	Flaps    int    // devices that are flapping
	// StalledFor is for how long the outbox has been full without the sink taking anything, while
	// the sources' clocks stand still; otherwise 0.
	StalledFor time.Duration
	// Verdicts counts those of deadlines that passed. Lag[i] counts those of them that came within
	// LagBounds[i] of listening time after their deadline, beyond the bound before; the last of
	// Lag, which has no bound, those beyond all. LagSum is the total lag.
	Verdicts  uint64
	Lag       []uint64
	LagBounds []time.Duration
	LagSum    time.Duration
	LagMax    time.Duration // the greatest lag of all
	// PutOff counts those verdicts whose deadline was put off because the source had been deaf, or
	// another of its pool had left.
	PutOff uint64
}

// Stats returns a picture of the registry. It takes each shard's lock for a moment, repeatedly;
// once a source has had a cut it costs a cache line or two per device.
func (r *Registry) Stats() Stats {
	st := r.Gauges()
	st.States = make(map[State]int)
	if r.anyCut() {
		r.each(func(_ *deviceShard, d *device) { st.States[d.stateLocked()]++ })
	} else {
		r.addCounts(st.States)
	}
	return st
}

// Gauges is Stats without States. It costs the same for any number of devices.
func (r *Registry) Gauges() Stats {
	st := Stats{Devices: int(r.devices.Load()), Capacity: int(r.rules.Load().capacity), Outbox: r.outbox.limit, Flaps: r.flaps.count()}
	r.outbox.stats(&st)
	r.lag.stats(&st)
	return st
}

// addCounts adds how many devices are counted in each state.
func (r *Registry) addCounts(to map[State]int) {
	for i := range r.shards {
		sh := &r.shards[i]
		sh.mu.Lock()
		for s, n := range sh.counts {
			to[State(s)] += n
		}
		sh.mu.Unlock()
	}
}

// anyCut reports whether any device may be unknown.
func (r *Registry) anyCut() bool {
	for _, s := range r.Sources() {
		if s.unheard(-1) {
			return true
		}
	}
	return false
}

const lagBuckets = 12

// lagBounds are the upper bounds of the classes of Stats.Lag, 1 ms to 17 min.
func lagBounds() []time.Duration {
	bounds := make([]time.Duration, lagBuckets-1)
	for i := range bounds {
		bounds[i] = time.Millisecond << (2 * i)
	}
	return bounds
}

// lag counts verdicts by how late they were.
type lag struct {
	counts [lagBuckets]atomic.Uint64
	sum    atomic.Int64
	most   atomic.Int64
	putOff atomic.Uint64 // verdicts whose deadline was put off
}

func (l *lag) add(d time.Duration) {
	i := 0
	for bound := time.Millisecond; i < lagBuckets-1 && d > bound; i++ {
		bound <<= 2
	}
	l.counts[i].Add(1)
	l.sum.Add(int64(d))
	for most := l.most.Load(); int64(d) > most && !l.most.CompareAndSwap(most, int64(d)); {
		most = l.most.Load()
	}
}

func (l *lag) stats(st *Stats) {
	st.Lag, st.LagBounds = make([]uint64, lagBuckets), lagBounds()
	for i := range l.counts {
		st.Lag[i] = l.counts[i].Load()
		st.Verdicts += st.Lag[i]
	}
	st.LagSum, st.LagMax = time.Duration(l.sum.Load()), time.Duration(l.most.Load())
	st.PutOff = l.putOff.Load()
}
