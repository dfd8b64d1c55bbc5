package chaos

import (
	"fmt"
	"slices"
	"time"

	"github.com/holter-iot/holter/liveness/cloudevent"
)

// ViolationKind is a kind of broken promise.
type ViolationKind string

const (
	FalseOffline  ViolationKind = "false offline"       // a verdict that was not due
	MissedOffline ViolationKind = "missed offline"      // a verdict that is not there, or came too late
	Unjudged      ViolationKind = "dead and not judged" // no verdict, after the timeout and three graces of listening
	AnswerLost    ViolationKind = "answered and lost"   // an answered heartbeat or write, or a shown state, is gone
	WrongState    ViolationKind = "wrong state"         // wrong at the end, or online long after it fell silent
	SequenceGap   ViolationKind = "sequence gap"        // a number is missing from a subject's sequence
	Disorder      ViolationKind = "order"               // a number or an epoch goes back, or a verdict follows another one
	LostEvent     ViolationKind = "lost event"          // a reader has seen an event that is gone, or another one now
	OffsetGap     ViolationKind = "offset gap"          // an offset is missing from the log
	WrongStream   ViolationKind = "stream"              // the stream differs from the log
	TwoJudges     ViolationKind = "two judges"          // another node judged already, or a term that was not the next one
	NoJudge       ViolationKind = "no judge"            // no standby took over in time
	WrongEnd      ViolationKind = "ended"               // a process ended by itself, or not as it should
)

// ViolationKinds are all kinds, in the order in which a report has them.
func ViolationKinds() []ViolationKind {
	return []ViolationKind{
		FalseOffline, MissedOffline, Unjudged, AnswerLost, WrongState, SequenceGap, Disorder, LostEvent, OffsetGap, WrongStream, TwoJudges, NoJudge, WrongEnd,
	}
}

// Violation is a broken promise, with the evidence.
type Violation struct {
	Kind    ViolationKind
	Subject string // device, source/NAME or group/NAME
	Offset  uint64 // of the event
	Detail  string
}

// Evidence is all that a run has gathered.
type Evidence struct {
	Rules   Rules
	History History
	Devices []Device // with their journals
	// Events is the log, read in the end; Followed what the stream sent, in its order; Seen what
	// was read from the log during the run, in any order and perhaps more than once.
	Events, Followed, Seen []cloudevent.Event
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
	// Of several nodes: Turns are their times as the judge, Wakes the ends of stops, Answers the
	// answered heartbeats of a device that is connected to all, and Terms what their APIs said.
	Turns, Wakes []Turn
	Answers      []Answer
	Terms        []SeenTerm
}

// Findings is the result of Score.
type Findings struct {
	Violations []Violation
	// Verdicts counts the offline events by their reason; Due the verdicts that had to be there,
	// Bound those of them that nothing could have put off further.
	Verdicts map[string]int
	Due      int
	Bound    int
	// Overlaps are for how long nodes went on to answer when another one judged already.
	Overlaps []time.Duration
}

func (f *Findings) add(kind ViolationKind, subject string, offset uint64, format string, args ...any) {
	f.Violations = append(f.Violations, Violation{kind, subject, offset, fmt.Sprintf(format, args...)})
}

// Score checks the log of a run against the truth, and returns every violation. It is a pure
// function.
func Score(e *Evidence) Findings {
	f := Findings{Verdicts: map[string]int{}}
	checkLog(e, &f)
	checkFollowed(e, &f)
	checkSeen(e, &f)
	checkShown(e, &f)
	checkWrites(e, &f)
	checkAnswers(e, &f)
	checkTerms(e, &f)
	checkRecorded(e, &f)
	checkBreaks(e, &f)
	byDevice := make(map[string][]cloudevent.Event, len(e.Devices))
	for _, event := range e.Events {
		byDevice[deviceOf(&event)] = append(byDevice[deviceOf(&event)], event)
	}
	lapses := e.History.lapses()
	for i := range e.Devices {
		d := &e.Devices[i]
		j := judge{
			Findings: &f, evidence: e, history: &e.History, policy: e.Rules.of(d.TTL), lapses: lapses,
			device: d, events: byDevice[d.ID], ears: e.History.earsOf(d), used: map[int]bool{},
		}
		j.outages = j.outagesOf()
		j.run()
	}
	slices.SortStableFunc(f.Violations, func(a, b Violation) int {
		kinds := ViolationKinds()
		return slices.Index(kinds, a.Kind) - slices.Index(kinds, b.Kind)
	})
	return f
}
