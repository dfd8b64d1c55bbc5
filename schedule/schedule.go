package schedule

import (
	"errors"
	"fmt"
	"time"
)

// ErrNever is returned when a schedule has no instant left: 30 February, or a single instant that has passed.
var ErrNever = errors.New("schedule: it never fires")

// Schedule is a number of instants, in order.
type Schedule interface {
	// Next returns the first instant strictly after the given one, or the zero time if there is none. It never decreases when its
	// argument grows. It may be called concurrently. One that
	// panics ends, in an engine; one that does so at once is refused by [Plan.Do].
	Next(after time.Time) time.Time
}

// following is s.Next, but returns the zero time if a schedule breaks its contract, so that its
// callers cannot loop forever.
func following(s Schedule, after time.Time) time.Time {
	if next := s.Next(after); next.After(after) {
		return next
	}
	return time.Time{}
}

// MinPeriod is the shortest period.
const MinPeriod = time.Millisecond

// Period returns the schedule start, start + every, start + 2 × every, …, for some 292 years. It returns an error if every is below
// [MinPeriod]. Instants are in start's location.
func Period(start time.Time, every time.Duration) (Schedule, error) {
	if every < MinPeriod {
		return nil, fmt.Errorf("schedule: the period is %v: want %v or more", every, MinPeriod)
	}
	return period{start: start.Round(0), every: every}, nil
}

type period struct {
	start time.Time
	every time.Duration
}

func (p period) Next(after time.Time) time.Time {
	if after.Before(p.start) {
		return p.start
	}
	passed := after.Sub(p.start)
	next := passed - passed%p.every + p.every
	if next <= passed { // beyond what a Duration holds
		return time.Time{}
	}
	return p.start.Add(next)
}

// At returns the schedule of a single instant.
func At(at time.Time) Schedule { return single{at} }

type single struct{ at time.Time }

func (s single) Next(after time.Time) time.Time {
	if after.Before(s.at) {
		return s.at
	}
	return time.Time{}
}

// Starting returns the instants of s that are not before start. A period, such as that of "@every 90s", counts anew from start:
// start itself is its first instant.
func Starting(s Schedule, start time.Time) Schedule {
	switch s := s.(type) {
	case period:
		s.start = start.Round(0)
		return s
	case starting:
		return Starting(s.of, laterOf(start, s.start))
	default:
		return starting{of: s, start: start.Round(0)}
	}
}

type starting struct {
	of    Schedule
	start time.Time
}

func (s starting) Next(after time.Time) time.Time {
	return s.of.Next(laterOf(after, s.start.Add(-1)))
}

func laterOf(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
