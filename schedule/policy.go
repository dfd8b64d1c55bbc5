package schedule

import (
	"errors"
	"fmt"
)

// Overlap says what happens to an instant while a run of the same schedule is in progress or waits
// for a worker. The zero Overlap is OverlapSkip.
type Overlap int32

const (
	// OverlapSkip leaves the instant out.
	OverlapSkip Overlap = 0
	// OverlapAllow runs it at the same time. [MaxWaiting] runs of a schedule may wait for a worker; what comes then is left out.
	OverlapAllow Overlap = -1

	badOverlap Overlap = -2
)

// MaxWaiting is the largest number of waiting runs of one schedule.
const MaxWaiting = 1000

// OverlapQueue lets up to n runs wait until the run before has ended; what comes then is left out. An n that is not 1 to
// [MaxWaiting] is an error where the policy is used.
func OverlapQueue(n int) Overlap {
	if n < 1 || n > MaxWaiting {
		return badOverlap
	}
	return Overlap(n)
}

var errOverlap = errors.New("schedule: the overlap policy is not one: want OverlapSkip, OverlapAllow or OverlapQueue(1) to OverlapQueue(1000)")

// Admits reports whether one more run may wait, given the numbers of running and waiting runs.
func (o Overlap) Admits(running, waiting int) bool {
	switch {
	case o == OverlapAllow:
		return waiting < MaxWaiting
	case o == OverlapSkip || running == 0:
		return running+waiting <= int(o)
	default:
		return waiting < int(o)
	}
}

func (o Overlap) String() string {
	switch {
	case o == OverlapSkip:
		return "skip"
	case o == OverlapAllow:
		return "allow"
	case o > 0:
		return fmt.Sprintf("queue(%d)", int(o))
	default:
		return "invalid"
	}
}
