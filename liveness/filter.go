package liveness

import (
	"math"
	"slices"
	"time"
	"unique"
)

// Filter chooses devices. An empty field chooses all; a device has to match each of the others.
type Filter struct {
	Prefix  string  // of the id
	States  []State // the states as shown, see [View.State]
	Groups  []string
	Sources []string // those that heard the device last
	// SeenBefore and SeenAfter bound the last heartbeat by the wall clock, exclusively. Neither matches a
	// device that was never heard.
	SeenBefore, SeenAfter time.Time

	Connected, Maintenance, Flapping *bool

	Number uint32 // the device's number
}

// sieve applies a filter to devices without pictures of them, and remembers what is the same for many of
// them. It is for one goroutine, and for a moment: it keeps how the sources' clocks were.
type sieve struct {
	filter  *Filter
	all     bool   // the filter has no condition but bounds of the last heartbeat
	states  uint16 // the bits of Filter.States; 0 for all
	rules   ruleGroups
	groups  []bool // by place of the group, last those of none: whether they are wanted
	origins []origin
	sees    bool           // siftLocked notes in seen when the devices were heard last
	seen    [nearLen]int64 // by the wall clock in nanoseconds, never for one that was not heard
	keys    [nearLen]int64 // see keysLocked

	earliest, latest int64 // both exclusive: when a device was heard last, if the filter bounds that
}

// never stands for the last heartbeat of a device that was never heard.
const never = math.MinInt64

// origin is what a sieve knows of a source: its name is wanted, and its course, in nanoseconds.
type origin struct {
	known, wanted bool
	turns         []turnNanos
	moved         int64
}

// turnNanos is a turn: from a listening time on, the wall clock is ahead by so much.
type turnNanos struct{ listened, ahead int64 }

// at is [course.at] in nanoseconds, and never before the first turn.
func (o *origin) at(listened int64) int64 {
	i := len(o.turns) - 1
	for i > 0 && o.turns[i].listened > listened {
		i--
	}
	if i < 0 {
		return never
	}
	return listened + o.turns[i].ahead
}

func (r *Registry) newSieve(f *Filter) *sieve {
	groups := r.rules.Load().names()
	s := &sieve{filter: f, rules: ruleGroups{names: groups}}
	for _, st := range f.States {
		s.states |= 1 << st
	}
	if len(f.Groups) > 0 {
		for _, name := range groups {
			s.groups = append(s.groups, slices.Contains(f.Groups, name))
		}
		s.groups = append(s.groups, slices.Contains(f.Groups, ""))
	}
	s.all = f.Prefix == "" && len(f.States)+len(f.Groups)+len(f.Sources) == 0 && f.Connected == nil && f.Maintenance == nil && f.Flapping == nil && f.Number == 0
	s.sees, s.earliest, s.latest = s.bounded(), never, math.MaxInt64
	if !f.SeenAfter.IsZero() {
		s.earliest = nanosOf(f.SeenAfter)
	}
	if !f.SeenBefore.IsZero() {
		s.latest = nanosOf(f.SeenBefore)
	}
	return s
}

// nanosOf returns the nanoseconds of an instant, or the nearest ones that there are.
func nanosOf(at time.Time) int64 {
	switch {
	case at.Before(time.Unix(0, math.MinInt64)):
		return math.MinInt64
	case at.After(time.Unix(0, math.MaxInt64)):
		return math.MaxInt64
	}
	return at.UnixNano()
}

// matchesLocked reports whether the filter chooses a device.
func (s *sieve) matchesLocked(d *device) bool {
	return s.fitsLocked(d) && (!s.bounded() || s.within(s.seenLocked(d)))
}

// siftLocked returns the devices of a batch that the filter chooses, in its memory. It reads what lies elsewhere
// of all of them at once: the processor then waits for many reads at a time.
func (s *sieve) siftLocked(batch []*device) []*device {
	if s.states != 0 {
		prefetchStatesLocked(batch)
	}
	chosen := batch
	if !s.all {
		chosen = batch[:0]
		for _, d := range batch {
			if s.fitsLocked(d) {
				chosen = append(chosen, d)
			}
		}
	}
	if !s.sees {
		return chosen
	}
	s.seeLocked(chosen)
	if !s.bounded() {
		return chosen
	}
	within := chosen[:0]
	for i, d := range chosen {
		if s.within(s.seen[i]) {
			s.seen[len(within)] = s.seen[i]
			within = append(within, d)
		}
	}
	return within
}

// seeLocked notes when the devices of a batch were heard last.
func (s *sieve) seeLocked(batch []*device) {
	for _, d := range batch {
		d.prefetchLocked()
	}
	for i, d := range batch {
		s.seen[i] = s.seenLocked(d)
	}
}

