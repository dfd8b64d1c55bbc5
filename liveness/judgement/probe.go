package judgement

import (
	"time"
)

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

// Suspect reports whether the device was probed since it was heard last.
func (c Condition) Suspect() bool {
	return c.Asked > 0 && (c.State == Online || c.State == Late) && !c.Ending()
}

// Shown returns the state to show. Suspect is not stored: a device stays online, or late, while it
// is probed.
func (c Condition) Shown() State {
	if c.Suspect() {
		return Suspect
	}
	return c.State
}

// nextProbe returns when the device is to be probed next, and false if it is judged before, or is
// not to be probed. The last probe is ProbeWait before the verdict, the one before it twice that,
// and so on. If several of these instants have passed, there is one probe. A verdict that is put
// off begins a new round.
func (c Condition) nextProbe(p Policy, notBefore time.Duration) (at time.Duration, ok bool) {
	times, span := p.probing()
	if times == 0 || c.State != Online && c.State != Late || c.Reason != NoReason {
		return 0, false
	}
	verdict, _ := c.Verdict(p, notBefore)
	at = verdict - span
	if c.Until >= at && c.Until != 0 {
		at += (c.Until - at).Truncate(p.ProbeWait) + p.ProbeWait
	}
	return at, at < verdict
}

// probed returns the condition after a probe.
func (c Condition) probed(now time.Duration) Condition {
	c.Asked, c.Until = min(c.Asked, 254)+1, now
	return c
}
