package liveness

import (
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/liveness/judgement"
)

// clock is the only reader of the time in this package. It reads the wall clock, which stamps
// events, and a steady time in nanoseconds, which is never set back, not even by a restart, and
// equals the wall clock's Unix time for as long as nobody sets that. Instants that are compared
// with each other are steady: when devices changed their state, and which of these changes belong
// to one outage.
//
// Package store has a steady clock for another purpose: it tells the age of what may be deleted,
// and therefore follows the wall clock slowly. This one must not lag, since the fleet's events are
// compared within minutes.
type clock struct {
	origin time.Time
	base   atomic.Int64 // the steady time at origin
}

func newClock() *clock {
	c := &clock{origin: time.Now()}
	c.base.Store(max(c.origin.UnixNano(), 0))
	return c
}

// time returns the present as [time.Now] does, with a monotonic reading.
func (c *clock) time() time.Time { return time.Now() }

// elapsed returns how much time has passed since the clock was made.
func (c *clock) elapsed() time.Duration { return time.Since(c.origin) }

// steady returns the present as steady time.
func (c *clock) steady() int64 { return c.base.Load() + int64(c.elapsed()) }

// restored returns a steady time that was kept before a restart, and moves the clock forward if
// that lies in the future. A time more than maxSpan ahead is wrong and is replaced by the present.
func (c *clock) restored(at int64) int64 {
	now := c.steady()
	switch {
	case at <= now:
		return max(at, 0)
	case at-now > int64(judgement.MaxSpan):
		return now
	}
	least := at - int64(c.elapsed())
	for {
		if base := c.base.Load(); base >= least || c.base.CompareAndSwap(base, least) {
			return at
		}
	}
}

// setTolerance is by how much the steady time and the wall clock may differ although nobody has set
// the wall clock.
const setTolerance = time.Second

// wall returns the wall time of a steady time, by the wall clock as it is set now.
func (c *clock) wall(at int64) time.Time {
	shift := c.time().UnixNano() - c.steady()
	if time.Duration(shift).Abs() < setTolerance {
		shift = 0
	}
	return time.Unix(0, at+shift)
}
