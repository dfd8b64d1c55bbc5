package plan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// occasion is an act with its place in time. It holds the devices that it takes from start on, and
// no longer at until.
type occasion struct {
	Act

	phase, index int // which act of which phase
	start, until time.Duration
	chance       *rand.Rand
}

const forever = time.Duration(math.MaxInt64)

// occasions returns what happens to devices, in the order in which it begins.
func (p *Plan) occasions() []occasion {
	var all []occasion
	var began time.Duration
	for i, ph := range p.Phases {
		for j, a := range ph.Acts {
			if a.Kind == Signal {
				continue
			}
			start := began + a.After
			o := occasion{Act: a, phase: i, index: j, start: start, until: start + a.lasts()}
			if a.forGood() {
				o.until = forever
			}
			o.chance = rand.New(rand.NewPCG(Mix(p.Seed), uint64(i)<<32+uint64(j)+1))
			all = append(all, o)
		}
		began += ph.Length
	}
	slices.SortStableFunc(all, func(a, b occasion) int { return int(min(max(a.start-b.start, -1), 1)) })
	return all
}

// forGood reports whether the devices do not come back.
func (a *Act) forGood() bool { return a.Back == 0 && !a.Kind.Returns() }

// times returns how often it happens to each, at least once.
func (a *Act) times() int { return max(a.Times, 1) }

// happens returns how long after its beginning the last of it happens.
func (a *Act) happens() time.Duration { return a.Within + time.Duration(a.times()-1)*a.Every }

// lasts returns how long after its beginning the last device is back, if they come back. The
// instant at which something happens belongs to it also if they are back at once.
func (a *Act) lasts() time.Duration { return a.happens() + max(a.Back+a.BackWithin, 1) }

// wholeGroups reports whether an act takes groups.
func (a *Act) wholeGroups() bool { return a.Groups != 0 || a.GroupShare != 0 }

// groups returns how many of all groups an act takes.
func (a *Act) groups(all int) int {
	if a.GroupShare != 0 {
		return portionOf(a.GroupShare, all)
	}
	return a.Groups
}

// devices returns how many an act takes, if that does not depend on which devices are present.
func (a *Act) devices(all int) int {
	if a.Share != 0 {
		return portionOf(a.Share, all)
	}
	return a.Count
}

func portionOf(share float64, all int) int { return int(math.Round(share * float64(all))) }

// meets reports whether no device may be taken by both.
func (o *occasion) meets(q *occasion) bool {
	return o.start < q.until && q.start < o.until
}

// steps appends what happens to a device that is number slot of slots in the order of leaving, and
// number back of backs in that of coming back.
func (o *occasion) steps(dst []Step, slot, slots, back, backs int) []Step {
	at := o.start + fraction(o.Within, slot, slots)
	stay := o.Back + fraction(o.BackWithin, back, backs)
	for range o.times() {
		s := Step{At: at, Kind: o.Kind}
		if !o.forGood() {
			if stay == 0 {
				s.At = max(at, 1) // so that Back is not 0
			}
			s.Back = s.At + stay
		}
		dst = append(dst, s)
		at += o.Every
	}
	return dst
}

// backs draws the order in which n devices come back, if they do not do so together.
func (o *occasion) backs(n int) func(i int) int {
	if o.BackWithin == 0 {
		return func(int) int { return 0 }
	}
	order := o.chance.Perm(n)
	return func(i int) int { return order[i] }
}

// takeGroups gives whole groups to the occasions that want them.
func (f *Fates) takeGroups(all []occasion) {
	size := max(f.plan.Group, 1)
	groups := len(f.taken)
	order := rand.New(rand.NewPCG(Mix(f.plan.Seed), 0)).Perm(groups)
	for i := range all {
		o := &all[i]
		if !o.wholeGroups() {
			continue
		}
		g := max(o.groups(groups), 0)
		if g > len(order) {
			f.fail(o, "%d groups are too many: there are %d of %d devices, and a group is taken once; %d are left (take fewer, or let times and every repeat it)",
				g, groups, f.plan.Group, len(order))
			g = len(order)
		} else if g == 0 {
			f.fail(o, "takes nobody: there are %d groups of %d devices; take a greater share, smaller groups or more devices", groups, f.plan.Group)
		}
		back := o.backs(g * size)
		for slot, group := range order[:g] {
			f.taken[group] = o
			for k := range size {
				f.note(o, group*size+k, slot, g, back(slot*size+k), g*size)
			}
		}
		order = order[g:]
	}
}

// takeDevices draws the devices of an occasion from those that are there.
func (f *Fates) takeDevices(o *occasion) {
	there := f.there[:0]
	for n, until := range f.away {
		if until > o.start {
			continue
		}
		if g := n / max(f.plan.Group, 1); g < len(f.taken) && f.taken[g] != nil && f.taken[g].meets(o) {
			continue
		}
		there = append(there, int32(n))
	}
	f.there = there
	number := f.number(o, len(there))
	back := o.backs(number)
	for slot := range number {
		i := slot + o.chance.IntN(len(there)-slot)
		there[slot], there[i] = there[i], there[slot]
		n := int(there[slot])
		f.away[n] = o.until
		f.note(o, n, slot, number, back(slot), number)
	}
}

// note adds the steps of a device, if it is one of those that are asked for.
func (f *Fates) note(o *occasion, n, slot, slots, back, backs int) {
	if i := n - f.asked.From; i >= 0 && i < len(f.steps) {
		f.steps[i] = o.steps(f.steps[i], slot, slots, back, backs)
	}
}

// number returns how many of the present devices a draw takes.
func (f *Fates) number(o *occasion, there int) int {
	n := o.devices(f.plan.Devices)
	if o.All {
		n = there
	}
	const others = "what overlaps with it takes the others (take fewer, or let it begin when they are back)"
	first := len(f.errs) == 0 // what comes after one that takes too many finds nobody
	switch {
	case n <= 0 && !o.All:
		f.fail(o, "takes nobody of %d devices; take a greater share or more devices", f.plan.Devices)
	case n <= 0 && first:
		f.fail(o, "takes nobody: all devices are away or gone then; let it begin when they are back, or leave it out")
	case n > there && first && o.Share != 0:
		f.fail(o, "takes %.4g%% of the devices, but only %.4g%% are there all the time: %s", 100*o.Share, percent(there, f.plan.Devices), others)
	case n > there && first:
		f.fail(o, "takes %d devices, but only %d of %d are there all the time: %s", n, there, f.plan.Devices, others)
	}
	return min(max(n, 0), there)
}

func percent(n, all int) float64 { return 100 * float64(n) / float64(max(all, 1)) }

func (f *Fates) fail(o *occasion, format string, args ...any) {
	f.errs = append(f.errs, &FieldError{Field: actField(o.phase, o.index), Text: fmt.Sprintf(format, args...)})
}
