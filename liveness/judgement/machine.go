package judgement

import (
	"time"

	"github.com/holter-iot/holter/timer"
)

// HeardTick is the unit of the instants at which devices were heard, that of the timers.
const HeardTick = timer.Resolution

// Condition is what is known of a device. The functions of this file decide everything about its
// state; they are pure. All instants are in listening time.
type Condition struct {
	State State
	// Reason is why the device is offline. Of a device whose connection ended, it is why the device
	// goes offline unless it comes back, or released.
	Reason Reason
	// Last is when the device was heard last.
	Last time.Duration
	// Until depends on the state. Sleeping: when the sleep ends. Ending or released: the end of the
	// time to come back. Offline: when the verdict was due, 0 if it was not. Otherwise: when the device was
	// probed last, or would have been, 0 if it was not.
	Until time.Duration
	// Asked is how often the device was probed since it was heard last. Offline: how many heartbeats in
	// a row it has sent since, see [Policy.RecoverAfter].
	Asked uint8
}

// released is the reason of a device that was connected to a process which has closed the connection
// for its own sake: it is not judged before it had the time to connect elsewhere. It is in no event
// and no record.
const released = Reason(Reasons)

// Ending reports whether the device's connection ended and the verdict is still to come.
func (c Condition) Ending() bool {
	return c.Reason != NoReason && c.Reason != released && c.State != Offline
}

// Heard returns the condition after a heartbeat.
func (c Condition) Heard(now time.Duration, p Policy) Condition {
	if n := c.counted(now, p); c.recovers(p) && n < p.RecoverAfter {
		c.Last, c.Asked = max(c.Last, now), uint8(n)
		return c
	}
	return c.back(now)
}

// back returns the condition of a device that was heard and is online.
func (c Condition) back(now time.Duration) Condition {
	return Condition{State: Online, Last: max(c.Last, now)}
}

// Slept returns the condition after the announcement of a sleep.
func (c Condition) Slept(now, length time.Duration, p Policy) Condition {
	c = c.back(now)
	c.State = Sleeping
	c.Until = c.Last + min(length, p.SleepLimit)
	return c
}

// Closed returns the condition after the device's connection ended without a goodbye. It may have
// been heard elsewhere since.
func (c Condition) Closed(now time.Duration, why Reason, p Policy) Condition {
	if c.State == Online || c.State == Late {
		c.Reason = why
		c.Until, c.Asked = max(now, c.Last)+p.CloseGrace, 0
	}
	if c.State == Offline {
		c.Asked = 0
	}
	return c
}

// Released returns the condition after the device's connection was closed for no reason of its own. It
// has a grace to connect elsewhere, but for a sleep, which lasts as long as ever.
func (c Condition) Released(now, grace time.Duration) Condition {
	if c.State == Online || c.State == Late {
		c.Reason, c.Until, c.Asked = released, max(now, c.Last)+grace, 0
	}
	return c
}

// PutOff returns the later of an instant before which the device is not judged, and of the end of its
// time to connect elsewhere.
func (c Condition) PutOff(notBefore time.Duration) time.Duration {
	if c.Reason == released {
		return max(notBefore, c.Until)
	}
	return notBefore
}

// Retained returns the condition after a retained signal.
func (c Condition) Retained(now time.Duration, p Policy) Condition {
	lost := c.State == Offline && c.Reason != Silence && c.Reason != Protocol
	switch {
	case c.State == NeverSeen || p.Timeout >= Never || lost && !c.recovers(p):
		return c.back(now)
	case c.Ending():
		c.Reason, c.Until = NoReason, 0
	}
	return c
}

// Touched returns the condition after a heartbeat while no event can be emitted: the state stays. The
// next heartbeat brings a device online that this one would have.
func (c Condition) Touched(now time.Duration, p Policy) Condition {
	if c.recovers(p) {
		c.Asked = uint8(min(c.counted(now, p), p.RecoverAfter-1))
	}
	c.Last = max(c.Last, now)
	switch c.State {
	case Online, Late:
		c.Reason, c.Until, c.Asked = NoReason, 0, 0
	case Sleeping:
		c.Reason = NoReason
	case NeverSeen, Offline, Unknown, Suspect, Pending: // there is no verdict to come
	}
	return c
}

// Left returns the condition after a goodbye. An offline device keeps the reason that was reported.
func (c Condition) Left(now time.Duration) Condition {
	if c.State == Offline {
		c.Last, c.Asked = max(c.Last, now), 0
		return c
	}
	return c.back(now).Offline(0, Bye)
}

// Leaving returns the condition after a goodbye while no event can be emitted: the verdict follows
// as soon as one can.
func (c Condition) Leaving(now time.Duration) Condition {
	if c.State == Offline {
		return c.Left(now)
	}
	c = c.Touched(now, Policy{})
	if c.Expected() {
		c.Reason, c.Until = Bye, now
	}
	return c
}

// Expected reports whether heartbeats of the device are waited for.
func (c Condition) Expected() bool { return c.State != NeverSeen && c.State != Offline }

