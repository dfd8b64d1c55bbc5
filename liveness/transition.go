package liveness

import "time"

// facts are what is known of a device. The functions of this file are the whole of its judgement; they are pure.
// All instants are in listening time.
type facts struct {
	state State
	// reason is why the device is offline; of one that is not, why it will be unless it comes back: its connection ended.
	reason Reason
	// last is when the device was heard last.
	last time.Duration
	// until is when a sleep ends (Sleeping), or the time to come back (ending).
	until time.Duration
}

// ending says whether the device's connection ended and the verdict is still open.
func (f facts) ending() bool { return f.reason != NoReason && f.state != Offline }

// heard returns the facts after a sign of life.
func (f facts) heard(now time.Duration) facts {
	return facts{state: Online, last: max(f.last, now)}
}

// slept returns the facts after the announcement of a sleep.
func (f facts) slept(now, length time.Duration, p Policy) facts {
	f = f.heard(now)
	f.state = Sleeping
	f.until = f.last + min(length, p.SleepLimit)
	return f
}

// closed returns the facts after the device's connection ended without a goodbye.
func (f facts) closed(now time.Duration, why Reason, p Policy) facts {
	if f.state == Online || f.state == Late {
		f.reason = why
		f.until = now + p.CloseGrace
	}
	return f
}

// offline returns the facts after a verdict.
func (f facts) offline(why Reason) facts {
	return facts{state: Offline, reason: why, last: f.last}
}

// verdict returns when the device is to be judged offline if nothing is heard of it, and why. A device that was not heard since
// its source was deaf is not judged before notBefore.
func (f facts) verdict(p Policy, notBefore time.Duration) (at time.Duration, why Reason) {
	at, why = f.last+p.Timeout, Silence
	switch {
	case f.state == Sleeping:
		at = f.until + p.Timeout
	case f.ending() && f.until < at:
		at, why = f.until, f.reason
	}
	return max(at, notBefore), why
}

// step is what is to be done about a device next.
type step struct {
	at time.Duration
	// period is the distance from the last heartbeat if each heartbeat just moves the step: the timer may be touched. Otherwise 0.
	period time.Duration
}

// next returns the next step, and false if there is none.
func (f facts) next(p Policy, notBefore time.Duration) (step, bool) {
	if f.state == Offline || f.state == NeverSeen {
		return step{}, false
	}
	at, _ := f.verdict(p, notBefore)
	if f.state == Online && p.LateAfter > 0 && f.last+p.LateAfter < at {
		at = f.last + p.LateAfter
	}
	s := step{at: at}
	if f.state == Online && !f.ending() {
		s.period = at - f.last
		if s.period != p.Timeout && s.period != p.LateAfter {
			s.period = 0
		}
	}
	return s, true
}

// passed returns the facts once the clock has reached now.
func (f facts) passed(now time.Duration, p Policy, notBefore time.Duration) facts {
	if f.state == Offline || f.state == NeverSeen {
		return f
	}
	if at, why := f.verdict(p, notBefore); now >= at {
		return f.offline(why)
	}
	if f.state == Online && p.LateAfter > 0 && p.LateAfter < p.Timeout && now >= f.last+p.LateAfter {
		f.state = Late
	}
	return f
}
