package chaos

import (
	"slices"
	"time"

	"github.com/holter-iot/holter/bench/internal/api"
)

// State is a device's state by the API.
type State struct {
	State, Reason string
	Seq           uint64
	Timeout       time.Duration
	LastSeen      time.Time
}

// Evidence is all that a run has gathered.
type Evidence struct {
	Rules   Rules
	History History
	Devices []Device // with their journals
	// Events is the log, read in the end; Followed what the stream sent, in its order; Seen what
	// was read from the log during the run, in any order and perhaps more than once.
	Events, Followed, Seen []api.Event
	// States are those by the API at the end, at Until, when no fault had happened for so long that
	// they must be right.
	States map[string]State
	Until  time.Duration
	// Missed counts the messages of the stream that events were missed.
	Missed int
	// Shown are the events, as DEVICE:SEQ, that states of the API followed from during the run;
	// Writes are the writes that were answered.
	Shown  map[string]bool
	Writes []Written
}

// Findings is the result of Score.
type Findings struct {
	Violations []Violation
	// Verdicts counts the offline events by their reason; Due the verdicts that had to be there,
	// Bound those of them that nothing could have put off further; Raced those on a device whose
	// HELLO waited to be accepted.
	Verdicts map[string]int
	Due      int
	Bound    int
	Raced    int
	// Lags are the delays of verdicts after their due times, of those without a break in between.
	Lags Lags
	// Claims are breaks that the server reports and that were not caused here.
	Claims []Break
}

func (f *Findings) add(kind ViolationKind, subject string, offset uint64, detail string) {
	f.Violations = append(f.Violations, Violation{kind, subject, offset, detail})
}

// Score checks the log of a run against the truth, and returns every violation. It is a pure
// function.
func Score(e *Evidence) Findings {
	f := Findings{Verdicts: map[string]int{}}
	f.Claims = claims(e)
	outages := e.History.outages()

	checkLog(e, &f)
	checkFollowed(e, &f)
	checkSeen(e, &f)
	checkShown(e, &f)
	checkWrites(e, &f)

	byDevice := make(map[string][]api.Event, len(e.Devices))
	for _, event := range e.Events {
		if event.Device != "" {
			byDevice[event.Device] = append(byDevice[event.Device], event)
		}
	}
	for i := range e.Devices {
		d := &e.Devices[i]
		j := judge{
			Findings: &f, evidence: e, history: &e.History, policy: e.Rules.of(d.TTL), outages: outages,
			device: d, events: byDevice[d.ID],
		}
		j.run()
	}
	slices.Sort(f.Lags)
	slices.SortStableFunc(f.Violations, func(a, b Violation) int {
		kinds := ViolationKinds()
		return slices.Index(kinds, a.Kind) - slices.Index(kinds, b.Kind)
	})
	return f
}

// claims returns the breaks that the server reports and that were not caused here.
func claims(e *Evidence) []Break {
	var uncaused []Break
	for _, event := range e.Events {
		if event.Type != api.TypeHeard || event.Deaf <= 0 {
			continue
		}
		to := e.History.when(event.Time)
		from := to - event.Deaf
		caused := slices.ContainsFunc(e.History.Breaks, func(b Break) bool {
			return b.Asked-2*checkpoint-e.Rules.Epsilon < to && b.Over+e.Rules.Epsilon > from
		})
		if !caused {
			uncaused = append(uncaused, Break{Kind: Claimed, Asked: from, Began: from, Ending: to, Over: to})
		}
	}
	return uncaused
}
