package liveness

import (
	"math"
	"slices"
	"sort"
	"time"
)

// course maps a source's listening time to wall time, or to the instants of its pulses. Between two turns both advance alike, unless turns
// were merged in between.
type course struct {
	turns []Turn        // oldest first
	moved time.Duration // by how much they were moved altogether
	kept  time.Duration // listening time before which instants that matter are kept elsewhere, so that turns may be merged
}

// Turn is an instant at which listening time goes on after a gap.
type Turn struct {
	Listened time.Duration
	At       time.Time
	// Until is not zero if later turns were merged into this one: the instant at which the listening time of
	// the next turn was reached. It is not known any more when, between At and Until, listening time stood still.
	Until time.Time
}

const (
	// turnsKept is how many turns a course has before some are merged; turnsSharp is how many of the latest stay
	// as they are, and mostTurns how many there are at most.
	turnsKept, turnsSharp, mostTurns = 192, 64, 1024
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
	c.turns = append(c.turns, Turn{Listened: listened, At: wall})
	c.merge()
}

// merge merges old turns while there are too many: those that together take the least part of the time since
// then. So what is lost about an instant is a small part of its age.
func (c *course) merge() {
	for len(c.turns) > turnsKept {
		most := len(c.turns) - turnsSharp
		if len(c.turns) <= mostTurns {
			most = min(most, sort.Search(len(c.turns), func(i int) bool { return c.turns[i].Listened > c.kept }))
		}
		best, least := -1, math.Inf(1)
		for i := range most - 2 {
			from := c.turns[i].At
			if part := float64(c.end(i+1).Sub(from)) / float64(c.turns[len(c.turns)-1].At.Sub(from)); part < least {
				best, least = i, part
			}
		}
		if best < 0 {
			return
		}
		c.turns[best].Until = c.end(best + 1)
		c.turns = slices.Delete(c.turns, best+1, best+2)
	}
}

// end returns when the listening time of the turn after one was reached. There must be one.
func (c *course) end(i int) time.Time {
	if t := &c.turns[i]; t.Until.IsZero() {
		return t.At.Add(c.turns[i+1].Listened - t.Listened)
	}
	return c.turns[i].Until
}

// crowded reports whether there are so many turns that the instants before the latest of them are to be kept
// elsewhere, and returns the listening time of those.
func (c *course) crowded() (before time.Duration, ok bool) {
	if len(c.turns) <= 2*turnsSharp || c.turns[len(c.turns)-2*turnsSharp].Listened <= c.kept {
		return 0, false
	}
	return c.turns[len(c.turns)-turnsSharp].Listened, true
}

// move is for a wall clock that shows another time than the one before.
func (c *course) move(by time.Duration) {
	c.moved += by
	for i := range c.turns {
		t := &c.turns[i]
		t.At = t.At.Add(by)
		if !t.Until.IsZero() {
			t.Until = t.Until.Add(by)
		}
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
	return max(c.turns[0].Listened-c.turns[0].At.Sub(at), 0)
}

// restore makes a course from what was kept of it.
func (c *course) restore(turns []Turn, listened time.Duration, at time.Time) {
	*c = course{turns: slices.Clone(turns)}
	if n := len(c.turns); n > 0 {
		c.turns[n-1].Until = time.Time{} // else it is damaged: nothing follows the last turn
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
		if !at.Before(t.At) {
			return min(t.Listened+at.Sub(t.At), limit), true
		}
		limit = t.Listened
	}
	return 0, false
}

// at returns the instant of a listening time, the latest that it can have been, and zero if the course has no turn yet.
func (c *course) at(listened time.Duration) time.Time {
	if len(c.turns) == 0 {
		return time.Time{}
	}
	i := len(c.turns) - 1
	for i > 0 && c.turns[i].Listened > listened {
		i--
	}
	return c.atTurn(i, listened)
}

// knows reports whether the instant of a listening time is known.
func (c *course) knows(listened time.Duration) bool {
	for _, t := range slices.Backward(c.turns) {
		if t.Listened <= listened {
			return t.Until.IsZero()
		}
	}
	return false
}

// atTurn is at for a listening time from a turn on, to the next.
func (c *course) atTurn(i int, listened time.Duration) time.Time {
	if t := &c.turns[i]; t.Until.IsZero() {
		return t.At.Add(listened - t.Listened)
	}
	return c.turns[i].Until.Add(listened - c.turns[i+1].Listened)
}
