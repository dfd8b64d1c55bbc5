package liveness

import "time"

const (
	defaultProbeWait = 5 * time.Second
	// maxProbes bounds Policy.Probes.
	maxProbes = 100
)

// probing returns how often the device is asked at most, and how long before the verdict that begins: as often as fits into Timeout.
func (p Policy) probing() (times int, span time.Duration) {
	if p.Probes <= 0 || p.ProbeWait <= 0 {
		return 0, 0
	}
	times = int(min(time.Duration(p.Probes), (p.Timeout-1)/p.ProbeWait))
	return times, time.Duration(times) * p.ProbeWait
}

// suspect says whether the device was asked since it was heard last.
func (c condition) suspect() bool {
	return c.asked > 0 && (c.state == Online || c.state == Late) && !c.ending()
}

// shown is the state as it is shown. Suspect is not one of condition: a device goes on being online, or late, while it is asked.
func (c condition) shown() State {
	if c.suspect() {
		return Suspect
	}
	return c.state
}

// ask returns when the device is to be asked next, and false if it is to be judged before, or is not to be asked: ProbeWait, twice that
// and so on before the verdict, as often as it is to be asked. If several of these instants have passed, it is asked once. A verdict that is put off
// begins a new round.
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

// probed returns the condition after the device was asked.
func (c condition) probed(now time.Duration) condition {
	c.asked, c.until = min(c.asked, 254)+1, now
	return c
}

// policyLocked returns the policy by which the device is judged: one that cannot be asked has no probes, and nobody vouches for one whose
// source is retired.
func (d *device) policyLocked() Policy {
	p := d.rule.Value().Policy
	if !d.probeable {
		p.Probes = 0
	}
	if p.Timeout == Never && d.source != nil && d.source.retired.Load() {
		p.Timeout = d.source.registry.fleetTimeout()
	}
	return p
}

// probeLocked asks the device for a sign of life. It returns false if that is not to be: its source would not hear the answer, for instance.
func (d *device) probeLocked() bool {
	if p := d.source.latest.Load(); p != nil && p.deaf {
		return false
	}
	return d.session != nil && d.session.peer != nil && d.session.peer.Probe()
}

// shownLocked is the state as it is counted.
func (d *device) shownLocked() State {
	if d.marks&statePending != 0 {
		return Pending
	}
	return condition{state: d.state, reason: d.reason, asked: d.asked}.shown()
}