// From returns the instant from which a silence counts.
func (c Condition) From() time.Duration {
	if c.State == Sleeping && !c.Ending() {
		return max(c.Until, c.Last)
	}
	return c.Last
}

// Shifted returns the condition on a clock that is ahead by a duration.
func (c Condition) Shifted(by time.Duration) Condition {
	c.Last = max(c.Last+by, 0)
	if c.Until != 0 {
		c.Until = max(c.Until+by, 1)
	}
	return c
}

// Notable reports whether the change from before to c is an event.
func (c Condition) Notable(before Condition) bool {
	return c.State != before.State || c.State == Sleeping && (c.Until-before.Until).Abs() >= HeardTick // each may be rounded by less
}

// Offline returns the condition after a verdict that was due at an instant, 0 if it was not due.
func (c Condition) Offline(due time.Duration, why Reason) Condition {
	return Condition{State: Offline, Reason: why, Last: c.Last, Until: due}
}

// Verdict returns when, and for which reason, the device is judged offline if nothing is heard of
// it; of an offline device, when and why it was. A device that was not heard since its source was
// deaf is not judged before notBefore.
func (c Condition) Verdict(p Policy, notBefore time.Duration) (at time.Duration, why Reason) {
	at, why = c.From()+p.Timeout, Silence
	switch {
	case c.State == Offline && c.Until != 0:
		return c.Until, c.Reason
	case c.Ending() && c.Until < at:
		at, why = c.Until, c.Reason
	}
	return max(at, notBefore), why
}

// Awaited reports whether there is a verdict to come, or was one. An offline device that was heard since
// has none.
func (c Condition) Awaited(p Policy) bool {
	if c.Recovering() {
		return false
	}
	return p.Timeout < Never || c.Ending() || c.State == Offline && c.Until != 0
}

// late returns when the device becomes late, and false if it is judged before, or does not become
// late. Like the verdict, it waits for notBefore.
func (c Condition) late(p Policy, notBefore time.Duration) (at time.Duration, ok bool) {
	if c.State != Online || p.LateAfter == 0 || p.LateAfter >= p.Timeout {
		return 0, false
	}
	at = max(c.Last+p.LateAfter, notBefore)
	verdict, _ := c.Verdict(p, notBefore)
	return at, at < verdict
}

// Step is the next thing to do about a device.
type Step struct {
	At time.Duration
	// Period is the distance from the last heartbeat if every heartbeat only moves the step, so
	// that the timer can be touched; otherwise 0.
	Period time.Duration
}

// Next returns the next step, and false if there is none.
func (c Condition) Next(p Policy, notBefore time.Duration) (Step, bool) {
	if c.Recovering() {
		return Step{At: c.relapse(p, notBefore)}, true
	}
	if c.State == Offline || c.State == NeverSeen {
		return Step{}, false
	}
	at, _ := c.Verdict(p, notBefore)
	period := p.Timeout
	if late, ok := c.late(p, notBefore); ok {
		at, period = late, p.LateAfter
	}
	if ask, ok := c.nextProbe(p, notBefore); ok && ask < at {
		_, span := p.probing()
		at, period = ask, p.Timeout-span
	}
	if c.State != Online || c.Ending() || c.Until != 0 || at != c.Last+period {
		period = 0
	}
	return Step{at, period}, true
}

// Passed returns the condition once the clock has reached now.
func (c Condition) Passed(now time.Duration, p Policy, notBefore time.Duration) Condition {
	if c.Recovering() && now >= c.relapse(p, notBefore) {
		c.Asked = 0
	}
	if c.State == Offline || c.State == NeverSeen {
		return c
	}
	if at, why := c.Verdict(p, notBefore); now >= at {
		return c.Offline(at, why)
	}
	if at, ok := c.late(p, notBefore); ok && now >= at {
		c.State = Late
	}
	if at, ok := c.nextProbe(p, notBefore); ok && now >= at {
		return c.probed(now)
	}
	return c
}

// Absent reports whether a device that is heard now was judged, or is back after more than half of the time
// that it had to come back after its connection ended. Such a gap is recorded however short it is.
func (c Condition) Absent(now, closeGrace time.Duration) bool {
	return c.State == Offline || c.Ending() && now > c.Until-closeGrace/2
}

// JudgedSince reports whether a device that is offline was judged in the silence that is under way: it was not
// heard since, see [Policy.RecoverAfter].
func (c Condition) JudgedSince() bool {
	return c.State == Offline && (c.Until > c.Last || c.Until == c.Last && c.Asked == 0)
}

// Span returns the span of a policy that the condition follows from, 0 if it follows from none. See
// liveness.View.JudgedBy.
func (c Condition) Span(p Policy) time.Duration {
	switch {
	case c.Ending() && c.Reason != Bye:
		return p.CloseGrace
	case c.State == Late:
		return p.LateAfter
	case c.State != Offline || c.Until == 0 || c.Reason == Bye:
		return 0
	case c.Reason == Silence:
		return p.Timeout
	}
	return p.CloseGrace
}
