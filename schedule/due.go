package schedule

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Misfire says what happens to instants that passed while nothing could run: the machine was
// suspended, its clock was set, the program was down or late. The zero Misfire is MisfireOnce.
type Misfire int32

const (
	// MisfireOnce runs once, for the latest instant, in place of all that have passed.
	MisfireOnce Misfire = 0
	// MisfireSkip is like MisfireOnce if the latest instant passed no longer ago than the grace, else nothing is run.
	MisfireSkip Misfire = -1

	badMisfire Misfire = -2
)

// MaxMisfires is the largest n of [MisfireAll].
const MaxMisfires = 100

// MisfireAll gives each of the n latest instants that have passed a run of its own, the earliest first. An n that is not 1 to
// [MaxMisfires] is an error where the policy is used.
func MisfireAll(n int) Misfire {
	if n < 1 || n > MaxMisfires {
		return badMisfire
	}
	return Misfire(n)
}

var errMisfire = errors.New("schedule: the misfire policy is not one: want MisfireOnce, MisfireSkip or MisfireAll(1) to MisfireAll(100)")

// Due returns the instants after last, and not after now, that are to be run, and the first instant after now: the zero time if
// there is none. A clock that went back (now before last) has nothing due, and next is after last. It costs some 60 calls of
// s.Next for each instant that it returns, whatever the time that has passed.
func Due(s Schedule, last, now time.Time, policy Misfire, grace time.Duration) (runs []time.Time, next time.Time, err error) {
	if policy < MisfireSkip || policy > MaxMisfires {
		return nil, time.Time{}, errMisfire
	}
	if now.Before(last) {
		return nil, following(s, last), nil
	}
	first := following(s, last)
	if first.IsZero() || first.After(now) {
		return nil, first, nil
	}
	return due(s, first, now, policy, grace), following(s, now), nil
}

// due is Due when the first instant is known, and not after now.
func due(s Schedule, first, now time.Time, policy Misfire, grace time.Duration) []time.Time {
	at := latest(s, first, now)
	switch {
	case policy == MisfireSkip && now.Sub(at) > grace:
		return nil
	case policy <= MisfireOnce:
		return []time.Time{at}
	}
	runs := []time.Time{at}
	for len(runs) < int(policy) && at.After(first) {
		at = latest(s, first, at.Add(-1))
		runs = append(runs, at)
	}
	slices.Reverse(runs)
	return runs
}

// latest returns the last instant that is not after limit. The first one is such an instant.
func latest(s Schedule, first, limit time.Time) time.Time {
	found, end := first, limit // no instant is in (end, limit]
	for {
		next := following(s, found)
		if next.IsZero() || next.After(limit) {
			return found
		}
		middle := found.Add(end.Sub(found) / 2)
		if next = following(s, middle); next.IsZero() || next.After(limit) {
			end = middle
		} else {
			found = next
		}
	}
}

func (m Misfire) String() string {
	switch {
	case m == MisfireOnce:
		return "once"
	case m == MisfireSkip:
		return "skip"
	case m > 0:
		return fmt.Sprintf("all(%d)", int(m))
	default:
		return "invalid"
	}
}
