package score

import "slices"

// Mistake is a kind of mistake that is looked for, with what was found of it.
type Mistake struct {
	*Figure

	// Name is a word or a few, Meaning a sentence.
	Name, Meaning string
	// Allowed is how many of them let a report pass; -1: any number.
	Allowed int
	// Of is the name of the kind that it is a part of, and counted as; "" if it is none.
	Of string
	// Blind are the addresses whose events lack what would show it.
	Blind []string
}

// anyNumber marks kinds that are reported and never fail a run.
const anyNumber = -1

// Mistakes returns all kinds, those of verdicts first. The figures are the report's own.
func (r *Report) Mistakes(l Limits) []Mistake { return slices.Concat(r.ofVerdicts(&l), r.ofEvents(&l)) }

// ofVerdicts returns the mistakes about the state of devices.
func (r *Report) ofVerdicts(l *Limits) []Mistake {
	const falseOffline = "false offline"
	part := func(name, meaning string, f *Figure) Mistake {
		return Mistake{Figure: f, Name: name, Meaning: meaning, Allowed: anyNumber, Of: falseOffline}
	}
	numbers, reasons := r.Unnumbered, r.Unreasoned
	return []Mistake{
		{&r.FalseOffline, falseOffline, "A device was alive and was called offline.", l.FalseOffline, "", nil},
		part("early", "Those on devices that were gone, but not for long enough.", &r.Early),
		part("replaced", "Those from the end of an old connection of a device that had a new one.", &r.Replaced),
		part("overtaken", "Those that were due, but came more than 2 s after the device was back.", &r.Overtaken),
		{&r.MissedOffline, "missed offline", "A device was gone for longer than its timeout and was not called offline.", l.MissedOffline, "", nil},
		{&r.FalseOnline, "false online", "A device was away and was called online.", l.FalseOnline, "", numbers},
		{&r.WrongReason, "wrong reason", "A device was rightly called offline, for a reason that is not the true one.", l.WrongReason, "", reasons},
		{&r.Late, "late", "A verdict, or that a device is back, came more than 5 s after it was due.", l.Late, "", numbers},
		{&r.NeverOnline, "never online", "A device was connected and was never called online.", l.NeverOnline, "", nil},
		{&r.Stuck, "stuck", "A device was back, and still called offline at the end.", l.Stuck, "", nil},
		{&r.DeafAnswered, "deaf while it answered", "A source says that it heard nothing, and answered heartbeats meanwhile.", l.DeafAnswered, "", nil},
		{&r.DeafUnasked, "deaf unasked", "A source was deaf at a time at which the scenario did not stop it.", l.DeafUnasked, "", nil},
		{&r.OtherTimeout, "another timeout", "A verdict by another timeout than the plan's.", anyNumber, "", nil},
	}
}

// ofEvents returns the mistakes in the content and order of events.
func (r *Report) ofEvents(l *Limits) []Mistake {
	numbers := r.Unnumbered
	return []Mistake{
		{&r.Gaps, "sequence gap", "Events of a device are missing, by their numbers.", l.Gaps, "", numbers},
		{&r.Order, "order violation", "An event came after a later one of its device, by its number or session.", l.Order, "", numbers},
		{&r.Duplicates, "duplicate", "An event came twice, or a second verdict on one absence.", l.Duplicates, "", nil},
		{&r.Contradictions, "contradiction", "An event cannot follow the one before it, or what it says of its silence does not add up.", l.Contradictions, "", numbers},
		{&r.Future, "from the future", "An event came before the time that it tells.", l.Future, "", nil},
		{&r.Backwards, "time going back", "An event tells an earlier time than the one of its device before it.", l.Backwards, "", numbers},
		{&r.Lacking, "incomplete event", "An event lacks what events of holter have.", l.Lacking, "", numbers},
		{&r.LogGaps, "log gap", "Places of the log are missing.", l.LogGaps, "", numbers},
		{&r.LogOrder, "log going back", "Places of the log came again.", l.LogOrder, "", numbers},
		{&r.Forgotten, "forgotten", "A device of the fleet was removed.", l.Forgotten, "", numbers},
		{&r.Strangers, "stranger", "An event of a device that is not of this fleet.", anyNumber, "", nil},
	}
}
