package score

import (
	"slices"

	"github.com/holter-iot/holter/internal/loadgen/report"
)

// Mistake is a kind of mistake that is looked for.
type Mistake uint8

// Mistakes about the state of devices, and then those in the content and order of events.
// EarlyOffline, OldConnection and Overtaken are among the false offlines. AnotherTimeout and
// Strangers are only counted: they never fail a run.
const (
	FalseOffline Mistake = iota
	EarlyOffline
	OldConnection
	Overtaken
	MissedOffline
	FalseOnline
	WrongReason
	TooLate
	NeverOnline
	Stuck
	DeafAnswered // known at the end only, as the three before it
	DeafUnasked  // likewise; see [Score.Stopped]
	AnotherTimeout
	Gaps
	Order
	Duplicates
	Contradictions
	Future
	Backwards
	Lacking
	LogGaps
	LogOrder
	Removed
	Strangers
	mistakes // how many there are
)

// kind is what is said of a kind of mistake.
type kind struct {
	// name is a word or a few, meaning a sentence, part the name of the kind that it is a part of,
	// and counted as.
	name, meaning, part string
	needs               need
	harmless            bool // any number of them lets a run pass
}

// need is what events must have to show a mistake.
type need uint8

const (
	nothing need = iota
	numbers
	reasons
)

func kinds() [mistakes]kind {
	part := func(name, meaning string) kind {
		return kind{name: name, meaning: meaning, part: "false offline", harmless: true}
	}
	return [mistakes]kind{
		FalseOffline:   {name: "false offline", meaning: "A device was alive and was called offline."},
		EarlyOffline:   part("early", "Those on devices that were gone, but not for long enough."),
		OldConnection:  part("replaced", "Those from the end of an old connection of a device that had a new one."),
		Overtaken:      part("overtaken", "Those that were due, but came more than 2 s after the device was back."),
		MissedOffline:  {name: "missed offline", meaning: "A device was gone for longer than its timeout and was not called offline."},
		FalseOnline:    {name: "false online", meaning: "A device was away and was called online.", needs: numbers},
		WrongReason:    {name: "wrong reason", meaning: "A device was rightly called offline, for a reason that is not the true one.", needs: reasons},
		TooLate:        {name: "late", meaning: "A verdict, or that a device is back, came more than 5 s after it was due.", needs: numbers},
		NeverOnline:    {name: "never online", meaning: "A device was connected and was never called online."},
		Stuck:          {name: "stuck", meaning: "A device was back, and still called offline at the end."},
		DeafAnswered:   {name: "deaf while it answered", meaning: "A source says that it heard nothing, and answered heartbeats meanwhile."},
		DeafUnasked:    {name: "deaf unasked", meaning: "A source was deaf at a time at which the scenario did not stop it."},
		AnotherTimeout: {name: "another timeout", meaning: "A verdict by another timeout than the plan's.", harmless: true},

		Gaps:           {name: "sequence gap", meaning: "Events of a device are missing, by their numbers.", needs: numbers},
		Order:          {name: "order violation", meaning: "An event came after a later one of its device, by its number or session.", needs: numbers},
		Duplicates:     {name: "duplicate", meaning: "An event came twice, or a second verdict on one absence."},
		Contradictions: {name: "contradiction", meaning: "An event cannot follow the one before it, or what it says of its silence does not add up.", needs: numbers},
		Future:         {name: "from the future", meaning: "An event came before the time that it tells."},
		Backwards:      {name: "time going back", meaning: "An event tells an earlier time than the one of its device before it.", needs: numbers},
		Lacking:        {name: "incomplete event", meaning: "An event lacks what events of holter have.", needs: numbers},
		LogGaps:        {name: "log gap", meaning: "Places of the log are missing.", needs: numbers},
		LogOrder:       {name: "log going back", meaning: "Places of the log came again.", needs: numbers},
		Removed:        {name: "forgotten", meaning: "A device of the fleet was removed.", needs: numbers},
		Strangers:      {name: "stranger", meaning: "An event of a device that is not of this fleet.", harmless: true},
	}
}

// Figure counts something, and has the first ten cases for a person to look up.
type Figure struct {
	Count    uint64
	Examples []report.Example

	keys []int64 // tell the examples of a device apart
}

// maxExamples is how many of each kind are kept.
const maxExamples = 10

// add counts cases; describe is asked for one if there is room.
func (f *Figure) add(n uint64, key int64, describe func() report.Example) {
	f.Count += n
	if len(f.Examples) < maxExamples {
		f.Examples, f.keys = append(f.Examples, describe()), append(f.keys, key)
	}
}

// retract takes a case back.
func (f *Figure) retract(device string, key int64) {
	f.Count--
	for i, e := range f.Examples {
		if e.Device == device && f.keys[i] == key {
			f.Examples, f.keys = slices.Delete(f.Examples, i, i+1), slices.Delete(f.keys, i, i+1)
			return
		}
	}
}

// mistakes returns all kinds with what was found of them. One is unchecked if the events of no
// gateway have what it needs.
func (r *Report) mistakes(l *Limits) []report.Mistake {
	lack := [...]int{nothing: 0, numbers: r.unnumbered, reasons: r.unreasoned}
	all := make([]report.Mistake, mistakes)
	for i, k := range kinds() {
		allowed := l.Allowed[i]
		if k.harmless {
			allowed = -1
		}
		f := &r.Figures[i]
		all[i] = report.Mistake{
			Name: k.name, Meaning: k.meaning, Count: f.Count, Allowed: allowed, Of: k.part, Examples: f.Examples,
			// Only a user who waives lateness allows any.
			Unchecked: lack[k.needs] > 0 && lack[k.needs] >= len(r.Clocks) || i == int(TooLate) && allowed < 0,
		}
	}
	return all
}
