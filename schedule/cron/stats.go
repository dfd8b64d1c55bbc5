package cron

import (
	"maps"
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

func (s *stats) end(state State) { s.add(state, 1) }

func (s *stats) skip(n int) { s.add(Skipped, n) }

func (s *stats) add(state State, n int) {
	if n == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended == nil {
		s.ended = make(map[State]uint64)
	}
	s.ended[state] += uint64(n)
}

// begin records the delay of a run's first start.
func (s *stats) begin(run *claimedRun) {
	if run.Attempt > 1 {
		return
	}
	late := max(run.Started.Sub(run.Ready), 0)
	s.mu.Lock()
	defer s.mu.Unlock()
	bounds := LateBounds()
	if s.late == nil {
		s.late = make([]uint64, len(bounds)+1)
	}
	i := 0
	for i < len(bounds) && late > bounds[i] {
		i++
	}
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
	st.Ended, st.LateSum = maps.Clone(e.stats.ended), e.stats.sum
	st.Late = append(make([]uint64, 0, len(LateBounds())+1), e.stats.late...)
	if len(st.Late) == 0 {
		st.Late = make([]uint64, len(LateBounds())+1)
	}
	return st
}
