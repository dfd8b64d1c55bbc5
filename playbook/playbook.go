package playbook

import (
	"slices"
	"time"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/store"
)

// Playbook says what is to be done about an event.
type Playbook struct {
	Name string // as that of an endpoint, but no longer than 55 bytes
	// On says which events begin a run. Nil: none; it is run when somebody asks.
	On *Trigger
	// Recovery says what becomes of a run when what it is about is over. Default: it ends.
	Recovery Recovery
	// Steps are what is to be done.
	Steps []Step
	// Recovered are what is to be done after a recovery instead of the steps that have not begun; with Divert only.
	Recovered []Step
}

// Trigger chooses events. An event has to pass all that is given. The zero Trigger chooses all.
type Trigger struct {
	Types   []string // types of events, or patterns such as device.*; empty: all
	Reasons []string // empty: all
	Group   string   // pattern; empty: all
	Device  string   // pattern; empty: all subjects
	All     bool     // also events that nobody is to be alarmed by: in maintenance, and those that an outage of their group stands for
}

// Recovery says what becomes of a run when what it is about is over.
type Recovery uint8

const (
	// Cancel ends the run; steps that were not begun are not done.
	Cancel Recovery = iota
	// Ignore lets it go on.
	Ignore
	// Divert lets it go on with other steps.
	Divert
)

func (r Recovery) String() string { return [...]string{"cancel", "ignore", "divert"}[r] }

// Step is one thing to do.
type Step struct {
	Name string // as that of a playbook; once in it
	// After names the steps that come before it. Nil: the one before it in the list. Empty: none.
	After []string
	// If is the name of a condition that must hold, which is a step before it; with Not: that must not hold. Otherwise the step is skipped,
	// and so is what comes after skipped steps only. Default: none.
	If  string
	Not bool
	// Attempts is how often it is tried until it is done. Default: 3. A run in which a step fails ends.
	Attempts int
	// Pause bounds the random pause before the second attempt; the bound doubles with each, up to 5 min. Default: 1 s.
	Pause time.Duration
	// Timeout bounds one attempt. Default: 10 s.
	Timeout time.Duration
	// Do is what it does.
	Do Action
}

const (
	defaultAttempts = 3
	defaultPause    = time.Second
	maxPause        = 5 * time.Minute
	defaultTimeout  = 10 * time.Second
	maxTimeout      = 5 * time.Minute
)

// Before returns the names of the steps that come before the i-th of some.
func Before(steps []Step, i int) []string {
	if steps[i].After == nil && i > 0 {
		return []string{steps[i-1].Name}
	}
	return steps[i].After
}

// Skipped returns the names of the steps that are skipped in a run of which so much is known: it follows from what conditions were found to be.
func Skipped(steps []Step, known func(step string) store.RunStep) map[string]bool {
	skipped := make(map[string]bool)
	for more := true; more; {
		more = false
		for i := range steps {
			s := &steps[i]
			condition, before := known(s.If), Before(steps, i)
			fails := s.If != "" && (skipped[s.If] || condition.State == store.StepDone && condition.Holds == s.Not)
			after := len(before) > 0 && !slices.ContainsFunc(before, func(name string) bool { return !skipped[name] })
			if (fails || after) && !skipped[s.Name] {
				skipped[s.Name], more = true, true
			}
		}
	}
	return skipped
}

// recoveryOf returns the type of event after which what an event tells of is over; ok reports whether there is one.
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

// endsRuns reports whether what some run is about may be over after an event of a type.
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
