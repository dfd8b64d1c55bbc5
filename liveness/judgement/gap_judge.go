package judgement

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
// functions that judge. p must be complete, see [Policy.Complete]; grace is the device's reconnect grace, see
// [Policy.Grace]. breaks are those of the source, in order. Probes are left out: what a device would
// have answered is not known. A [Judge] is faster for many gaps.
func (g *Gap) Judge(p Policy, grace time.Duration, breaks []Break) Judgement {
	return new(Judge).Gap(g, &p, grace, breaks)
}

// Recovering returns how often in a row a device was heard when a gap is over, if it was offline when the gap began, and
// had been heard so often since; 0 if it is online then. Until it has been heard as often as p.RecoverAfter says it is
// not judged again. The others are those of Gap.
func (j *Judge) Recovering(g *Gap, p *Policy, grace time.Duration, breaks []Break, heard int) int {
	j.begin(g, p, grace, breaks)
	j.c = Condition{State: Offline, Reason: Silence, Last: g.Start, Asked: uint8(heard)}
	j.pass(g, breaks)
	policy := j.policy
	if !j.pace.All() {
		policy = j.c.Stretched(policy, &j.pace)
	}
	after := j.c.Heard(g.Start+g.Length, policy)
	return int(after.Asked)
}

// Judge judges many gaps. Its zero value is ready; it must not be copied, nor used by several goroutines at a
// time. Without Quiet, Expect and stalls it allocates nothing.
type Judge struct {
	calendars Calendars

	policy     Policy
	grace      time.Duration
	closeGrace time.Duration // also of an end that is judged at once
	start      time.Duration
	ended      time.Duration // see gaps.notBefore
	c          Condition
	deafness   Deafness
	pace       Pace
	closed     bool
	said       Judgement
}

// Gap is [Gap.Judge]. It keeps none of its arguments.
func (j *Judge) Gap(g *Gap, p *Policy, grace time.Duration, breaks []Break) Judgement {
	j.begin(g, p, grace, breaks)
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
			j.deafness.add(b)
			if b.Kind == BreakCut || b.Kind == BreakBlank {
				j.ended = 0
			}
		}
	}
	j.closing(g, end)
	j.advance(end - 1) // a heartbeat at the very instant comes before the verdict
}

// begin begins to judge a gap.
func (j *Judge) begin(g *Gap, p *Policy, grace time.Duration, breaks []Break) {
	j.policy, j.grace, j.closeGrace, j.start, j.ended = *p, grace, p.CloseGrace, g.Start, 0
	j.policy.Probes = 0
	if g.Running {
		j.policy.Expect = ""
	}
	if g.AtOnce {
		j.policy.CloseGrace = 0
	}
	j.c, j.pace, j.closed, j.said = Condition{State: Online, Last: g.Start}, Pace{}, false, Judgement{}
	j.deafness.Init()
	if g.Slept > 0 {
		j.c.State, j.c.Until = Sleeping, g.Start+g.Slept
	}
	if j.policy.Paced() {
		j.pace.Course = g.course(breaks)
		j.pace.Set(&j.calendars, j.policy, j.c.From())
	}
}

// closing ends the device's connection, if that was up to a listening time.
func (j *Judge) closing(g *Gap, until time.Duration) {
	if closed := g.Start + g.Closed; g.Reason != NoReason && closed <= until && !j.closed {
		j.advance(closed - 1)
		j.c, j.closed = j.c.Closed(closed, g.Reason, j.policy), true
		if g.Told && j.c.Ending() {
			j.ended = max(j.c.Until, closed+j.closeGrace)
		}
	}
}

// course returns the wall time of the listening times of a gap, as far as its breaks tell it.
func (g *Gap) course(breaks []Break) (c Course) {
	wall, listened := g.At, g.Start+g.Length
	for _, b := range slices.Backward(breaks) {
		if b.At > g.Start && b.At <= listened && b.Kind != BreakSpare {
			c.Turns = append(c.Turns, Turn{Listened: b.At, At: b.To})
			wall, listened = b.To.Add(-b.Length), b.At
		}
	}
	c.Turns = append(c.Turns, Turn{Listened: g.Start, At: wall.Add(g.Start - listened)})
	slices.Reverse(c.Turns)
	return c
}

// add adds a break.
func (g *Deafness) add(b *Break) {
	switch b.Kind {
	case BreakStall, BreakSpare:
		g.AddStall(b.At, b.Length, b.Clock)
	case BreakCut:
		g.AddCut(b.At)
	case BreakBlank:
		g.AddBlank(b.At)
	}
}

// advance takes all steps up to a listening time.
func (j *Judge) advance(until time.Duration) {
	for j.c.State != Offline || j.c.Recovering() {
		notBefore := j.deafness.Bounded(j.start, j.c.From(), j.ended, j.policy.Timeout, j.grace, 0, &j.pace)
		p := j.policy
		if !j.pace.All() {
			p = j.c.Stretched(p, &j.pace)
			notBefore = j.c.HoldOff(notBefore, p, &j.pace)
		}
		step, ok := j.c.Next(p, notBefore)
		if !ok || step.At > until {
			return
		}
		next := j.c.Passed(step.At, p, notBefore)
		switch {
		case next == j.c:
			return
		case next.State == Late:
			j.said.Late = step.At - j.start
		case next.State == Offline:
			j.said.Offline, j.said.Reason = max(step.At-j.start, 1), next.Reason
		}
		j.c = next
	}
}
