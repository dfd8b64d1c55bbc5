package schedule

import (
	"sync/atomic"

	"github.com/holter-iot/holter/timer"
)

// Stats is a picture of an engine. Its parts are read one after the other.
type Stats struct {
	Schedules  int            // that have not ended
	Workers    int            // runs that may go on at a time, or Unlimited
	Running    int            // runs that go on
	Ready      int            // schedules with a run that waits for a worker
	MostReady  int            // the most there ever were
	Runs       uint64         // runs that have begun
	Skipped    uint64         // instants left out because a run went on, and calls of RunNow refused for that
	Misfired   uint64         // times that more than one instant had passed, or one longer than the grace ago
	Failed     uint64         // runs of tasks that returned an error
	Panics     uint64         // runs, and calls of a schedule's Next, that panicked
	ClockSteps uint64         // times that the clock on the wall was found to have been set
	Lateness   timer.Lateness // how long after its instant (and jitter) a schedule was looked at; waiting for a worker not counted
}

type counters struct {
	running                                 atomic.Int64
	runs, skipped, misfired, failed, panics atomic.Uint64
}

// Stats returns a snapshot of the engine's counters.
func (e *Engine) Stats() Stats {
	s := Stats{
		Running:    int(e.counters.running.Load()),
		Runs:       e.counters.runs.Load(),
		Skipped:    e.counters.skipped.Load(),
		Misfired:   e.counters.misfired.Load(),
		Failed:     e.counters.failed.Load(),
		Panics:     e.counters.panics.Load(),
		ClockSteps: e.clock.steps.Load(),
	}
	s.Ready, s.MostReady, s.Workers = e.ready.stats()
	if t := e.timers.Load(); t != nil {
		s.Lateness = t.engine.Stats().Lateness
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	s.Schedules = len(e.handles) - len(e.free)
	return s
}

// isClosed reports whether the context of Run has ended.
func (e *Engine) isClosed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closed
}
