package liveness

import "time"

// condition is what is known of a device. The functions of this file decide everything about its
// state; they are pure. All instants are in listening time.
type condition struct {
	state State
	// reason is why the device is offline. Of a device whose connection ended, it is why the device
	// goes offline unless it comes back, or released.
	reason Reason
	// last is when the device was heard last.
	last time.Duration
	// until depends on the state. Sleeping: when the sleep ends. Ending or released: the end of the
	// time to come back. Offline: when the verdict was due, 0 if it was not. Otherwise: when the device was
	// probed last, or would have been, 0 if it was not.
	until time.Duration
	// asked is how often the device was probed since it was heard last. Offline: how many heartbeats in
	// a row it has sent since, see [Policy.RecoverAfter].
	asked uint8
}

// released is the reason of a device that was connected to a process which has closed the connection
// for its own sake: it is not judged before it had the time to connect elsewhere. It is in no event
// and no record.
const released = Reason(reasons)

// ending reports whether the device's connection ended and the verdict is still to come.
func (c condition) ending() bool {
	return c.reason != NoReason && c.reason != released && c.state != Offline
}

// heard returns the condition after a heartbeat.
func (c condition) heard(now time.Duration, p Policy) condition {
	if n := c.counted(now, p); c.recovers(p) && n < p.RecoverAfter {
		c.last, c.asked = max(c.last, now), uint8(n)
		return c
	}
	return c.back(now)
}

// back returns the condition of a device that was heard and is online.
func (c condition) back(now time.Duration) condition {
	return condition{state: Online, last: max(c.last, now)}
}

// slept returns the condition after the announcement of a sleep.
func (c condition) slept(now, length time.Duration, p Policy) condition {
	c = c.back(now)
	c.state = Sleeping
	c.until = c.last + min(length, p.SleepLimit)
	return c
}

// closed returns the condition after the device's connection ended without a goodbye. It may have
// been heard elsewhere since.
func (c condition) closed(now time.Duration, why Reason, p Policy) condition {
	if c.state == Online || c.state == Late {
		c.reason = why
		c.until, c.asked = max(now, c.last)+p.CloseGrace, 0
	}
	if c.state == Offline {
		c.asked = 0
	}
	return c
}

// released returns the condition after the device's connection was closed for no reason of its own. It
// has a grace to connect elsewhere, but for a sleep, which lasts as long as ever.
func (c condition) released(now, grace time.Duration) condition {
	if c.state == Online || c.state == Late {
		c.reason, c.until, c.asked = released, max(now, c.last)+grace, 0
	}
	return c
}

// putOff returns the later of an instant before which the device is not judged, and of the end of its
// time to connect elsewhere.
func (c condition) putOff(notBefore time.Duration) time.Duration {
	if c.reason == released {
		return max(notBefore, c.until)
	}
	return notBefore
}

// retained returns the condition after a [Retained] signal.
func (c condition) retained(now time.Duration, p Policy) condition {
	lost := c.state == Offline && c.reason != Silence && c.reason != Protocol
	switch {
	case c.state == NeverSeen || p.Timeout >= Never || lost && !c.recovers(p):
		return c.back(now)
	case c.ending():
		c.reason, c.until = NoReason, 0
	}
	return c
}

// touched returns the condition after a heartbeat while no event can be emitted: the state stays. The
// next heartbeat brings a device online that this one would have.
func (c condition) touched(now time.Duration, p Policy) condition {
	if c.recovers(p) {
		c.asked = uint8(min(c.counted(now, p), p.RecoverAfter-1))
	}
	c.last = max(c.last, now)
	switch c.state {
	case Online, Late:
		c.reason, c.until, c.asked = NoReason, 0, 0
	case Sleeping:
		c.reason = NoReason
	case NeverSeen, Offline, Unknown, Suspect, Pending: // there is no verdict to come
	}
	return c
}

// left returns the condition after a goodbye. An offline device keeps the reason that was reported.
func (c condition) left(now time.Duration) condition {
	if c.state == Offline {
		c.last, c.asked = max(c.last, now), 0
		return c
	}
	return c.back(now).offline(0, Bye)
}

// leaving returns the condition after a goodbye while no event can be emitted: the verdict follows
// as soon as one can.
func (c condition) leaving(now time.Duration) condition {
	if c.state == Offline {
		return c.left(now)
	}
	c = c.touched(now, Policy{})
	if c.expected() {
		c.reason, c.until = Bye, now
	}
	return c
}

// expected reports whether heartbeats of the device are waited for.
func (c condition) expected() bool { return c.state != NeverSeen && c.state != Offline }

// from returns the instant from which a silence counts.
func (c condition) from() time.Duration {
	if c.state == Sleeping && !c.ending() {
		return max(c.until, c.last)
	}
	return c.last
}

