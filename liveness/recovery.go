package liveness

import "time"

// recovers reports whether the device is offline and has to send several heartbeats in a row before it is
// online. One that said goodbye is online at once, and so is one that only a broker tracks: it sends none.
func (c condition) recovers(p Policy) bool {
	return c.state == Offline && c.reason != Bye && p.RecoverAfter > 1 && p.Timeout < Never
}

// recovering reports whether the device is offline, and some of those heartbeats have come.
func (c condition) recovering() bool { return c.state == Offline && c.asked > 0 }

// counted returns how many heartbeats in a row there are of an offline device with one at an instant. A
// longer silence than the timeout begins the count anew.
func (c condition) counted(now time.Duration, p Policy) int {
	if c.asked == 0 || now-c.last > p.Timeout {
		return 1
	}
	return int(c.asked) + 1
}

// recoveryPolicy returns the policy by which heartbeats of a device are counted: its timeout is as long as it
// takes, see [Policy.Quiet] and [Policy.Expect].
func (s *Source) recoveryPolicy(f condition, p Policy) Policy {
	if !f.recovering() || !p.paced() {
		return p
	}
	by := s.pace(p, f.last, f.last)
	return f.stretched(p, &by)
}

// relapse returns when the count of a device that is recovering begins anew if nothing is heard of it.
func (c condition) relapse(p Policy, notBefore time.Duration) time.Duration {
	return max(c.last+p.Timeout, notBefore)
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
