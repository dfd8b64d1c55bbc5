package cron

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// Stats is a snapshot of an engine's counters since the process started.
type Stats struct {
	Running int // runs in progress in this process
	Windows int // open maintenance windows
	// Ended counts runs by outcome: done, failed and lost. Skipped counts instants; idle counts
	// runs that will be started again.
	Ended map[State]uint64
	// Late is a histogram of how long after their instants runs began: Late[i] counts those up to
	// LateBounds()[i], its last element those beyond all bounds. LateSum is the sum of these times.
	Late    []uint64
	LateSum time.Duration
}

// LateBounds returns the bounds of Stats.Late.
func LateBounds() []time.Duration {
	return []time.Duration{100 * time.Millisecond, time.Second, 10 * time.Second, time.Minute, 10 * time.Minute, time.Hour}
}

type stats struct {
	mu    sync.Mutex // guards the fields below
	ended map[State]uint64
	late  []uint64
	sum   time.Duration
}

// add counts n runs, or skipped instants, with an outcome.
func (s *stats) add(state State, n int) {
	if n == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended[state] += uint64(n)
}

// begin records the delay of a run's first start.
func (s *stats) begin(run *claimedRun) {
	if run.Attempt > 1 {
		return
	}
	late := max(run.Started.Sub(run.Ready), 0)
	i, _ := slices.BinarySearch(LateBounds(), late)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late[i]++
	s.sum += late
}

// Stats returns a snapshot of the counters.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	st := Stats{Running: e.busy}
	e.mu.Unlock()
	st.Windows = e.windows.count()
	e.stats.mu.Lock()
	defer e.stats.mu.Unlock()
	st.Ended, st.Late, st.LateSum = maps.Clone(e.stats.ended), slices.Clone(e.stats.late), e.stats.sum
	return st
}