// shifted returns the condition on a clock that is ahead by a duration.
func (c condition) shifted(by time.Duration) condition {
	c.last = max(c.last+by, 0)
	if c.until != 0 {
		c.until = max(c.until+by, 1)
	}
	return c
}

// after returns the condition after a signal.
func (c condition) after(sig signal, p Policy) condition {
	switch sig.Kind {
	case Sleep:
		return c.slept(sig.At, max(sig.Length, 0), p)
	case Goodbye:
		return c.left(sig.At)
	case Disconnected:
		if c.state == NeverSeen {
			return condition{last: sig.At}.offline(0, sig.Reason)
		}
		if sig.AtOnce {
			p.CloseGrace = 0
		}
		return c.closed(sig.At, sig.Reason, p)
	case Retained:
		return c.retained(sig.At, p)
	case Heartbeat, Failure, Start:
	}
	return c.heard(sig.At, p)
}

// deferred returns the condition after a signal while no event can be emitted: the state stays, and
// the rest follows as soon as it can. It returns false for a signal that must be refused instead.
func (c condition) deferred(sig signal, p Policy) (condition, bool) {
	switch {
	case sig.announces:
	case sig.Kind == Heartbeat:
		return c.touched(sig.At, p), true
	case sig.Kind == Goodbye:
		return c.leaving(sig.At), true
	}
	return c, false
}

// notable reports whether the change from before to c is an event.
func (c condition) notable(before condition) bool {
	return c.state != before.state || c.state == Sleeping && (c.until-before.until).Abs() >= heardTick // each may be rounded by less
}

// offline returns the condition after a verdict that was due at an instant, 0 if it was not due.
func (c condition) offline(due time.Duration, why Reason) condition {
	return condition{state: Offline, reason: why, last: c.last, until: due}
}

// verdict returns when, and for which reason, the device is judged offline if nothing is heard of
// it; of an offline device, when and why it was. A device that was not heard since its source was
// deaf is not judged before notBefore.
func (c condition) verdict(p Policy, notBefore time.Duration) (at time.Duration, why Reason) {
	at, why = c.from()+p.Timeout, Silence
	switch {
	case c.state == Offline && c.until != 0:
		return c.until, c.reason
	case c.ending() && c.until < at:
		at, why = c.until, c.reason
	}
	return max(at, notBefore), why
}

// awaited reports whether there is a verdict to come, or was one. An offline device that was heard since
// has none.
func (c condition) awaited(p Policy) bool {
	if c.recovering() {
		return false
	}
	return p.Timeout < Never || c.ending() || c.state == Offline && c.until != 0
}

// late returns when the device becomes late, and false if it is judged before, or does not become
// late. Like the verdict, it waits for notBefore.
func (c condition) late(p Policy, notBefore time.Duration) (at time.Duration, ok bool) {
	if c.state != Online || p.LateAfter == 0 || p.LateAfter >= p.Timeout {
		return 0, false
	}
	at = max(c.last+p.LateAfter, notBefore)
	verdict, _ := c.verdict(p, notBefore)
	return at, at < verdict
}

// step is the next thing to do about a device.
type step struct {
	at time.Duration
	// period is the distance from the last heartbeat if every heartbeat only moves the step, so
	// that the timer can be touched; otherwise 0.
	period time.Duration
}

// next returns the next step, and false if there is none.
func (c condition) next(p Policy, notBefore time.Duration) (step, bool) {
	if c.recovering() {
		return step{at: c.relapse(p, notBefore)}, true
	}
	if c.state == Offline || c.state == NeverSeen {
		return step{}, false
	}
	at, _ := c.verdict(p, notBefore)
	period := p.Timeout
	if late, ok := c.late(p, notBefore); ok {
		at, period = late, p.LateAfter
	}
	if ask, ok := c.nextProbe(p, notBefore); ok && ask < at {
		_, span := p.probing()
		at, period = ask, p.Timeout-span
	}
	if c.state != Online || c.ending() || c.until != 0 || at != c.last+period {
		period = 0
	}
	return step{at, period}, true
}

// passed returns the condition once the clock has reached now.
func (c condition) passed(now time.Duration, p Policy, notBefore time.Duration) condition {
	if c.recovering() && now >= c.relapse(p, notBefore) {
		c.asked = 0
	}
	if c.state == Offline || c.state == NeverSeen {
		return c
	}
	if at, why := c.verdict(p, notBefore); now >= at {
		return c.offline(at, why)
	}
	if at, ok := c.late(p, notBefore); ok && now >= at {
		c.state = Late
	}
	if at, ok := c.nextProbe(p, notBefore); ok && now >= at {
		return c.probed(now)
	}
	return c
}
