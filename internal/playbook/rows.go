package playbook

import (
	"slices"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
)

// RunState is how far a run of a playbook is.
type RunState int

// The states of a run. The first two are open, the others final.
const (
	RunRunning   RunState = iota
	RunWaiting            // until Wake
	RunDone               // all steps are done or were skipped
	RunFailed             // a step failed
	RunRecovered          // its device or group has recovered
	RunCanceled           // it was canceled
)

func (s RunState) String() string {
	if names := runStates(); s >= 0 && int(s) < len(names) {
		return names[s]
	}
	return "invalid"
}

func runStates() []string {
	return []string{"running", "waiting", "done", "failed", "recovered", "canceled"}
}

// RunStateOf returns the state that a name stands for.
func RunStateOf(name string) (RunState, bool) {
	i := slices.Index(runStates(), name)
	return RunState(max(i, 0)), i >= 0
}

// Final reports whether the run has ended.
func (s RunState) Final() bool { return s >= RunDone }

// StepState is how far a step of a run is.
type StepState int

// The states of a step.
const (
	StepPending StepState = iota // it has not begun; there is no row of it
	StepWaiting                  // until Wake
	StepDone
	StepFailed
)

func (s StepState) String() string {
	if names := []string{"pending", "waiting", "done", "failed"}; s >= 0 && int(s) < len(names) {
		return names[s]
	}
	return "invalid"
}

// Run is a run of a playbook.
type Run struct {
	ID       uint64 // the number of its job
	Playbook string
	Subject  string
	Event    uint64 // offset of the event that began it; 0 if none did
	State    RunState
	Diverted bool // it has gone over to the steps for a recovery
	Started  time.Time
	Ended    time.Time // zero while it is open
	Wake     time.Time // until when it waits
	Error    string    // why it is not done
}

const runColumns = "id, playbook, subject, event, state, diverted, started, ended, wake, error"

func (r *Run) fields() []any {
	return []any{
		&r.ID, &r.Playbook, &r.Subject, &r.Event, &r.State, &r.Diverted, sqldb.Instant(&r.Started), sqldb.Instant(&r.Ended), sqldb.Instant(&r.Wake), &r.Error,
	}
}

// RunStep is a step of a run that has begun.
type RunStep struct {
	Run      uint64 // set when it is read
	Step     string
	State    StepState
	Attempts int // that failed; for a probe, the questions so far
	Started  time.Time
	Ended    time.Time // zero while it waits
	Wake     time.Time // until when it waits
	Holds    bool      // the result of a condition
	Output   string
	Error    string
}

const stepColumns = "run, step, state, attempts, started, ended, wake, holds, output, error"

func (s *RunStep) fields() []any {
	return []any{
		&s.Run, &s.Step, &s.State, &s.Attempts, sqldb.Instant(&s.Started), sqldb.Instant(&s.Ended), sqldb.Instant(&s.Wake), &s.Holds, &s.Output, &s.Error,
	}
}

// runChange is a run as it is now, with the steps that have changed.
type runChange struct {
	Run   Run
	Steps []RunStep
}

// RunFilter selects runs. The zero filter selects all.
type RunFilter struct {
	Playbook string // empty: all
	Subject  string // empty: all
	States   []RunState
	Before   uint64 // only with a smaller number; 0 for all
}
