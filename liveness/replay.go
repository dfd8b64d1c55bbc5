package liveness

import (
	"slices"
	"time"
)

// Judgement is what is said of a device in a [Gap]. Late and Offline are listening time since the gap
// began; 0 if the device is neither.
type Judgement struct {
	Late    time.Duration
	Offline time.Duration
	Reason  Reason // of Offline
}

// Judge returns what would have been said of a device in a gap if a policy had been in force, by the
// functions that judge. p must be complete, see [Policy.Complete]; cfg is the source's, see
// [Source.Config]. breaks are those of the source, in order. Probes are left out: what a device would
// have answered is not known.
func (g *Gap) Judge(p Policy, cfg SourceConfig, breaks []Break) Judgement {
	p.Probes = 0
	j := judge{policy: p, grace: p.grace(&cfg), start: g.Start, c: condition{state: Online, last: g.Start}}
	if q, err := parseQuiet(p.Quiet); err == nil && len(q) > 0 {
		j.pace = pace{q, g.course(breaks)}
	}
	j.gaps.init()
	if g.Slept > 0 {
		j.c.state, j.c.until = Sleeping, g.Start+g.Slept
	}
	end, closed := g.Start+g.Length, g.Start+g.Closed
	if g.Reason == NoReason {
		closed = end
	}
	closing := func(until time.Duration) {
		if g.Reason != NoReason && closed <= until && !j.closed {
			j.advance(closed - 1)
			j.c, j.closed = j.c.closed(closed, g.Reason, p), true
		}
	}
	for i := range breaks {
		if b := &breaks[i]; b.At > g.Start && b.Clock < end {
			closing(b.Clock)
			j.advance(b.Clock)
			j.gaps.add(b)
		}
	}
	closing(end)
	j.advance(end - 1) // a heartbeat at the very instant comes before the verdict
	return j.said
}

// course returns the wall time of the listening times of a gap, as far as its breaks tell it.
func (g *Gap) course(breaks []Break) (c course) {
	wall, listened := g.At, g.Start+g.Length
	for _, b := range slices.Backward(breaks) {
		if b.At > g.Start && b.At <= listened && b.Kind != BreakSpare {
			c.turns = append(c.turns, turn{b.At, b.To})
			wall, listened = b.To.Add(-b.Length), b.At
		}
	}
	c.turns = append(c.turns, turn{g.Start, wall.Add(g.Start - listened)})
	slices.Reverse(c.turns)
	return c
}

// add adds a break.
func (g *gaps) add(b *Break) {
	switch b.Kind {
	case BreakStall, BreakSpare:
		g.addStall(b.At, b.Length, b.Clock)
	case BreakCut:
		g.addCut(b.At)
	case BreakBlank:
		g.addBlank(b.At)
	}
}

// judge judges one gap.
type judge struct {
	policy Policy
	grace  time.Duration
	start  time.Duration
	c      condition
	gaps   gaps
	pace   pace
	closed bool
	said   Judgement
}

// advance takes all steps up to a listening time.
func (j *judge) advance(until time.Duration) {
	for {
		notBefore := j.gaps.bounded(j.start, j.c.from(), j.policy.Timeout, j.grace, 0, &j.pace)
		p := j.c.stretched(j.policy, &j.pace)
		notBefore = j.c.holdOff(notBefore, p, &j.pace)
		step, ok := j.c.next(p, notBefore)
		if !ok || step.at > until {
			return
		}
		next := j.c.passed(step.at, p, notBefore)
		switch {
		case next == j.c:
			return
		case next.state == Late:
			j.said.Late = step.at - j.start
		case next.state == Offline:
			j.said.Offline, j.said.Reason = step.at-j.start, next.reason
		}
		j.c = next
	}
}

// Complete returns p with the defaults in its zero fields.
func (p Policy) Complete() Policy { return p.filled() }

// Config returns what the source was added with.
func (s *Source) Config() SourceConfig { return *s.config.Load() }

// DeviceSilence is what [Registry.Silences] says of a device.
type DeviceSilence struct {
	Num       uint32
	ID, Group string
	// Set is what the rules say of the device, Held the policy that is in force.
	Set, Held Policy
	// Limit is the silence from which its gaps are recorded; 0 if none was yet.
	Limit time.Duration
	// Learned is the deadline that was learned, 0 if there is none, see [Learned].
	Learned time.Duration
	// Sessions: it opened a session once, here or elsewhere.
	Sessions bool
	// Open is its silence until now, if it was ever heard and has not said goodbye.
	Open Gap
}

// Silences calls do for each device with a lock held: do must return at once, keep no id, and not ask the
// registry.
func (r *Registry) Silences(do func(*DeviceSilence)) {
	r.each(func(sh *deviceShard, d *device) {
		s := DeviceSilence{
			Num: d.num, ID: d.id, Group: d.group(), Held: d.sparedLocked(), Limit: sh.habit(d).Limit(), Sessions: d.epoch != 0,
		}
		if v := r.learnedLocked(sh, d); !v.Fixed {
			s.Learned = v.Deadline
		}
		s.Set, _ = r.combineLocked(sh, d.id, d.rule.Value().group, d.rule.Value().announced)
		if d.source != nil && (d.state != Offline || d.reason != Bye) {
			f, _ := d.conditionLocked()
			f.last = d.lastLocked()
			s.Open = r.gapLocked(d, f, max(d.source.Now()-f.last, 0))
		}
		do(&s)
	})
}
