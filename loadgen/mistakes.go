package loadgen

import (
	"github.com/holter-iot/holter/loadgen/report"
	"github.com/holter-iot/holter/loadgen/score"
)

// kindOfMistake is a kind of mistake that is looked for.
type kindOfMistake struct {
	name, meaning string
	figure        *score.Figure
	allowed       int
	of            string // the kind that it is a part of
	unchecked     bool
}

// anyNumber marks a kind that is reported and never fails a run.
const anyNumber = -1

// mistakes are all kinds that are looked for.
func (j *judge) mistakes(r *score.Report) []report.Mistake {
	kinds := append(j.ofVerdicts(r), j.ofEvents(r)...)
	all := make([]report.Mistake, len(kinds))
	for i, k := range kinds {
		all[i] = report.Mistake{Name: k.name, Meaning: k.meaning, Count: k.figure.Count, Allowed: k.allowed, Of: k.of, Unchecked: k.unchecked}
		for _, e := range k.figure.Examples {
			all[i].Examples = append(all[i].Examples, report.Example{Device: e.Device, At: e.At, Done: e.Done, Said: e.Said})
		}
	}
	return all
}

// ofVerdicts are mistakes about the state of devices.
func (j *judge) ofVerdicts(r *score.Report) []kindOfMistake {
	l := &j.limits
	const falseOffline = "false offline"
	numbers, reasons := j.lack(r.Unnumbered), j.lack(r.Unreasoned)
	return []kindOfMistake{
		{falseOffline, "A device was alive and was called offline.", &r.FalseOffline, l.FalseOffline, "", false},
		{"early", "Those on devices that were gone, but not for long enough.", &r.Early, anyNumber, falseOffline, false},
		{"replaced", "Those from the end of an old connection of a device that had a new one.", &r.Replaced, anyNumber, falseOffline, false},
		{"overtaken", "Those that were due, but came more than 2 s after the device was back.", &r.Overtaken, anyNumber, falseOffline, false},
		{"missed offline", "A device was gone for longer than its timeout and was not called offline.", &r.MissedOffline, l.MissedOffline, "", false},
		{"false online", "A device was away and was called online.", &r.FalseOnline, l.FalseOnline, "", numbers},
		{"wrong reason", "A device was rightly called offline, for a reason that is not the true one.", &r.WrongReason, l.WrongReason, "", reasons},
		{"late", "A verdict, or that a device is back, came more than 5 s after it was due.", &r.Late, l.Late, "", numbers || l.Late < 0},
		{"never online", "A device was connected, and nobody said so.", &r.NeverOnline, l.NeverOnline, "", false},
		{"stuck", "A device was back, and still called offline at the end.", &r.Stuck, l.Stuck, "", false},
		{"deaf while it answered", "A source says that it heard nothing, and answered heartbeats meanwhile.", &r.DeafAnswered, l.DeafAnswered, "", false},
		{"deaf unasked", "A source was deaf at a time at which the scenario did not stop it.", &r.DeafUnasked, l.DeafUnasked, "", false},
		{"another timeout", "A verdict by another timeout than the plan's.", &r.OtherTimeout, anyNumber, "", false},
	}
}

// ofEvents are mistakes in the content and order of events.
func (j *judge) ofEvents(r *score.Report) []kindOfMistake {
	l := &j.limits
	numbers := j.lack(r.Unnumbered)
	return []kindOfMistake{
		{"sequence gap", "Events of a device are missing, by their numbers.", &r.Gaps, l.Gaps, "", numbers},
		{"order violation", "An event came after a later one of its device, by its number or session.", &r.Order, l.Order, "", numbers},
		{"duplicate", "An event came twice, or a second verdict on one absence.", &r.Duplicates, l.Duplicates, "", false},
		{"contradiction", "An event cannot follow the one before it, or what it says of its silence does not add up.", &r.Contradictions, l.Contradictions, "", numbers},
		{"from the future", "An event came before the time that it tells.", &r.Future, l.Future, "", false},
		{"time going back", "An event tells an earlier time than the one of its device before it.", &r.Backwards, l.Backwards, "", numbers},
		{"incomplete event", "An event lacks what events of holter have.", &r.Lacking, l.Lacking, "", numbers},
		{"log gap", "Places of the log are missing.", &r.LogGaps, l.LogGaps, "", numbers},
		{"log going back", "Places of the log came again.", &r.LogOrder, l.LogOrder, "", numbers},
		{"forgotten", "A device of the fleet was removed.", &r.Forgotten, l.Forgotten, "", numbers},
		{"stranger", "An event of a device that is not of this fleet.", &r.Strangers, anyNumber, "", false},
	}
}

// lack reports whether every server's events lack something.
func (j *judge) lack(where []string) bool { return len(where) > 0 && len(where) >= len(j.from) }