// seenLocked returns what [View.LastSeen] is of a device, in nanoseconds.
func (s *sieve) seenLocked(d *device) int64 {
	if d.source == nil {
		return never
	}
	o, last := s.origin(d.source), d.lastLocked()
	if at, ok := d.sightedLocked(last); ok {
		return at + o.moved
	}
	return o.at(int64(last))
}

// prefetchLocked reads the device's timer if that knows the last heartbeat.
func (d *device) prefetchLocked() {
	if d.touched {
		d.source.engine.Prefetch(d.timer)
	}
}

// prefetchStatesLocked reads the timers of those devices of a batch whose states follow from them.
func prefetchStatesLocked(batch []*device) {
	for _, d := range batch {
		if d.touched && d.source.unheard(d.last) {
			d.prefetchLocked()
		}
	}
}

// fitsLocked reports whether a device matches all but the bounds of its last heartbeat, which cost
// most. What is cheap to know comes first.
func (s *sieve) fitsLocked(d *device) bool {
	f := s.filter
	return (f.Number == 0 || d.num == f.Number) &&
		d.begins(f.Prefix) &&
		(f.Connected == nil || *f.Connected == (d.session != nil)) &&
		(f.Maintenance == nil || *f.Maintenance == d.maintained()) &&
		(f.Flapping == nil || *f.Flapping == d.flaps()) &&
		(s.groups == nil || s.groups[s.groupLocked(d)]) &&
		(len(f.Sources) == 0 || s.wanted(d.source)) &&
		(s.states == 0 || s.showsLocked(d))
}

// showsLocked reports whether a device is in one of the filter's states. Only if it matters it finds out whether
// the device is unknown.
func (s *sieve) showsLocked(d *device) bool {
	if shown := s.wants(d.shownLocked()); shown == s.wants(Unknown) {
		return shown
	}
	return s.wants(d.stateLocked())
}

// wants reports whether a state is one of the filter's.
func (s *sieve) wants(state State) bool { return s.states>>state&1 != 0 }

// bounded reports whether the filter depends on the last heartbeat.
func (s *sieve) bounded() bool { return !s.filter.SeenBefore.IsZero() || !s.filter.SeenAfter.IsZero() }

// within reports whether a last heartbeat lies within the filter's bounds.
func (s *sieve) within(seen int64) bool { return s.earliest < seen && seen < s.latest }

// groupLocked returns the place of the device's group, and that behind all if it has none.
func (s *sieve) groupLocked(d *device) int {
	if at := s.rules.of(d); at >= 0 {
		return at
	}
	return len(s.groups) - 1
}

func (s *sieve) wanted(from *Source) bool {
	if from == nil {
		return slices.Contains(s.filter.Sources, "")
	}
	return s.origin(from).wanted
}

// origin returns what is known of a source. It may take its lock.
func (s *sieve) origin(of *Source) *origin {
	for of.index >= len(s.origins) {
		s.origins = append(s.origins, origin{})
	}
	o := &s.origins[of.index]
	if !o.known {
		of.mu.Lock()
		o.moved = int64(of.course.Moved)
		for i, t := range of.course.Turns {
			o.turns = append(o.turns, turnNanos{int64(t.Listened), of.course.AtTurn(i, t.Listened).UnixNano() - int64(t.Listened)})
		}
		of.mu.Unlock()
		o.known, o.wanted = true, slices.Contains(s.filter.Sources, of.name)
	}
	return o
}

// ruleGroups finds the groups of devices by their rules, which many devices share. One of some
// names knows no rules yet. It is for one goroutine.
type ruleGroups struct {
	names  []string // of the groups
	latest unique.Handle[rule]
	at     int
	known  map[unique.Handle[rule]]int
}

// of returns the place of the device's group among the names, -1 if it has none of these. The device's shard is
// locked.
func (g *ruleGroups) of(d *device) int {
	if d.rule == g.latest {
		return g.at
	}
	at, ok := g.known[d.rule]
	if !ok {
		at = -1
		if of := d.rule.Value().group; of != nil {
			if at = of.at; at >= len(g.names) || g.names[at] != of.Name { // the rules are being replaced
				at = slices.Index(g.names, of.Name)
			}
		}
		if g.known == nil {
			g.known = make(map[unique.Handle[rule]]int)
		}
		g.known[d.rule] = at
	}
	g.latest, g.at = d.rule, at
	return at
}

// flaps reports whether the device is flapping.
func (d *device) flaps() bool { return d.changes != nil && d.changes.flapping }
