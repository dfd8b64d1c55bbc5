package playbook

import (
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/holter-iot/holter/sqldb"
)

// RunState is how far a run of a playbook is.
type RunState uint8

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
	if names := runStates(); int(s) < len(names) {
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
type StepState uint8

// The states of a step.
const (
	StepPending StepState = iota // it has not begun; there is no row of it
	StepWaiting                  // until Wake
	StepDone
	StepFailed
)

func (s StepState) String() string {
	if names := []string{"pending", "waiting", "done", "failed"}; int(s) < len(names) {
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

// RunStep is a step of a run that has begun.
type RunStep struct {
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

type runRow struct {
	bun.BaseModel `bun:"table:runs"`

	ID       uint64 `bun:"id,pk"`
	Playbook string `bun:"playbook"`
	Subject  string `bun:"subject"`
	Event    uint64 `bun:"event"`
	State    int    `bun:"state"`
	Diverted int    `bun:"diverted"`
	Started  int64  `bun:"started"`
	Ended    int64  `bun:"ended"`
	Wake     int64  `bun:"wake"`
	Error    string `bun:"error"`
}

func (r *runRow) value() Run {
	return Run{
		ID: r.ID, Playbook: r.Playbook, Subject: r.Subject, Event: r.Event, State: RunState(r.State), Diverted: r.Diverted != 0,
		Started: sqldb.Time(r.Started), Ended: sqldb.Time(r.Ended), Wake: sqldb.Time(r.Wake), Error: r.Error,
	}
}

type stepRow struct {
	bun.BaseModel `bun:"table:run_steps"`

	Run      uint64 `bun:"run,pk"`
	Step     string `bun:"step,pk"`
	State    int    `bun:"state"`
	Attempts int    `bun:"attempts"`
	Started  int64  `bun:"started"`
	Ended    int64  `bun:"ended"`
	Wake     int64  `bun:"wake"`
	Holds    int    `bun:"holds"`
	Output   string `bun:"output"`
	Error    string `bun:"error"`
}

func (r *stepRow) value() RunStep {
	return RunStep{
		Step: r.Step, State: StepState(r.State), Attempts: r.Attempts, Started: sqldb.Time(r.Started), Ended: sqldb.Time(r.Ended), Wake: sqldb.Time(r.Wake),
		Holds: r.Holds != 0, Output: r.Output, Error: r.Error,
	}
}

func runsOf(rows []runRow) []Run {
	runs := make([]Run, len(rows))
	for i := range rows {
		runs[i] = rows[i].value()
	}
	return runs
}
