package plan

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// occasion is an act with its place in time. It holds the devices that it takes from start on, and
// no longer at until.
type occasion struct {
	Act

	phase, index int // which act of which phase
	start, until time.Duration
	key          uint64
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
			o.key = Mix(Mix(p.Seed) + uint64(i)<<32 + uint64(j))
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

// steps appends what happens to the device that is number slot of slots in the order of leaving,
// and number rank of ranks among all that are taken.
func (o *occasion) steps(dst []Step, slot, slots, rank, ranks int) []Step {
	at := o.start + fraction(o.Within, slot, slots)
	stay := o.Back
	if o.BackWithin > 0 {
		stay += fraction(o.BackWithin, permute(o.key+keyBack, ranks).of(rank), ranks)
	}
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

// What an occasion draws lots for, beside whom.
const (
	keyLeave = 1 + iota
	keyBack
	keyGroups
)

// site is an occasion that takes whole groups: those whose ranks are from first on.
type site struct {
	occasion

	first, groups int
}

// draw is an occasion that takes single devices.
type draw struct {
	occasion

	taken int   // devices in all
	free  int   // the first draw that may take them again
	lots  []lot // by class
}

// lot is what a draw does to a class of devices. Those of the class that are there are numbered;
// the draw takes the ones that order puts first, and numbers both the taken and the rest anew in
// this order.
type lot struct {
	order  permutation
	taken  int
	before int // taken from classes before
	base   int // where the taken are numbered from when they are there again, after the ones that were there
}

// planSites gives ranks to the occasions that take groups, and returns the rest.
func (f *Fates) planSites(all []occasion) []occasion {
	var rest []occasion
	used := 0
	for _, o := range all {
		if !o.wholeGroups() {
			rest = append(rest, o)
			continue
		}
		g := max(o.groups(f.groups), 0)
		if free := f.groups - used; g > free {
			f.fail(&o, "%d groups are too many: there are %d of %d devices, and a group is taken once; %d are left (take fewer, or let times and every repeat it)",
				g, f.groups, f.group, free)
			g = free
		} else if g == 0 {
			f.fail(&o, "takes nobody: there are %d groups of %d devices; take a greater share, smaller groups or more devices", f.groups, f.group)
		}
		f.sites = append(f.sites, site{o, used, g})
		used += g
	}
	return rest
}

// planDraws counts the devices that are present at each draw, by class: class 0 are the devices
// that are in no group which a site takes, and class i those of site i-1. A draw takes from each
// class in proportion to its present devices.
func (f *Fates) planDraws(rest []occasion) {
	there := make([]int, len(f.sites)+1)
	there[0] = f.devices
	for i, s := range f.sites {
		there[i+1] = s.groups * f.group
		there[0] -= there[i+1]
	}
	for j, o := range rest {
		f.release(j, &o, there)
		d := draw{occasion: o, free: len(rest), lots: make([]lot, len(there))}
		sum := 0
		for c := range there {
			if f.open(&o, c) {
				sum += there[c]
			}
		}
		d.taken = f.number(&o, sum)
		passed := 0
		for c := range there {
			lots := &d.lots[c]
			lots.before = share(d.taken, passed, sum)
			if f.open(&o, c) {
				passed += there[c]
			}
			lots.taken = share(d.taken, passed, sum) - lots.before
			lots.order = permute(o.key^Mix(uint64(c)), there[c])
			there[c] -= lots.taken
		}
		f.draws = append(f.draws, d)
	}
}

// release returns the devices of earlier draws that are back when draw j begins.
func (f *Fates) release(j int, o *occasion, there []int) {
	for i := range f.draws {
		d := &f.draws[i]
		if d.free <= j || d.meets(o) {
			continue
		}
		d.free = j
		for c := range there {
			d.lots[c].base = there[c]
			there[c] += d.lots[c].taken
		}
	}
}

// open reports whether a draw may take devices of a class.
func (f *Fates) open(o *occasion, class int) bool { return class == 0 || !f.sites[class-1].meets(o) }

// number returns how many of the present devices a draw takes.
func (f *Fates) number(o *occasion, there int) int {
	n := o.devices(f.devices)
	if o.All {
		n = there
	}
	const others = "what overlaps with it takes the others (take fewer, or let it begin when they are back)"
	first := len(f.errs) == 0 // what comes after one that takes too many finds nobody
	switch {
	case n <= 0 && !o.All:
		f.fail(o, "takes nobody of %d devices; take a greater share or more devices", f.devices)
	case n <= 0 && first:
		f.fail(o, "takes nobody: all devices are away or gone then; let it begin when they are back, or leave it out")
	case n > there && first && o.Share != 0:
		f.fail(o, "takes %.4g%% of the devices, but only %.4g%% are there all the time: %s", 100*o.Share, percent(there, f.devices), others)
	case n > there && first:
		f.fail(o, "takes %d devices, but only %d of %d are there all the time: %s", n, there, f.devices, others)
	}
	return min(max(n, 0), there)
}

func percent(n, all int) float64 { return 100 * float64(n) / float64(max(all, 1)) }

func (f *Fates) fail(o *occasion, format string, args ...any) {
	f.errs = append(f.errs, &FieldError{Field: actField(o.phase, o.index), Text: fmt.Sprintf(format, args...)})
}

// share returns n times a portion of the whole, rounded down, so that consecutive portions add up.
func share(n, portion, whole int) int {
	if whole == 0 {
		return 0
	}
	return int(fraction(time.Duration(n), portion, whole))
}
