package liveness

import (
	"slices"
	"time"
)

// pace tells how long a span of a device's silence takes in its source's listening time: time in quiet
// windows does not count. The zero pace counts all.
type pace struct {
	quiet  quiet
	course course // from the silence on
}

// pace returns the pace of a silence under a policy; last is when the device was heard last. It takes the
// source's lock.
func (s *Source) pace(p Policy, last time.Duration) pace {
	q, err := s.registry.quiets.parse(p.Quiet)
	if err != nil || len(q) == 0 { // no rule has windows that are wrong
		return pace{}
	}
	s.quieted.Store(true) // before the course is read, so that no turn is missed
	s.mu.Lock()
	defer s.mu.Unlock()
	return pace{q, s.course.since(last)}
}

// since returns the part of the course that has a listening time and all later ones.
func (c *course) since(listened time.Duration) course {
	first := 0
	for first+1 < len(c.turns) && c.turns[first+1].listened <= listened {
		first++
	}
	return course{slices.Clone(c.turns[first:])}
}

// all reports whether all time counts.
func (p *pace) all() bool { return len(p.quiet) == 0 || len(p.course.turns) == 0 }

// after returns the first listening time at which a duration that counts has passed since another.
func (p *pace) after(from, d time.Duration) time.Duration {
	if p.all() || d >= Never {
		return from + d
	}
	limit := from + max(d, Never-1)
	at := p.each(from, limit, func(wall time.Time, most time.Duration) time.Duration {
		span, counts := p.quiet.walk(wall, most, d)
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
	p.each(from, to, func(wall time.Time, most time.Duration) time.Duration {
		span, counts := p.quiet.walk(wall, most, most)
		sum += counts
		return span
	})
	return sum
}

// each calls walk for the parts of a span of listening time in which the wall clock goes on with it, until
// walk does not come to the end of one. It returns where that was.
func (p *pace) each(from, to time.Duration, walk func(wall time.Time, most time.Duration) time.Duration) time.Duration {
	for from < to {
		end := to
		for _, t := range p.course.turns {
			if t.listened > from {
				end = min(end, t.listened)
				break
			}
		}
		span := walk(p.course.at(from), end-from)
		if span < end-from {
			return from + span
		}
		from = end
	}
	return from
}

// touches reports whether one of two listening times is in a window, or something between them.
func (p *pace) touches(from, to time.Duration) bool {
	return p.counts(from, to+1) < to+1-from
}

// stretched returns the policy with its spans as long as they take in listening time. Of the probes there
// are as many as fit between the last window and the verdict.
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
// window waits for the silence. A goodbye does not. The policy is one that was stretched.
func (c condition) holdOff(notBefore time.Duration, p Policy, by *pace) time.Duration {
	if by.all() || !c.ending() || c.reason == Bye || !by.touches(max(c.last, c.until-p.CloseGrace), c.until) {
		return notBefore
	}
	return max(notBefore, c.from()+p.Timeout)
}

// connectBy returns when the device's time to connect elsewhere ends, 0 if it has none. It has the time
// outside of the windows.
func (c condition) connectBy(grace time.Duration, by *pace) time.Duration {
	if c.reason != released {
		return 0
	}
	return by.after(max(c.until-grace, 0), min(c.until, grace))
}

// outlook is what decides when a device is judged.
type outlook struct {
	Policy // its spans are those of the condition's silence

	notBefore time.Duration // listening time before which the device is not judged
	plain     time.Duration // the timeout without quiet windows
	pace      pace
}

// outlookLocked returns by what a device in this condition is judged. It takes the source's lock if there are
// quiet windows.
func (d *device) outlookLocked(f condition) outlook {
	p := d.policyLocked()
	o := outlook{plain: p.Timeout, pace: d.source.pace(p, f.last)}
	o.notBefore = f.putOff(d.notBeforeLocked(f, p, &o.pace))
	o.Policy = f.stretched(p, &o.pace)
	o.notBefore = f.holdOff(o.notBefore, o.Policy, &o.pace)
	if !o.pace.all() {
		o.notBefore = max(o.notBefore, f.connectBy(p.grace(d.source.config.Load()), &o.pace))
	}
	return o
}

// turnedLocked is called when the wall clock and the listening clock have parted: verdicts that were put off
// by quiet windows may be due at another listening time.
func (s *Source) turnedLocked() {
	if !s.quieted.Load() {
		return
	}
	s.turned.Store(true)
	select {
	case s.registry.turns <- struct{}{}:
	default: // a pass over the sources is to come
	}
}

// watchTurns arms anew what quiet windows have put off, whenever a clock has turned, until ctx is done.
func (r *Registry) watchTurns(done <-chan struct{}) {
	for {
		select {
		case <-r.turns:
			for _, s := range r.Sources() {
				if s.turned.Swap(false) {
					s.rearmQuiet()
				}
			}
		case <-done:
			return
		}
	}
}

// rearmQuiet arms anew the steps of those devices of the source that have quiet windows and are silent.
func (s *Source) rearmQuiet() {
	s.quieted.Store(false)
	s.registry.each(func(sh *deviceShard, d *device) {
		if d.source == s && d.timer != 0 && !d.touched && d.rule.Value().Quiet != "" {
			s.registry.rearmLocked(sh, d)
		}
	})
}
