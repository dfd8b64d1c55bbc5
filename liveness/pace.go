package liveness

import (
	"slices"
	"time"
)

// pace tells how long a span of a device's silence takes in its source's listening time: time before the
// device is expected and time in quiet windows does not count. The zero pace counts all.
type pace struct {
	quiet    quiet
	expected time.Time // when the device is expected; zero if its policy has no Expect
	course   course    // from the silence on
}

// paced reports whether not all time counts.
func (p Policy) paced() bool { return p.Quiet != "" || p.Expect != "" }

// pace returns the pace of a silence under a policy; last is when the device was heard last, and from, no
// earlier, since when it is silent. It takes the source's lock.
func (s *Source) pace(p Policy, last, from time.Duration) pace {
	if !p.paced() {
		return pace{}
	}
	s.quieted.Store(true) // before the course is read, so that no turn is missed
	s.mu.Lock()
	by := pace{course: s.course.since(last)}
	s.mu.Unlock()
	by.set(&s.registry.calendars, p, from)
	return by
}

// set makes the pace that of a silence which begins at a listening time.
func (p *pace) set(c *calendars, policy Policy, from time.Duration) {
	p.quiet, _ = c.quiet(policy.Quiet) // no rule has windows or a schedule that are wrong
	if e, _ := c.expectation(policy.Expect); e != nil && len(p.course.turns) > 0 {
		p.expected = e.due(p.course.at(from), policy.Timeout)
	}
}

// unexpecting returns the pace of what does not wait until the device is expected.
func (p *pace) unexpecting() *pace { return &pace{quiet: p.quiet, course: p.course} }

// piece is a span of listening time, and the span of wall time within which it passed. If that is longer, it is
// not known when in it listening time stood still.
type piece struct {
	from         time.Time
	span, within time.Duration
}

