package store

import (
	"sync"
	"time"
)

// steadyClock tells how old things are. It follows the wall clock, and is not fooled by it for a day.
//
// What is removed for its age is gone for good, and by the wall clock alone all of it would be, had
// that been a month ahead for some seconds: a bad time server, an empty battery, a guest that was
// resumed. One look at a clock does not tell whether it is right. But the monotonic clock tells how
// much time has really passed between two looks. So if the time d passes until the next one, the
// steady clock goes from S to what the wall clock shows, within these bounds:
//
//	S  <=  S'  <=  S + 2d
//
// Only a wall clock that has kept pace with the monotonic one for a whole day (stepTrusted) is taken
// at its word, and S is what it shows. And what is old is told by the earlier one of the steady clock and the wall clock.
// So, whatever the wall clock shows, and however often it jumps:
//
//   - While it is wrong for a time t, which is less than a day, no more becomes old than 2t on a
//     right clock would make old: if it is a month ahead for 5 s, the events of 10 s.
//   - A clock that is set back removes nothing, and does no harm later: S stays where it is, or
//     comes up again.
//   - A restart gains nothing: S is kept in each checkpoint and goes on from there. The time in which
//     no process ran does not pass for S, since only the wall clock knows of it.
//   - Where the wall clock is right, S comes up with it: it gains d in each d, or a day does.
//     Until then things are kept for longer, never for less long.
//
// A clock that is wrong for more than a day without a jump cannot be told from one that was wrong
// before and has been corrected.
type steadyClock struct {
	mu     sync.Mutex // guards the fields below; no other lock is taken with it
	at     time.Time  // what it shows, without a monotonic reading; zero until it begins
	seen   time.Time  // when it was looked at last, with a monotonic reading
	pace   time.Time  // what the wall clock showed when it began to keep pace
	paceAt time.Time  // and when that was, with a monotonic reading
}

const (
	// stepTrusted is how long a wall clock has to keep pace to be trusted.
	stepTrusted = 24 * time.Hour
	// stepAllowed is by how much it may get ahead or behind meanwhile: a clock that is being slewed
	// makes 43 s in a day.
	stepAllowed = time.Minute
)

// begin lets the clock go on from an instant, or from the wall clock if that is zero.
func (c *steadyClock) begin(at, wall, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.IsZero() {
		at = wall
	}
	c.at, c.seen, c.pace, c.paceAt = at, now, wall, now
}

// look moves the clock, and returns what it shows, and by which instant to tell what is old. wall is
// what the wall clock shows; of now, only the monotonic reading counts.
func (c *steadyClock) look(wall, now time.Time) (shown, old time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() { // there is nothing to remove yet
		return wall, wall
	}
	most := c.at.Add(2 * max(now.Sub(c.seen), 0))
	c.seen = now
	if steps := wall.Sub(c.pace) - now.Sub(c.paceAt); steps.Abs() > stepAllowed {
		c.pace, c.paceAt = wall, now
	} else if now.Sub(c.paceAt) >= stepTrusted {
		c.at = wall
	}
	if to := earlier(wall, most); to.After(c.at) {
		c.at = to
	}
	return c.at, earlier(c.at, wall)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// steadyNow returns what the steady clock shows, and by which instant to tell what is old.
func (s *Store) steadyNow() (shown, old time.Time) {
	return s.steady.look(s.wall().Round(0), time.Now())
}

// oldBefore returns the instant before which things are older than an age, as far as that is certain.
func (s *Store) oldBefore(now time.Time, age time.Duration) time.Time {
	_, old := s.steadyNow()
	return earlier(now, old).Add(-age)
}
