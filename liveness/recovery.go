package liveness

import "github.com/holter-iot/holter/liveness/judgement"

// recoveryPolicy returns the policy by which heartbeats of a device are counted: its timeout is as long as it
// takes, see [Policy.Quiet] and [Policy.Expect].
func (s *Source) recoveryPolicy(f judgement.Condition, p Policy) Policy {
	if !f.Recovering() || !p.Paced() {
		return p
	}
	by := s.pace(p, f.Last, f.Last)
	return f.Stretched(p, &by)
}

// judgedLocked reports whether the device is offline, and was not heard since, or not often enough in a
// row.
func (d *device) judgedLocked() bool { return d.state == Offline && d.asked == 0 }

// relapsedLocked tells the far end of a session if its device, which was recovering, has fallen silent
// again. No event tells of it: the device has been offline all the time.
func (d *device) relapsedLocked() {
	if s := d.session; s != nil && s.peer != nil && d.judgedLocked() && d.uncommitted == 0 { // otherwise it is told with the commit
		s.peer.Judged()
	}
}