// walk goes on from the beginning of a piece until so much time has passed that counts. It returns how far it
// came, and how much of that counts. What may not count does not, and it comes first.
func (p *pace) walk(x piece, want time.Duration) (span, counts time.Duration) {
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
func (p *pace) walkWall(from time.Time, most, want time.Duration) (span, counts time.Duration) {
	if early := p.expected.Sub(from); early > 0 && want > 0 {
		span = min(early, most)
	}
	more, counts := p.quiet.walk(from.Add(span), most-span, want)
	return span + more, counts
}

// since returns the part of the course that has a listening time and all later ones.
func (c *course) since(listened time.Duration) course {
	first := 0
	for first+1 < len(c.turns) && c.turns[first+1].Listened <= listened {
		first++
	}
	return course{turns: slices.Clone(c.turns[first:])}
}

// all reports whether all time counts.
func (p *pace) all() bool {
	return len(p.quiet) == 0 && p.expected.IsZero() || len(p.course.turns) == 0
}

// after returns the first listening time at which a duration that counts has passed since another.
func (p *pace) after(from, d time.Duration) time.Duration {
	if p.all() || d >= Never {
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

// counts returns how much of a span of listening time counts.
func (p *pace) counts(from, to time.Duration) (sum time.Duration) {
	if p.all() {
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
func (p *pace) each(from, to time.Duration, walk func(piece) time.Duration) time.Duration {
	turns := p.course.turns
	for i := range turns {
		end := to
		if i+1 < len(turns) {
			end = min(to, turns[i+1].Listened)
		}
		if from >= end {
			continue
		}
		x := piece{from: turns[i].At.Add(from - turns[i].Listened), span: end - from}
		x.within = p.course.atTurn(i, end).Sub(x.from)
		span := walk(x)
		if span < end-from {
			return from + span
		}
		from = end
	}
	return from
}

// touches reports whether one of two listening times does not count, or something between them.
func (p *pace) touches(from, to time.Duration) bool {
	return p.counts(from, to+1) < to+1-from
}

// stretched returns the policy with its spans as long as they take in listening time. Of the probes there
// are as many as fit between the last time that does not count and the verdict.
func (c condition) stretched(p Policy, by *pace) Policy {
	if by.all() || p.Timeout >= Never && p.LateAfter == 0 {
		return p
	}
	from := c.from()
	p.LateAfter = by.after(from, p.LateAfter) - from
	verdict := by.after(from, p.Timeout)
	if verdict > from+p.Timeout {
		for p.Probes > 0 && by.touches(verdict-time.Duration(p.Probes)*p.ProbeWait, verdict-1) {
			p.Probes--
		}
	}
	p.Timeout = verdict - from
	return p
}

// holdOff returns the later of an instant before which the device is not judged, and of that to which
// windows put off a verdict for the end of its connection: one for which the time to come back touches a
// window waits for the silence, or has that time outside of the windows if silence means nothing. A goodbye
// does not. The policy is one that was stretched.
func (c condition) holdOff(notBefore time.Duration, p Policy, by *pace) time.Duration {
	ended := max(c.last, c.until-p.CloseGrace)
	if by.all() || !c.ending() || c.reason == Bye || !by.touches(ended, c.until) {
		return notBefore
	}
	if p.Timeout >= Never {
		return max(notBefore, by.after(ended, p.CloseGrace))
	}
	return max(notBefore, c.from()+p.Timeout)
}

// connectBy returns when the device's time to connect elsewhere ends, 0 if it has none. It has the time
// outside of the quiet windows.
func (c condition) connectBy(grace time.Duration, by *pace) time.Duration {
	if c.reason != released {
		return 0
	}
	return by.unexpecting().after(max(c.until-grace, 0), min(c.until, grace))
}

// outlook is what decides when a device is judged.
type outlook struct {
	Policy // its spans are those of the condition's silence

	notBefore time.Duration // listening time before which the device is not judged
	delay     delay         // what that follows from
	plain     time.Duration // the timeout, of time that counts
	pace      pace
}

// delay is why a device is not judged before an instant.
type delay uint8

const (
	noDelay      delay = iota
	afterDeaf          // its source was deaf
	afterWindow        // a maintenance window suppressed its silence
	afterRelease       // its session was released
	afterGrant         // its timeout became shorter
	afterEnd           // its connection ended when no time counted
)

// wait puts the verdict off to an instant, unless it is put off longer.
func (o *outlook) wait(until time.Duration, why delay) {
	if until > o.notBefore {
		o.notBefore, o.delay = until, why
	}
}

// outlookLocked returns by what a device in this condition is judged. It takes the source's lock if not all
// time counts.
func (d *device) outlookLocked(f condition) outlook {
	p, excused := d.policyLocked(), d.suppressedLocked()
	from := max(f.from(), excused)
	o := outlook{plain: p.Timeout, pace: d.source.pace(p, f.last, from)}
	ended := d.toldUntilLocked(f)
	if o.wait(d.source.notBefore(d.wholeLocked(f.last), from, ended, p, &o.pace), afterDeaf); o.notBefore == ended {
		o.delay = noDelay // it is the time to come back
	}
	if excused != 0 {
		o.wait(o.pace.after(excused, p.Timeout), afterWindow)
	}
	o.wait(f.putOff(0), afterRelease)
	o.wait(d.grantedLocked(f), afterGrant)
	o.Policy = f.stretched(p, &o.pace)
	if f.ending() {
		o.CloseGrace = d.judgedByLocked(f) // the policy may have another one by now
	}
	o.wait(f.holdOff(o.notBefore, o.Policy, &o.pace), afterEnd)
	if !o.pace.all() {
		o.wait(f.connectBy(p.grace(d.source.config.Load()), &o.pace), afterRelease)
	}
	return o
}

// turnedLocked is called when the wall clock and the listening clock have parted: verdicts that were put off
// by the wall clock may be due at another listening time, and there may be too many turns.
func (s *Source) turnedLocked() {
	if _, crowded := s.course.crowded(); !s.quieted.Load() && !crowded {
		return
	}
	s.turned.Store(true)
	select {
	case s.registry.turns <- struct{}{}:
	default: // a pass over the sources is to come
	}
}

// watchTurns does what follows from a turn of a clock, until ctx is done.
func (r *Registry) watchTurns(done <-chan struct{}) {
	for {
		select {
		case <-r.turns:
			for _, s := range r.Sources() {
				if s.turned.Swap(false) {
					s.keepSightings()
					s.rearmPaced()
				}
			}
		case <-done:
			return
		}
	}
}

// rearmPaced arms anew the steps of those devices of the source that have an Expect or quiet windows and are
// silent.
func (s *Source) rearmPaced() {
	if !s.quieted.Swap(false) {
		return
	}
	s.registry.each(func(sh *deviceShard, d *device) {
		if d.source == s && d.timer != 0 && !d.touched && d.rule.Value().paced() {
			s.registry.rearmLocked(sh, d)
		}
	})
}
