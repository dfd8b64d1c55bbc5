package judgement

import (
	"math"
	"slices"
	"sort"
	"time"
)

// Course maps a source's listening time to wall time, or to the instants of its pulses. Between two turns both advance alike, unless turns
// were merged in between.
type Course struct {
	Turns []Turn        // oldest first
	Moved time.Duration // by how much they were moved altogether
	Kept  time.Duration // listening time before which instants that matter are kept elsewhere, so that turns may be merged
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
	// DriftTolerance is by how much the wall clock may leave a course before that takes a turn.
	// Within it the first reading of the wall clock holds, so that one listening time is one
	// instant.
	DriftTolerance = 50 * time.Millisecond
)

// Turn makes listening time go on from an instant. An instant before the expected one shows that
// the wall clock was set back; then all earlier turns move back with it.
func (c *Course) Turn(listened time.Duration, wall time.Time) {
	if len(c.Turns) > 0 {
		if back := wall.Sub(c.At(listened)); back < 0 {
			c.move(back)
		}
	}
	c.Turns = append(c.Turns, Turn{Listened: listened, At: wall})
	c.Merge()
}

// Merge merges old turns while there are too many: those that together take the least part of the time since
// then. So what is lost about an instant is a small part of its age.
func (c *Course) Merge() {
	for len(c.Turns) > turnsKept {
		most := len(c.Turns) - turnsSharp
		if len(c.Turns) <= mostTurns {
			most = min(most, sort.Search(len(c.Turns), func(i int) bool { return c.Turns[i].Listened > c.Kept }))
		}
		best, least := -1, math.Inf(1)
		for i := range most - 2 {
			from := c.Turns[i].At
			if part := float64(c.end(i+1).Sub(from)) / float64(c.Turns[len(c.Turns)-1].At.Sub(from)); part < least {
				best, least = i, part
			}
		}
		if best < 0 {
			return
		}
		c.Turns[best].Until = c.end(best + 1)
		c.Turns = slices.Delete(c.Turns, best+1, best+2)
	}
}

// end returns when the listening time of the turn after one was reached. There must be one.
func (c *Course) end(i int) time.Time {
	if t := &c.Turns[i]; t.Until.IsZero() {
		return t.At.Add(c.Turns[i+1].Listened - t.Listened)
	}
	return c.Turns[i].Until
}

// Crowded reports whether there are so many turns that the instants before the latest of them are to be kept
// elsewhere, and returns the listening time of those.
func (c *Course) Crowded() (before time.Duration, ok bool) {
	if len(c.Turns) <= 2*turnsSharp || c.Turns[len(c.Turns)-2*turnsSharp].Listened <= c.Kept {
		return 0, false
	}
	return c.Turns[len(c.Turns)-turnsSharp].Listened, true
}

// move is for a wall clock that shows another time than the one before.
func (c *Course) move(by time.Duration) {
	c.Moved += by
	for i := range c.Turns {
		t := &c.Turns[i]
		t.At = t.At.Add(by)
		if !t.Until.IsZero() {
			t.Until = t.Until.Add(by)
		}
	}
}

// MoveTo makes a listening time that of an instant, by another wall clock.
func (c *Course) MoveTo(listened time.Duration, wall time.Time) {
	if by := wall.Sub(c.At(listened)); by.Abs() > DriftTolerance {
		c.move(by)
	}
}

// KeepUp takes a turn if the wall clock has left the course, and reports whether it has.
func (c *Course) KeepUp(listened time.Duration, wall time.Time) bool {
	if wall.Sub(c.At(listened)).Abs() <= DriftTolerance {
		return false
	}
	c.Turn(listened, wall)
	return true
}

// Before returns the listening time at an instant before the first turn, if there was no gap.
func (c *Course) Before(at time.Time) time.Duration {
	if len(c.Turns) == 0 {
		return 0
	}
	return max(c.Turns[0].Listened-c.Turns[0].At.Sub(at), 0)
}

// Restore makes a course from what was kept of it.
func (c *Course) Restore(turns []Turn, listened time.Duration, at time.Time) {
	*c = Course{Turns: slices.Clone(turns)}
	if n := len(c.Turns); n > 0 {
		c.Turns[n-1].Until = time.Time{} // else it is damaged: nothing follows the last turn
	}
	switch {
	case at.IsZero():
	case len(c.Turns) == 0:
		c.Turn(0, at.Add(-listened))
	default:
		c.KeepUp(listened, at)
	}
}

// Listened returns the latest listening time at an instant; false before the first turn.
func (c *Course) Listened(at time.Time) (time.Duration, bool) {
	limit := time.Duration(math.MaxInt64)
	for _, t := range slices.Backward(c.Turns) {
		if !at.Before(t.At) {
			return min(t.Listened+at.Sub(t.At), limit), true
		}
		limit = t.Listened
	}
	return 0, false
}

// At returns the instant of a listening time, the latest that it can have been, and zero if the course has no turn yet.
func (c *Course) At(listened time.Duration) time.Time {
	if len(c.Turns) == 0 {
		return time.Time{}
	}
	i := len(c.Turns) - 1
	for i > 0 && c.Turns[i].Listened > listened {
		i--
	}
	return c.AtTurn(i, listened)
}

// Knows reports whether the instant of a listening time is known.
func (c *Course) Knows(listened time.Duration) bool {
	for _, t := range slices.Backward(c.Turns) {
		if t.Listened <= listened {
			return t.Until.IsZero()
		}
	}
	return false
}

// AtTurn is at for a listening time from a turn on, to the next.
func (c *Course) AtTurn(i int, listened time.Duration) time.Time {
	if t := &c.Turns[i]; t.Until.IsZero() {
		return t.At.Add(listened - t.Listened)
	}
	return c.Turns[i].Until.Add(listened - c.Turns[i+1].Listened)
}
