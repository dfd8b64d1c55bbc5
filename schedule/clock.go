package schedule

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/timer"
)

// clockStep is how far the clock on the wall and the steady one may drift apart before the deadlines are set anew.
const clockStep = 10 * time.Millisecond

// wrongClock is the least backward step of the clock after which instants that were handled before
// do not count.
const wrongClock = 24 * time.Hour

// clock relates two clocks: the wall clock, which may be set, and a steady clock, on which timers
// wait. Instants of both are nanoseconds since 1970; steady ones are those that the wall clock
// would show if it had not been set since the start.
type clock struct {
	now    func() time.Time
	steady timer.Clock
	origin int64 // of the steady clock

	setting sync.Mutex   // held while the deadlines are set anew
	offset  atomic.Int64 // reading of the wall clock when the steady clock reads 0
	steps   atomic.Uint64
}

func newClock(now func() time.Time) *clock {
	c := &clock{now: now, steady: timer.System()}
	c.origin, _ = c.measure()
	c.offset.Store(c.origin)
	return c
}

// measure compares the two clocks, and returns the largest error of the result.
func (c *clock) measure() (offset int64, blur time.Duration) {
	const tries, sharp = 3, 100 * time.Microsecond
	for i := range tries {
		before := c.steady.Now()
		wall := c.now().UnixNano()
		took := c.steady.Now() - before
		if i == 0 || took < blur {
			offset, blur = wall-int64(before+took/2), took
		}
		if blur < sharp {
			break
		}
	}
	return offset, blur
}

// read returns the current instant, by the wall or by the steady clock.
func (c *clock) read(steady bool) int64 {
	if steady {
		return c.origin + int64(c.steady.Now())
	}
	return c.now().UnixNano()
}

// base returns what must be taken from an instant for the reading of the steady clock.
func (c *clock) base(steady bool) int64 {
	if steady {
		return c.origin
	}
	return c.offset.Load()
}

// shift returns the difference between an instant and what the wall clock will show then.
func (c *clock) shift(steady bool) int64 { return c.offset.Load() - c.base(steady) }

// stepped reports whether the clock on the wall has been set since that was noticed last, and what offset it has now.
func (c *clock) stepped() (offset int64, ok bool) {
	offset, blur := c.measure()
	d := time.Duration(offset - c.offset.Load()).Abs()
	return offset, d >= clockStep+blur
}

// plus returns the instant a while after another one, and minus the time between two; where that cannot be counted, the nearest that can.
func plus(at int64, d time.Duration) int64 {
	if d > 0 && at > math.MaxInt64-int64(d) {
		return math.MaxInt64
	}
	return at + int64(d)
}

func minus(a, b int64) time.Duration {
	switch d := a - b; {
	case a >= b && d < 0:
		return math.MaxInt64
	case a < b && d > 0:
		return math.MinInt64
	default:
		return time.Duration(d)
	}
}

// checkClock sets the deadlines anew if the clock on the wall was set, or the machine was suspended.
func (e *Engine) checkClock() {
	if _, ok := e.clock.stepped(); !ok {
		return
	}
	e.clock.setting.Lock()
	defer e.clock.setting.Unlock()
	if offset, ok := e.clock.stepped(); ok { // no other goroutine was faster
		back := minus(e.clock.offset.Swap(offset), offset)
		e.clock.steps.Add(1)
		e.clockSet(back >= wrongClock)
	}
}

// clockSet sets all deadlines anew. If the clock was wrong, no schedule waits for the instant that was next by it.
func (e *Engine) clockSet(wasWrong bool) {
	for _, h := range e.all() {
		if h == nil {
			continue
		}
		if wasWrong {
			h.goOnFromNow()
		}
		h.rearm()
	}
}
