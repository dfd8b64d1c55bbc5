package liveness

import "github.com/holter-iot/holter/liveness/judgement"

// policyLocked returns the policy by which the device is judged. A device that cannot be probed has
// no probes. One whose source is retired has no broker that tracks it, so a Timeout of Never
// becomes the fleet's.
func (d *device) policyLocked() Policy {
	p := d.pacePolicyLocked(d.gracePolicyLocked())
	if d.marks&probeable == 0 {
		p.Probes = 0
	}
	if p.Timeout == Never && d.source != nil && d.source.phase() == retired {
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
	return judgement.Condition{State: d.state, Reason: d.reason, Asked: d.asked}.Shown()
}
