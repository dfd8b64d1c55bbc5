package liveness

import (
	"sync/atomic"
	"time"
)

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
}

func (l *lag) add(d time.Duration) {
	i := 0
	for bound := time.Millisecond; i < lagBuckets-1 && d > bound; i++ {
		bound <<= 2
	}
	l.counts[i].Add(1)
	l.sum.Add(int64(d))
}

func (l *lag) stats(st *Stats) {
	st.Lag, st.LagBounds = make([]uint64, lagBuckets), lagBounds()
	for i := range l.counts {
		st.Lag[i] = l.counts[i].Load()
		st.Verdicts += st.Lag[i]
	}
	st.LagSum = time.Duration(l.sum.Load())
}
