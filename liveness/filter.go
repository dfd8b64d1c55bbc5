package liveness

import (
	"slices"
	"strings"
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
	states  uint16 // the bits of Filter.States; 0 for all
	rules   ruleGroups
	groups  []bool // by place of the group, last those of none: whether they are wanted
	origins []origin
	last    [nearLen]time.Duration // of the devices of a batch, see fetchLastLocked
}

// origin is what a sieve knows of a source.
type origin struct {
	known, wanted bool
	course        course
}

func (r *Registry) newSieve(f *Filter) *sieve {
	s := &sieve{filter: f}
	for _, st := range f.States {
		s.states |= 1 << st
	}
	if len(f.Groups) > 0 {
		for _, g := range r.groups {
			s.groups = append(s.groups, slices.Contains(f.Groups, g.Name))
		}
		s.groups = append(s.groups, slices.Contains(f.Groups, ""))
	}
	return s
}

// matchesLocked reports whether the filter chooses a device.
func (s *sieve) matchesLocked(d *device) bool {
	return s.fitsLocked(d) && (!s.bounded() || s.within(s.seenAt(d, s.lastLocked(d))))
}

// siftLocked returns the devices of a batch that the filter chooses, in its memory.
func (s *sieve) siftLocked(batch []*device) []*device {
	chosen := batch[:0]
	for _, d := range batch {
		if s.fitsLocked(d) {
			chosen = append(chosen, d)
		}
	}
	if !s.bounded() {
		return chosen
	}
	s.fetchLastLocked(chosen)
	within := chosen[:0]
	for i, d := range chosen {
		if s.within(s.seenAt(d, s.last[i])) {
			within = append(within, d)
		}
	}
	return within
}

// fetchLastLocked notes when the devices of a batch were heard last. Doing so for all of them at once lets
// the processor wait for several timers at a time.
func (s *sieve) fetchLastLocked(batch []*device) {
	for i, d := range batch {
		s.last[i] = s.lastLocked(d)
	}
}

// fitsLocked reports whether a device matches all but the bounds of its last heartbeat, which cost
// most. What is cheap to know comes first.
func (s *sieve) fitsLocked(d *device) bool {
	f := s.filter
	return (f.Number == 0 || d.num == f.Number) &&
		strings.HasPrefix(d.id, f.Prefix) &&
		(f.Connected == nil || *f.Connected == (d.session != nil)) &&
		(f.Maintenance == nil || *f.Maintenance == d.maintained()) &&
		(f.Flapping == nil || *f.Flapping == d.flaps()) &&
		(s.groups == nil || s.groups[s.groupLocked(d)]) &&
		(len(f.Sources) == 0 || s.wanted(d.source)) &&
		(s.states == 0 || s.states&(1<<d.stateLocked()) != 0)
}

// bounded reports whether the filter depends on the last heartbeat.
func (s *sieve) bounded() bool { return !s.filter.SeenBefore.IsZero() || !s.filter.SeenAfter.IsZero() }

// within reports whether a last heartbeat lies within the filter's bounds.
func (s *sieve) within(seen time.Time) bool {
	f := s.filter
	return (f.SeenBefore.IsZero() || !seen.IsZero() && seen.Before(f.SeenBefore)) && (f.SeenAfter.IsZero() || seen.After(f.SeenAfter))
}

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

// lastLocked is the device's, 0 for one that was never heard.
func (s *sieve) lastLocked(d *device) time.Duration {
	if d.source == nil {
		return 0
	}
	return d.lastLocked()
}

// seenAt returns what [View.LastSeen] is of a device that was heard last at a listening time.
func (s *sieve) seenAt(d *device, last time.Duration) time.Time {
	if d.source == nil {
		return time.Time{}
	}
	return s.origin(d.source).course.at(last)
}

// origin returns what is known of a source. It may take its lock.
func (s *sieve) origin(of *Source) *origin {
	for of.index >= len(s.origins) {
		s.origins = append(s.origins, origin{})
	}
	o := &s.origins[of.index]
	if !o.known {
		of.mu.Lock()
		o.course.turns = slices.Clone(of.course.turns)
		of.mu.Unlock()
		o.known, o.wanted = true, slices.Contains(s.filter.Sources, of.name)
	}
	return o
}

// ruleGroups finds the groups of devices by their rules, which many devices share. The zero ruleGroups
// knows none yet. It is for one goroutine.
type ruleGroups struct {
	latest unique.Handle[rule]
	at     int
	known  map[unique.Handle[rule]]int
}

// of returns the place of the device's group among the registry's, -1 if it has none. The device's shard is
// locked.
func (g *ruleGroups) of(d *device) int {
	if d.rule == g.latest {
		return g.at
	}
	at, ok := g.known[d.rule]
	if !ok {
		at = -1
		if of := d.rule.Value().group; of != nil {
			at = of.at
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
