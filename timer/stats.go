package timer

import (
	"math/bits"
	"time"
)

// Stats is a picture of an engine. Its parts are read one after the other, so sums may be off by
// what happened meanwhile.
type Stats struct {
	Armed    int    `json:"armed"`    // timers that are armed, or due and not yet claimed by a worker; 0 once the engine is closed
	Hints    int    `json:"hints"`    // entries in the heaps
	Dead     int    `json:"dead"`     // those of them that stand for no armed timer, or for an earlier state of one; and cancelled timers in the ready queue
	Slots    int    `json:"slots"`    // slots ever used: the memory in use is some 24 bytes for each
	Retired  int    `json:"retired"`  // slots taken out of service because their generations are used up
	Sweeps   uint64 `json:"sweeps"`   // times that a heap was rid of its dead entries
	Fired    uint64 `json:"fired"`    // expiries claimed for a callback
	Rejected uint64 `json:"rejected"` // armings refused with ErrFull
	Panics   uint64 `json:"panics"`   // callbacks that panicked
	Queued   int    `json:"queued"`   // batches in the ready queue
	Spilled  uint64 `json:"spilled"`  // batches that were queued while the ready queue held Config.Queue or more
	Refused  uint64 `json:"refused"`  // times that no worker was free for a task (counted with ants.WithNonblocking only); it was offered again
	Workers  int    `json:"workers"`  // the most callbacks that run at a time, as set last; Unlimited: -1

	// Lateness counts the expiries by how long after its deadline the engine found a timer due,
	// callbacks not counted.
	Lateness Lateness `json:"-"`
}

const latenessBuckets = 32

// Lateness is a histogram: bucket i counts what was late by less than 2^i µs, and not less than
// 2^(i-1). The last bucket counts all that was later.
type Lateness [latenessBuckets]uint64

func latenessBucket(d time.Duration) int {
	return min(bits.Len64(uint64(max(d, 0)/time.Microsecond)), latenessBuckets-1)
}

// Quantile returns a bound that the share q of all expiries (0 to 1) was not later than; 0 if there
// were none. What was later than 18 minutes counts as 36.
func (l Lateness) Quantile(q float64) time.Duration {
	var total uint64
	for _, n := range l {
		total += n
	}
	rank := q * float64(total)
	var seen uint64
	for i, n := range l {
		if seen += n; n > 0 && float64(seen) >= rank {
			return time.Microsecond << i
		}
	}
	return 0
}

// Stats returns a picture of the engine. It takes each shard's lock for a moment.
func (e *Engine) Stats() Stats {
	st := Stats{
		Rejected: e.rejected.Load(),
		Panics:   e.panics.Load(),
		Workers:  int(e.gate.limit.Load()),
	}
	st.Queued, st.Spilled, st.Refused = e.ready.stats()
	for _, s := range e.shards {
		s.addTo(&st)
	}
	return st
}

func (s *shard) addTo(st *Stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		cancelled := int(s.cancelled.Load())
		st.Armed += s.hinted - cancelled
		st.Hints += s.hints.len()
		st.Dead += s.supersededLocked() + cancelled
	}
	st.Sweeps += s.sweeps
	st.Fired += s.fired
	for i, n := range s.lateness {
		st.Lateness[i] += n
	}
	for i := range s.slabs {
		if m := s.slabs[i].Load(); m != nil {
			st.Slots += int(m.Slots())
			st.Retired += m.Retired()
		}
	}
}
