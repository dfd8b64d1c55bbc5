package gateway

import (
	"math"
	"sync/atomic"
	"time"
)

// intake limits what a connection may send, as the generic cell rate algorithm does (ITU-T I.371): each
// message, and its bytes, take a time; what they have taken may be ahead of the clock by burst.
type intake struct {
	used time.Duration // since the gateway's start
	slow time.Duration // since when it has sent too much, and not much less meanwhile; 0 if it has not
}

const (
	// burst is for how long the most may come at once that a connection may send in that time.
	burst = 10 * time.Second
	// backlogPart is which part of what a connection may send in a second its socket holds, and
	// minBacklog the least; the kernel gives twice what it is asked for, of which about half is for
	// data. What lies there while the connection is paused is old when it is handled, and a device that
	// has died seems alive until then. A round trip of more than 125 ms lowers what a connection may
	// send.
	backlogPart = 8
	minBacklog  = 4 << 10
	// mostSlow is for how long a connection is read more slowly. What waits in the other end's socket
	// may be megabytes of heartbeats, which its kernel sends even when the device has died: then the
	// device would seem alive for an hour. One that is alive comes back.
	mostSlow = time.Minute
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
	if c.details != nil && c.awaitsReply() {
		if end = c.proceed(x, len(input) > 0); end || c.awaitsReply() {
			return 0, end, len(input) > 0
		}
	}
	l, now := c.listener, x.readAt.Sub(c.gateway.began)
	if c.intake.used-now < burst/2 {
		c.intake.slow = 0
	}
	messages, bytes := c.intake.budget(l, now)
	x.budget = messages
	part := input[:min(len(input), bytes)]
	rest, end := c.hear(x, part)
	used = len(part) - len(rest)
	c.intake.spend(l, now, messages-x.budget, used)
	if !end && !c.established && c.holds(used, len(input)-used) > maxBefore && !c.gateway.hold(c) {
		end = c.fail(x, errLarge)
	}
	more = !end && used < len(input) && (x.budget == 0 || len(part) < len(input))
	switch {
	case more && c.intake.slow == 0:
		c.intake.slow = now
		c.tooFast(x, &c.gateway.counts.slowed, "read more slowly")
	case more && now-c.intake.slow > mostSlow:
		c.intake.slow = now // it is closed soon
		c.tooFast(x, &c.gateway.counts.floods, "closed, after a minute of that")
		c.gateway.close(c, whyFlood)
	}
	return used, end, more || used < len(input) && c.awaitsReply()
}

// tooFast counts what is done to a connection that sends too much, and logs the 1st, 2nd, 4th, 8th …
// time.
func (c *connection) tooFast(x *exchange, counter *atomic.Uint64, what string) {
	if n := counter.Add(1); n&(n-1) == 0 {
		c.gateway.log.Warn("a connection sends more than it may", "result", what, "device", c.id(), "address", x.address(), "times", n,
			"help", "look at what the device sends; the limits are max_messages and max_bytes of the listener")
	}
}
