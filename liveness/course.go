package liveness

import (
	"math"
	"slices"
	"time"
)

// course maps a source's listening time to wall time, or to the instants of its pulses. Between two turns both advance alike.
type course struct {
	turns []turn // oldest first
}

// turn is an instant at which listening time goes on after a gap.
type turn struct {
	listened time.Duration
	wall     time.Time
}

const (
	// turnsKept is how many turns are remembered.
	turnsKept = 2 * deafKept
	// driftTolerance is by how much the wall clock may leave a course before that takes a turn.
	// Within it the first reading of the wall clock holds, so that one listening time is one
	// instant.
	driftTolerance = 50 * time.Millisecond
)

// turn makes listening time go on from an instant. An instant before the expected one shows that
// the wall clock was set back; then all earlier turns move back with it.
func (c *course) turn(listened time.Duration, wall time.Time) {
	if len(c.turns) > 0 {
		if back := wall.Sub(c.at(listened)); back < 0 {
			c.move(back)
		}
	}
	if len(c.turns) == turnsKept {
		c.turns = append(c.turns[:0], c.turns[1:]...)
	}
	c.turns = append(c.turns, turn{listened, wall})
}

// move is for a wall clock that shows another time than the one before.
func (c *course) move(by time.Duration) {
	for i := range c.turns {
		c.turns[i].wall = c.turns[i].wall.Add(by)
	}
}

// moveTo makes a listening time that of an instant, by another wall clock.
func (c *course) moveTo(listened time.Duration, wall time.Time) {
	if by := wall.Sub(c.at(listened)); by.Abs() > driftTolerance {
		c.move(by)
	}
}

// keepUp takes a turn if the wall clock has left the course, and reports whether it has.
func (c *course) keepUp(listened time.Duration, wall time.Time) bool {
	if wall.Sub(c.at(listened)).Abs() <= driftTolerance {
		return false
	}
	c.turn(listened, wall)
	return true
}

// before returns the listening time at an instant before the first turn, if there was no gap.
func (c *course) before(at time.Time) time.Duration {
	if len(c.turns) == 0 {
		return 0
	}
	return max(c.turns[0].listened-c.turns[0].wall.Sub(at), 0)
}

// restore makes a course from what was kept of it.
func (c *course) restore(deaf []DeafInterval, listened time.Duration, at time.Time) {
	c.turns = c.turns[:0]
	for i, d := range deaf {
		if i == 0 {
			c.turn(0, d.From.Add(-d.Listened))
		}
		c.turn(d.Listened, d.To)
	}
	switch {
	case at.IsZero():
	case len(c.turns) == 0:
		c.turn(0, at.Add(-listened))
	default:
		c.keepUp(listened, at)
	}
}

// listened returns the latest listening time at an instant; false before the first turn.
func (c *course) listened(at time.Time) (time.Duration, bool) {
	limit := time.Duration(math.MaxInt64)
	for _, t := range slices.Backward(c.turns) {
		if !at.Before(t.wall) {
			return min(t.listened+at.Sub(t.wall), limit), true
		}
		limit = t.listened
	}
	return 0, false
}

// at returns the instant of a listening time, zero if the course has no turn yet.
func (c *course) at(listened time.Duration) time.Time {
	if len(c.turns) == 0 {
		return time.Time{}
	}
	i := len(c.turns) - 1
	for i > 0 && c.turns[i].listened > listened {
		i--
	}
	return c.turns[i].wall.Add(listened - c.turns[i].listened)
}
