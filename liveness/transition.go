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
	// until is when a sleep ends (Sleeping), the time to come back (ending), when the verdict was due (Offline; 0 if it was not), or when
	// the device was, or could have been, asked last (of others; 0 if it was not).
	until time.Duration
	// asked is how often the device was asked since it was heard last.
	asked uint8
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
		f.until, f.asked = now+p.CloseGrace, 0
	}
	return f
}

// retained returns the facts after a word from before that the device was online.
func (f facts) retained(now time.Duration, p Policy) facts {
	lost := f.state == Offline && f.reason != Silence && f.reason != Protocol
	switch {
	case f.state == NeverSeen || p.Timeout >= Never || lost:
		return f.heard(now)
	case f.ending():
		f.reason, f.until = NoReason, 0
	}
	return f
}

// touched returns the facts after a sign of life that nobody can be told of now.
func (f facts) touched(now time.Duration) facts {
	f.last = max(f.last, now)
	switch f.state {
	case Online, Late:
		f.reason, f.until, f.asked = NoReason, 0, 0
	case Sleeping:
		f.reason = NoReason
	case NeverSeen, Offline, Unknown, Suspect, Pending: // there is no verdict to come
	}
	return f
}

// left returns the facts after a goodbye. One that is offline already stays so, for the reason that was told.
func (f facts) left(now time.Duration) facts {
	if f.state == Offline {
		return f.touched(now)
	}
	return f.heard(now).offline(0, Bye)
}

// leaving returns the facts after a goodbye that nobody can be told of now: the verdict comes as soon as it can be.
func (f facts) leaving(now time.Duration) facts {
	f = f.touched(now)
	if f.expected() {
		f.reason, f.until = Bye, now
	}
	return f
}

// expected reports whether the device is to be heard.
func (f facts) expected() bool { return f.state != NeverSeen && f.state != Offline }

// from is the instant from which a silence counts.
func (f facts) from() time.Duration {
	if f.state == Sleeping && !f.ending() {
		return max(f.until, f.last)
	}
	return f.last
}

// shifted returns the facts as they are on a clock that is ahead.
func (f facts) shifted(by time.Duration) facts {
	f.last = max(f.last+by, 0)
	if f.until != 0 {
		f.until = max(f.until+by, 1)
	}
	return f
}

// after returns the facts after a signal.
func (f facts) after(sig signal, p Policy) facts {
	switch sig.Kind {
	case Sleep:
		return f.slept(sig.At, max(sig.Length, 0), p)
	case Goodbye:
		return f.left(sig.At)
	case Disconnected:
		if f.state == NeverSeen {
			return facts{last: sig.At}.offline(0, sig.Reason)
		}
		return f.closed(sig.At, sig.Reason, p)
	case Retained:
		return f.retained(sig.At, p)
	case Heartbeat, Failure:
	}
	return f.heard(sig.At)
}

// deferred returns the facts after a signal of which nobody can be told now: the state stays, and the rest follows as soon as it can. It
// returns false for a signal that is to be refused instead.
func (f facts) deferred(sig signal) (facts, bool) {
	switch {
	case sig.announces:
	case sig.Kind == Heartbeat:
		return f.touched(sig.At), true
	case sig.Kind == Goodbye:
		return f.leaving(sig.At), true
	}
	return f, false
}

// news says whether somebody is to be told of the way from before to f.
func (f facts) news(before facts) bool {
	return f.state != before.state || f.state == Sleeping && f.until != before.until
}

// offline returns the facts after a verdict that was due at an instant, 0 if it was not.
func (f facts) offline(due time.Duration, why Reason) facts {
	return facts{state: Offline, reason: why, last: f.last, until: due}
}

// verdict returns when the device is to be judged offline if nothing is heard of it, and why; of one that is offline, when and why it
// was. A device that was not heard since its source was deaf is not judged before notBefore.
func (f facts) verdict(p Policy, notBefore time.Duration) (at time.Duration, why Reason) {
	at, why = f.from()+p.Timeout, Silence
	switch {
	case f.state == Offline && f.until != 0:
		return f.until, f.reason
	case f.ending() && f.until < at:
		at, why = f.until, f.reason
	}
	return max(at, notBefore), why
}

// awaited says whether there is a verdict to come that anybody waits for.
func (f facts) awaited(p Policy) bool {
	return p.Timeout < Never || f.ending() || f.state == Offline && f.until != 0
}

// late returns when the device becomes late, and false if it is to be judged before, or is not to become late. Like the verdict,
// it waits for notBefore.
func (f facts) late(p Policy, notBefore time.Duration) (at time.Duration, ok bool) {
	if f.state != Online || p.LateAfter == 0 || p.LateAfter >= p.Timeout {
		return 0, false
	}
	at = max(f.last+p.LateAfter, notBefore)
	verdict, _ := f.verdict(p, notBefore)
	return at, at < verdict
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
	period := p.Timeout
	if late, ok := f.late(p, notBefore); ok {
		at, period = late, p.LateAfter
	}
	if ask, ok := f.ask(p, notBefore); ok && ask < at {
		_, span := p.probing()
		at, period = ask, p.Timeout-span
	}
	if f.state != Online || f.ending() || f.until != 0 || at != f.last+period {
		period = 0
	}
	return step{at, period}, true
}

// passed returns the facts once the clock has reached now.
func (f facts) passed(now time.Duration, p Policy, notBefore time.Duration) facts {
	if f.state == Offline || f.state == NeverSeen {
		return f
	}
	if at, why := f.verdict(p, notBefore); now >= at {
		return f.offline(at, why)
	}
	if at, ok := f.late(p, notBefore); ok && now >= at {
		f.state = Late
	}
	if at, ok := f.ask(p, notBefore); ok && now >= at {
		return f.questioned(now)
	}
	return f
}
