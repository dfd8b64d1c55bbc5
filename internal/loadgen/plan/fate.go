package plan

import (
	"cmp"
	"math/bits"
	"slices"
	"time"
)

// Fates is what happens to some devices of a fleet. It does not look at the plan again.
//
// An act takes exactly as many devices as it says. An act that takes groups takes whole ones, which
// no other act on groups has taken or will take. Other acts draw from the devices that are there
// from the beginning of the act until the last device that it takes is back: not gone for good, nor
// away because of an act that began before, nor in a group that is taken meanwhile. So the absences
// of a device never overlap, and one that is gone for good is left alone. Acts that begin at the
// same instant take different devices.
type Fates struct {
	plan  *Plan
	asked Range
	steps [][]Step // of the devices that are asked for
	errs  []error

	away  []time.Duration // by device: until when an act on devices holds it
	taken []*occasion     // by group: the act on groups that takes it
	there []int32         // room for the devices that an act may draw
}

// Fates computes what happens to the devices of a range; it is the same in every process, but takes
// time and memory for the whole fleet: some 10 ms for an act and a million devices. The plan must be
// valid; where there are not enough devices, an act takes those that there are.
func (p *Plan) Fates(r Range) *Fates {
	r.From = max(r.From, 0)
	r.To = max(min(r.To, p.Devices), r.From)
	f := &Fates{plan: p, asked: r, steps: make([][]Step, r.Len())}
	all := p.occasions()
	if len(all) == 0 {
		return f
	}
	f.away = make([]time.Duration, max(p.Devices, 0))
	if p.Group > 0 {
		f.taken = make([]*occasion, len(f.away)/p.Group)
	}
	f.takeGroups(all)
	for i := range all {
		if !all[i].wholeGroups() {
			f.takeDevices(&all[i])
		}
	}
	for _, s := range f.steps {
		slices.SortStableFunc(s, func(a, b Step) int { return cmp.Compare(a.At, b.At) })
	}
	f.plan, f.away, f.taken, f.there = nil, nil, nil, nil
	return f
}

// Of returns what happens to a device of the range, in the order of time; nil if nothing does.
func (f *Fates) Of(n int) []Step {
	if n < f.asked.From || n >= f.asked.To {
		return nil
	}
	return f.steps[n-f.asked.From]
}

// Signals returns the steps that are done to no device, in the order of time.
func (p *Plan) Signals() []Step {
	var steps []Step
	var began time.Duration
	for _, ph := range p.Phases {
		for _, a := range ph.Acts {
			for i := range a.times() {
				if a.Kind != Signal {
					break
				}
				s := Step{At: began + a.After + time.Duration(i)*a.Every, Kind: Signal}
				if a.Back > 0 {
					s.Back = s.At + a.Back
				}
				steps = append(steps, s)
			}
		}
		began += ph.Length
	}
	slices.SortStableFunc(steps, func(a, b Step) int { return cmp.Compare(a.At, b.At) })
	return steps
}

// fraction returns portion wholes of d, rounded down. portion is at most whole.
func fraction(d time.Duration, portion, whole int) time.Duration {
	high, low := bits.Mul64(uint64(max(d, 0)), uint64(portion))
	quotient, _ := bits.Div64(high, low, uint64(whole))
	return time.Duration(quotient)
}
