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
// have answered is not known. A [Judge] is faster for many gaps.
func (g *Gap) Judge(p Policy, cfg SourceConfig, breaks []Break) Judgement {
	return new(Judge).Gap(g, &p, &cfg, breaks)
}

// Recovering returns how often in a row a device was heard when a gap is over, if it was offline when the gap began, and
// had been heard so often since; 0 if it is online then. Until it has been heard as often as p.RecoverAfter says it is
// not judged again. The others are those of Gap.
func (j *Judge) Recovering(g *Gap, p *Policy, cfg *SourceConfig, breaks []Break, heard int) int {
	j.begin(g, p, cfg, breaks)
	j.c = condition{state: Offline, reason: Silence, last: g.Start, asked: uint8(heard)}
	j.pass(g, breaks)
	policy := j.policy
	if !j.pace.all() {
		policy = j.c.stretched(policy, &j.pace)
	}
	after := j.c.heard(g.Start+g.Length, policy)
	return int(after.asked)
}

// Judge judges many gaps. Its zero value is ready; it must not be copied, nor used by several goroutines at a
// time. Without Quiet, Expect and stalls it allocates nothing.
type Judge struct {
	calendars calendars

	policy     Policy
	grace      time.Duration
	closeGrace time.Duration // also of an end that is judged at once
	start      time.Duration
	ended      time.Duration // see gaps.notBefore
	c          condition
	gaps       gaps
	pace       pace
	closed     bool
	said       Judgement
}

// Gap is [Gap.Judge]. It keeps none of its arguments.
func (j *Judge) Gap(g *Gap, p *Policy, cfg *SourceConfig, breaks []Break) Judgement {
	j.begin(g, p, cfg, breaks)
	j.pass(g, breaks)
	return j.said
}

// pass lets a gap pass.
func (j *Judge) pass(g *Gap, breaks []Break) {
	end := g.Start + g.Length
	for i := range breaks {
		if b := &breaks[i]; b.At > g.Start && b.Clock < end {
			j.closing(g, b.Clock)
			j.advance(b.Clock)
			j.gaps.add(b)
			if b.Kind == BreakCut || b.Kind == BreakBlank {
				j.ended = 0
			}
		}
	}
	j.closing(g, end)
	j.advance(end - 1) // a heartbeat at the very instant comes before the verdict
}

// begin begins to judge a gap.
func (j *Judge) begin(g *Gap, p *Policy, cfg *SourceConfig, breaks []Break) {
	j.policy, j.grace, j.closeGrace, j.start, j.ended = *p, p.grace(cfg), p.CloseGrace, g.Start, 0
	j.policy.Probes = 0
	if g.Running {
		j.policy.Expect = ""
	}
	if g.AtOnce {
		j.policy.CloseGrace = 0
	}
	j.c, j.pace, j.closed, j.said = condition{state: Online, last: g.Start}, pace{}, false, Judgement{}
	j.gaps.init()
	if g.Slept > 0 {
		j.c.state, j.c.until = Sleeping, g.Start+g.Slept
	}
	if j.policy.paced() {
		j.pace.course = g.course(breaks)
		j.pace.set(&j.calendars, j.policy, j.c.from())
	}
}

// closing ends the device's connection, if that was up to a listening time.
func (j *Judge) closing(g *Gap, until time.Duration) {
	if closed := g.Start + g.Closed; g.Reason != NoReason && closed <= until && !j.closed {
		j.advance(closed - 1)
		j.c, j.closed = j.c.closed(closed, g.Reason, j.policy), true
		if g.Told && j.c.ending() {
			j.ended = max(j.c.until, closed+j.closeGrace)
		}
	}
}

// course returns the wall time of the listening times of a gap, as far as its breaks tell it.
func (g *Gap) course(breaks []Break) (c course) {
	wall, listened := g.At, g.Start+g.Length
	for _, b := range slices.Backward(breaks) {
		if b.At > g.Start && b.At <= listened && b.Kind != BreakSpare {
			c.turns = append(c.turns, Turn{Listened: b.At, At: b.To})
			wall, listened = b.To.Add(-b.Length), b.At
		}
	}
	c.turns = append(c.turns, Turn{Listened: g.Start, At: wall.Add(g.Start - listened)})
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

// advance takes all steps up to a listening time.
func (j *Judge) advance(until time.Duration) {
	for j.c.state != Offline || j.c.recovering() {
		notBefore := j.gaps.bounded(j.start, j.c.from(), j.ended, j.policy.Timeout, j.grace, 0, &j.pace)
		p := j.policy
		if !j.pace.all() {
			p = j.c.stretched(p, &j.pace)
			notBefore = j.c.holdOff(notBefore, p, &j.pace)
		}
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
			j.said.Offline, j.said.Reason = max(step.at-j.start, 1), next.reason
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
	// Sessions: it opened a session once, here or elsewhere. Offline: it is offline.
	Sessions, Offline bool
	// Open is its silence until now, if it was ever heard and has not said goodbye.
	Open Gap
}

// Silences calls do for each device with a lock held: do must return at once, keep no id, and not ask the
// registry.
func (r *Registry) Silences(do func(*DeviceSilence)) {
	r.each(func(sh *deviceShard, d *device) {
		s := DeviceSilence{
			Num: d.num, ID: d.id, Group: d.group(), Held: d.gracePolicyLocked(), Limit: sh.habit(d).Limit(), Sessions: d.epoch != 0, Offline: d.state == Offline,
		}
		if v := r.learnedLocked(sh, d); !v.Fixed {
			s.Learned = v.Deadline
		}
		s.Set, _ = r.rules.Load().combineLocked(sh, d.id, d.rule.Value().group, d.rule.Value().announced)
		if d.source != nil && (d.state != Offline || d.reason != Bye) {
			f, _ := d.conditionLocked()
			f.last = d.lastLocked()
			s.Open = r.gapLocked(d, f, max(d.source.Now()-f.last, 0))
		}
		do(&s)
	})
}
