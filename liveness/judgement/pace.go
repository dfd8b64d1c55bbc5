package judgement

import (
	"slices"
	"time"
)

// Pace tells how long a span of a device's silence takes in its source's listening time: time before the
// device is expected and time in quiet windows does not count. The zero pace counts all.
type Pace struct {
	quiet    quiet
	Expected time.Time // when the device is expected; zero if its policy has no Expect
	Course   Course    // from the silence on
}

// Paced reports whether not all time counts.
func (p Policy) Paced() bool { return p.Quiet != "" || p.Expect != "" }

// Set makes the pace that of a silence which begins at a listening time.
func (p *Pace) Set(c *Calendars, policy Policy, from time.Duration) {
	p.quiet, _ = c.quiet(policy.Quiet) // no rule has windows or a schedule that are wrong
	if e, _ := c.expectation(policy.Expect); e != nil && len(p.Course.Turns) > 0 {
		p.Expected = e.due(p.Course.At(from), policy.Timeout)
	}
}

// unexpecting returns the pace of what does not wait until the device is expected.
func (p *Pace) unexpecting() *Pace { return &Pace{quiet: p.quiet, Course: p.Course} }

// piece is a span of listening time, and the span of wall time within which it passed. If that is longer, it is
// not known when in it listening time stood still.
type piece struct {
	from         time.Time
	span, within time.Duration
}

// walk goes on from the beginning of a piece until so much time has passed that counts. It returns how far it
// came, and how much of that counts. What may not count does not, and it comes first.
func (p *Pace) walk(x piece, want time.Duration) (span, counts time.Duration) {
	if x.within == x.span {
		return p.walkWall(x.from, x.span, want)
	}
	_, counting := p.walkWall(x.from, x.within, x.within)
	lost := min(x.within-counting, x.span)
	if counts = x.span - lost; counts < want {
		return x.span, counts
	}
	return lost + want, want
}

// walkWall is [quiet.walk] that also goes on to when the device is expected.
func (p *Pace) walkWall(from time.Time, most, want time.Duration) (span, counts time.Duration) {
	if early := p.Expected.Sub(from); early > 0 && want > 0 {
		span = min(early, most)
	}
	more, counts := p.quiet.walk(from.Add(span), most-span, want)
	return span + more, counts
}

// Since returns the part of the course that has a listening time and all later ones.
func (c *Course) Since(listened time.Duration) Course {
	first := 0
	for first+1 < len(c.Turns) && c.Turns[first+1].Listened <= listened {
		first++
	}
	return Course{Turns: slices.Clone(c.Turns[first:])}
}

// All reports whether all time counts.
func (p *Pace) All() bool {
	return len(p.quiet) == 0 && p.Expected.IsZero() || len(p.Course.Turns) == 0
}

// After returns the first listening time at which a duration that counts has passed since another.
func (p *Pace) After(from, d time.Duration) time.Duration {
	if p.All() || d >= Never {
		return from + d
	}
	limit := from + max(d, Never-1)
	at := p.each(from, limit, func(x piece) time.Duration {
		span, counts := p.walk(x, d)
		d -= counts
		return span
	})
	return at
}

// Counts returns how much of a span of listening time counts.
func (p *Pace) Counts(from, to time.Duration) (sum time.Duration) {
	if p.All() {
		return max(to-from, 0)
	}
	p.each(from, to, func(x piece) time.Duration {
		span, counts := p.walk(x, x.span)
		sum += counts
		return span
	})
	return sum
}

// each calls walk for the pieces of a span of listening time between turns, until walk does not come to the end of
// one. It returns where that was.
func (p *Pace) each(from, to time.Duration, walk func(piece) time.Duration) time.Duration {
	turns := p.Course.Turns
	for i := range turns {
		end := to
		if i+1 < len(turns) {
			end = min(to, turns[i+1].Listened)
		}
		if from >= end {
			continue
		}
		x := piece{from: turns[i].At.Add(from - turns[i].Listened), span: end - from}
		x.within = p.Course.AtTurn(i, end).Sub(x.from)
		span := walk(x)
		if span < end-from {
			return from + span
		}
		from = end
	}
	return from
}

// Touches reports whether one of two listening times does not count, or something between them.
func (p *Pace) Touches(from, to time.Duration) bool {
	return p.Counts(from, to+1) < to+1-from
}

// Stretched returns the policy with its spans as long as they take in listening time. Of the probes there
// are as many as fit between the last time that does not count and the verdict.
func (c Condition) Stretched(p Policy, by *Pace) Policy {
	if by.All() || p.Timeout >= Never && p.LateAfter == 0 {
		return p
	}
	from := c.From()
	p.LateAfter = by.After(from, p.LateAfter) - from
	verdict := by.After(from, p.Timeout)
	if verdict > from+p.Timeout {
		for p.Probes > 0 && by.Touches(verdict-time.Duration(p.Probes)*p.ProbeWait, verdict-1) {
			p.Probes--
		}
	}
	p.Timeout = verdict - from
	return p
}

// HoldOff returns the later of an instant before which the device is not judged, and of that to which
// windows put off a verdict for the end of its connection: one for which the time to come back touches a
// window waits for the silence, or has that time outside of the windows if silence means nothing. A goodbye
// does not. The policy is one that was stretched.
func (c Condition) HoldOff(notBefore time.Duration, p Policy, by *Pace) time.Duration {
	ended := max(c.Last, c.Until-p.CloseGrace)
	if by.All() || !c.Ending() || c.Reason == Bye || !by.Touches(ended, c.Until) {
		return notBefore
	}
	if p.Timeout >= Never {
		return max(notBefore, by.After(ended, p.CloseGrace))
	}
	return max(notBefore, c.From()+p.Timeout)
}

// ConnectBy returns when the device's time to connect elsewhere ends, 0 if it has none. It has the time
// outside of the quiet windows.
func (c Condition) ConnectBy(grace time.Duration, by *Pace) time.Duration {
	if c.Reason != released {
		return 0
	}
	return by.unexpecting().After(max(c.Until-grace, 0), min(c.Until, grace))
}
