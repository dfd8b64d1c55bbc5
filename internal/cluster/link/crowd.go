package link

import "time"

// A judge that has more sessions to open than it can would answer all of them too late, do in vain
// what it does for those that have given up, and so help nobody. So an ear that has waited for too
// long for an answer asks for no more than are answered in time. Whoever is turned away is told at
// once; that it was heard counts, see notes.

const (
	// crowdedAfter is how long the oldest question may have no answer until there are too many.
	crowdedAfter = time.Second
	// leastOpening is how many sessions may be opened at a time, however slow the judge is: it shows when it
	// is no more.
	leastOpening = 256
)

// crowd is the sessions that are being opened, and how many were opened lately.
type crowd struct {
	waiting int           // for an answer
	second  time.Duration // the begin of the latest second in which a session was opened
	opened  int           // in that second
	before  int           // in the second before it
}

// answered notes how the question to open a session was answered.
func (c *crowd) answered(now time.Duration, err error) {
	if err == nil {
		c.turn(now)
		c.opened++
	}
}

// turn begins another second when one has passed.
func (c *crowd) turn(now time.Duration) {
	second := now.Truncate(time.Second)
	if second == c.second {
		return
	}
	c.before, c.opened = c.opened, 0
	if second-c.second > time.Second {
		c.before = 0
	}
	c.second = second
}

// most returns how many sessions the judge opens in one and a half seconds.
func (c *crowd) most(now time.Duration) int {
	c.turn(now)
	return max(max(c.opened, c.before)*3/2, leastOpening)
}

// crowdedLocked reports whether the judge would not answer in time if it were asked to open one session
// more. Without a judge all wait for one.
func (e *Ear) crowdedLocked(now time.Duration) bool {
	if e.link == nil || e.crowd.waiting < leastOpening {
		return false
	}
	return now-e.oldestLocked(now) >= crowdedAfter && e.crowd.waiting >= e.crowd.most(now)
}

// oldestLocked returns when the oldest question was asked that has no answer; now if there is none.
func (e *Ear) oldestLocked(now time.Duration) time.Duration {
	for len(e.waiting) > 0 && e.waiting[0].over {
		e.waiting[0] = nil
		e.waiting = e.waiting[1:]
	}
	if len(e.waiting) == 0 {
		return now
	}
	return e.waiting[0].asked()
}
