package liveness

import "time"

const (
	defaultProbeWait = 5 * time.Second
	// maxProbes bounds Policy.Probes.
	maxProbes = 100
)

// probing returns how often the device is probed at most, and how long before the verdict that
// begins: as often as fits into Timeout.
func (p Policy) probing() (times int, span time.Duration) {
	if p.Probes <= 0 || p.ProbeWait <= 0 {
		return 0, 0
	}
	times = int(min(time.Duration(p.Probes), (p.Timeout-1)/p.ProbeWait))
	return times, time.Duration(times) * p.ProbeWait
}

// suspect reports whether the device was probed since it was heard last.
func (c condition) suspect() bool {
	return c.asked > 0 && (c.state == Online || c.state == Late) && !c.ending()
}

// shown returns the state to show. Suspect is not stored: a device stays online, or late, while it
// is probed.
func (c condition) shown() State {
	if c.suspect() {
		return Suspect
	}
	return c.state
}

// nextProbe returns when the device is to be probed next, and false if it is judged before, or is
// not to be probed. The last probe is ProbeWait before the verdict, the one before it twice that,
// and so on. If several of these instants have passed, there is one probe. A verdict that is put
// off begins a new round.
func (c condition) nextProbe(p Policy, notBefore time.Duration) (at time.Duration, ok bool) {
	times, span := p.probing()
	if times == 0 || c.state != Online && c.state != Late || c.reason != NoReason {
		return 0, false
	}
	verdict, _ := c.verdict(p, notBefore)
	at = verdict - span
	if c.until >= at && c.until != 0 {
		at += (c.until - at).Truncate(p.ProbeWait) + p.ProbeWait
	}
	return at, at < verdict
}

// probed returns the condition after a probe.
func (c condition) probed(now time.Duration) condition {
	c.asked, c.until = min(c.asked, 254)+1, now
	return c
}

// policyLocked returns the policy by which the device is judged. A device that cannot be probed has
// no probes. One whose source is retired has no broker that tracks it, so a Timeout of Never
// becomes the fleet's.
func (d *device) policyLocked() Policy {
	p := d.pacePolicyLocked(d.gracePolicyLocked())
	if d.marks&probeable == 0 {
		p.Probes = 0
	}
	if p.Timeout == Never && d.source != nil && d.source.retired.Load() {
		p.Timeout = d.source.registry.fleetTimeout()
	}
	return p
}

// probeLocked asks the device for a sign of life. It returns false if that cannot be, for instance
// because the source would not hear the answer.
func (d *device) probeLocked() bool {
	if p := d.source.latest.Load(); p != nil && p.deaf {
		return false
	}
	return d.session != nil && d.session.peer != nil && d.session.peer.Probe()
}

// shownLocked returns the state in which the device is counted.
func (d *device) shownLocked() State {
	if d.marks&statePending != 0 {
		return Pending
	}
	return condition{state: d.state, reason: d.reason, asked: d.asked}.shown()
}
