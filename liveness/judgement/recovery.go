package judgement

import (
	"time"
)

// recovers reports whether the device is offline and has to send several heartbeats in a row before it is
// online. One that said goodbye is online at once, and so is one that only a broker tracks: it sends none.
func (c Condition) recovers(p Policy) bool {
	return c.State == Offline && c.Reason != Bye && p.RecoverAfter > 1 && p.Timeout < Never
}

// Recovering reports whether the device is offline, and some of those heartbeats have come.
func (c Condition) Recovering() bool { return c.State == Offline && c.Asked > 0 }

// counted returns how many heartbeats in a row there are of an offline device with one at an instant. A
// longer silence than the timeout begins the count anew.
func (c Condition) counted(now time.Duration, p Policy) int {
	if c.Asked == 0 || now-c.Last > p.Timeout {
		return 1
	}
	return int(c.Asked) + 1
}

// relapse returns when the count of a device that is recovering begins anew if nothing is heard of it.
func (c Condition) relapse(p Policy, notBefore time.Duration) time.Duration {
	return max(c.Last+p.Timeout, notBefore)
}
