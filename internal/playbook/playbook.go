package playbook

import (
	"slices"
	"time"

	"github.com/holter-iot/holter/liveness"
)

// Playbook defines the actions that follow an event.
type Playbook struct {
	Name string // a valid endpoint name of at most 55 bytes
	// On chooses the events that start a run. Nil: none; runs are started by hand.
	On *Trigger
	// Recovery is applied when the run's subject recovers. Default: the run is canceled.
	Recovery Recovery
	// Steps are the steps of a run.
	Steps []Step
	// Recovered are the steps that, after a recovery, replace the steps that have not started. Only
	// with Divert.
	Recovered []Step
	// Place is where it was written, such as fleet.yaml:12. Default: it is not known.
	Place string
}

// Trigger chooses events, which must match all its fields. The zero Trigger chooses all events.
type Trigger struct {
	Types   []string `json:"types,omitempty"`   // types of events, or patterns such as device.*; empty: all
	Reasons []string `json:"reasons,omitempty"` // empty: all
	Group   string   `json:"group,omitempty"`   // pattern; empty: all
	Device  string   `json:"device,omitempty"`  // pattern; empty: all subjects
	All     bool     `json:"all,omitempty"`     // also suppressed events: of devices in maintenance, and of members of a group that has an outage
}

// Recovery says what happens to a run when its subject recovers.
type Recovery uint8

const (
	// Cancel ends the run. Steps that have not started are skipped.
	Cancel Recovery = iota
	// Ignore lets the run continue.
	Ignore
	// Divert continues the run with the steps of Recovered.
	Divert
)

func (r Recovery) String() string { return [...]string{"cancel", "ignore", "divert"}[r] }

// Step is one action of a playbook.
type Step struct {
	Name string // a valid playbook name, unique in the playbook
	// After names the steps that come before it. Nil: the one before it in the list. Empty: none.
	After []string
	// If is the name of a condition that must hold or, with Not, must not hold. The condition is an
	// earlier step. Otherwise the step is skipped, and so are steps that come after skipped steps
	// only. Default: no condition.
	If  string
	Not bool
	// Attempts is the largest number of attempts. Default: 3. A run fails when a step fails.
	Attempts int
	// Pause is the upper bound of the random pause before the second attempt. It doubles with each
	// attempt, up to 5 min. Default: 1 s.
	Pause time.Duration
	// Timeout bounds one attempt. Default: 10 s.
	Timeout time.Duration
	// Do is the action.
	Do Action
}

const (
	defaultAttempts = 3
	defaultPause    = time.Second
	maxPause        = 5 * time.Minute
	defaultTimeout  = 10 * time.Second
	maxTimeout      = 5 * time.Minute
)

// Before returns the names of the steps that come before the i-th step.
func Before(steps []Step, i int) []string {
	if steps[i].After == nil && i > 0 {
		return []string{steps[i-1].Name}
	}
	return steps[i].After
}

// Skipped returns the names of the steps that are skipped in a run, given what is known of its
// steps. It follows from the results of the conditions.
func Skipped(steps []Step, known func(step string) RunStep) map[string]bool {
	skipped := make(map[string]bool)
	for more := true; more; {
		more = false
		for i := range steps {
			s := &steps[i]
			condition, before := known(s.If), Before(steps, i)
			fails := s.If != "" && (skipped[s.If] || condition.State == StepDone && condition.Holds == s.Not)
			after := len(before) > 0 && !slices.ContainsFunc(before, func(name string) bool { return !skipped[name] })
			if (fails || after) && !skipped[s.Name] {
				skipped[s.Name], more = true, true
			}
		}
	}
	return skipped
}

// recoveryOf returns the type of the event that ends the condition that an event reports. ok
// reports whether there is one.
func recoveryOf(t liveness.Type) (over liveness.Type, ok bool) {
	switch t {
	case liveness.DeviceLate, liveness.DeviceOffline, liveness.DeviceSleeping:
		return liveness.DeviceOnline, true
	case liveness.DeviceFlappingStarted:
		return liveness.DeviceFlappingStopped, true
	case liveness.DeviceMaintenanceStarted:
		return liveness.DeviceMaintenanceStopped, true
	case liveness.SourceDeaf:
		return liveness.SourceHeard, true
	case liveness.GroupOutageStarted:
		return liveness.GroupOutageEnded, true
	default:
		return 0, false
	}
}

// endsRuns reports whether an event of a type may be the recovery of a run's subject.
func endsRuns(t liveness.Type) bool {
	return slices.Contains([]liveness.Type{
		liveness.DeviceOnline, liveness.DeviceFlappingStopped, liveness.DeviceMaintenanceStopped, liveness.DeviceForgotten, liveness.SourceHeard,
		liveness.GroupOutageEnded,
	}, t)
}

func isGroup(t liveness.Type) bool {
	return t == liveness.GroupOutageStarted || t == liveness.GroupOutageEnded
}

func isSource(t liveness.Type) bool { return t == liveness.SourceDeaf || t == liveness.SourceHeard }
