package plan

import (
	"cmp"
	"math/bits"
	"slices"
	"time"
)

// Fates knows what happens to each device, without a table of them: its size, and the time to ask
// for a device, grow with the number of acts alone. It is safe for concurrent use, and does not
// look at the plan again.
//
// An act takes exactly as many devices as it says. An act that takes groups takes whole ones, which
// no other act on groups has taken or will take. Other acts draw from the devices that are there
// from the beginning of the act until the last device that it takes is back: not gone for good, nor
// away because of an act that began before, nor in a group that is taken meanwhile. So the absences
// of a device never overlap, and one that is gone for good is left alone. Acts that begin at the
// same instant take different devices.
type Fates struct {
	devices, group, groups int // groups: whole ones
	ranks                  permutation
	sites                  []site
	draws                  []draw
	errs                   []error
}

// Fates computes which device is taken by which act. The plan must be valid; where there are not
// enough devices, an act takes those that there are.
func (p *Plan) Fates() *Fates {
	f := &Fates{devices: max(p.Devices, 0), group: max(p.Group, 0)}
	if f.group > 0 {
		f.groups = f.devices / f.group
	}
	f.ranks = permute(Mix(p.Seed^keyGroups), f.groups)
	f.planDraws(f.planSites(p.occasions()))
	return f
}

// Of returns what happens to device n, in the order of time; nil if nothing does.
func (f *Fates) Of(n int) []Step { return f.Append(nil, n) }

// Append is like [Fates.Of], and appends to dst.
func (f *Fates) Append(dst []Step, n int) []Step {
	if n < 0 || n >= f.devices {
		return dst
	}
	first := len(dst)
	class, index := 0, n
	if len(f.sites) > 0 {
		class, index = f.class(n)
	}
	if class > 0 {
		s := &f.sites[class-1]
		group := index / f.group
		dst = s.steps(dst, group, s.groups, index, s.groups*f.group)
	}
	dst = f.drawn(dst, class, index)
	if class > 0 {
		slices.SortStableFunc(dst[first:], func(a, b Step) int { return cmp.Compare(a.At, b.At) })
	}
	return dst
}

// class returns the class of a device and its number there.
func (f *Fates) class(n int) (class, index int) {
	last := f.sites[len(f.sites)-1]
	taken := last.first + last.groups
	if n >= f.groups*f.group { // left over
		return 0, n - taken*f.group
	}
	rank, place := f.ranks.of(n/f.group), n%f.group
	if rank >= taken {
		return 0, (rank-taken)*f.group + place
	}
	for i, s := range f.sites {
		if rank < s.first+s.groups {
			class, index = i+1, (rank-s.first)*f.group+place
			break
		}
	}
	return class, index
}

// drawn follows a device of a class through the draws.
func (f *Fates) drawn(dst []Step, class, index int) []Step {
	var away *draw
	for j := range f.draws {
		if away != nil {
			if j < away.free {
				continue
			}
			index += away.lots[class].base
			away = nil
		}
		d := &f.draws[j]
		lots := &d.lots[class]
		if lots.taken == 0 {
			continue
		}
		index = lots.order.of(index)
		if index >= lots.taken {
			index -= lots.taken
			continue
		}
		away = d
		rank := lots.before + index
		slot := rank
		if d.Within > 0 {
			slot = permute(d.key+keyLeave, d.taken).of(rank)
		}
		dst = d.steps(dst, slot, d.taken, rank, d.taken)
	}
	return dst
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
