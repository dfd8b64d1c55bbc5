package gateway

import (
	"math"
	"time"
)

// intake limits what a connection may send, as the generic cell rate algorithm does (ITU-T I.371): each
// message, and its bytes, take a time; what they have taken may be ahead of the clock by burst.
type intake struct {
	used time.Duration // since the gateway's start
	slow bool          // it has sent too much, and not much less since
}

const (
	// burst is for how long the most may come at once that a connection may send in that time.
	burst = 10 * time.Second
	// narrow is the size that the kernel is asked to give the buffer of a socket whose connection sends
	// too much: what lies there is old when it is handled, and a device that has died seems alive.
	narrow = 64 << 10
	// intakeStep is how long a connection is paused, so that it is not read for each message.
	intakeStep = 50 * time.Millisecond
)

// budget returns how many messages and bytes may be handled now.
func (i *intake) budget(l *listener, now time.Duration) (messages, bytes int) {
	free := max(burst-max(i.used-now, 0), 0)
	part := func(perSecond int) int {
		if perSecond < 0 {
			return math.MaxInt
		}
		return int(free * time.Duration(perSecond) / time.Second)
	}
	return part(l.MaxMessages), part(l.MaxBytes)
}

// spend notes what was handled.
func (i *intake) spend(l *listener, now time.Duration, messages, bytes int) {
	took := func(n, perSecond int) time.Duration {
		if perSecond < 0 {
			return 0
		}
		return time.Duration(n) * time.Second / time.Duration(perSecond)
	}
	i.used = max(i.used, now) + max(took(messages, l.MaxMessages), took(bytes, l.MaxBytes))
}

// listen handles input of a connection, as far as it may send so much. It returns how much of it,
// whether that was the end, and whether the rest is to be handled after a pause.
func (c *connection) listen(x *exchange, input []byte) (used int, end, more bool) {
	l, now := c.listener, x.wall.Sub(c.gateway.began)
	messages, bytes := c.intake.budget(l, now)
	x.budget = messages
	part := input[:min(len(input), bytes)]
	rest, end := c.hear(x, part)
	used = len(part) - len(rest)
	c.intake.spend(l, now, messages-x.budget, used)
	more = !end && used < len(input) && (x.budget == 0 || len(part) < len(input))
	switch ahead := c.intake.used - now; {
	case more && !c.intake.slow:
		c.intake.slow = true
		c.link.narrow()
		c.slowed(x)
	case ahead < burst/2:
		c.intake.slow = false
	}
	return used, end, more
}

// slowed counts that a connection is to be read more slowly, and logs the 1st, 2nd, 4th, 8th … time.
func (c *connection) slowed(x *exchange) {
	g := c.gateway
	if n := g.counts.slowed.Add(1); n&(n-1) == 0 {
		g.log.Warn("a connection sends more than it may; it is read more slowly", "device", c.session.ID(), "address", x.address(), "times", n,
			"help", "look at what the device sends; the limits are max_messages and max_bytes of the listener")
	}
}
