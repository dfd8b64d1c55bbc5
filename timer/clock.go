package timer

import (
	"sync"
	"time"
)

// Clock is what deadlines are measured on. It never goes back; it may stand still. Its methods may
// be called concurrently, and must return at once: the goroutines that watch the deadlines call
// them.
type Clock interface {
	// Now returns the time since the clock's origin.
	Now() time.Duration
	// Alarm returns a new alarm, not set.
	Alarm() Alarm
}

// Alarm tells one goroutine that a [Clock] has reached an instant.
type Alarm interface {
	// Set makes C receive once when the clock reads at or later, at once if it does already. It
	// replaces the instant that was set before, whose value may still be in C.
	Set(at time.Duration)
	// C is the channel that receives. It has room for one value and is never closed.
	C() <-chan time.Time
	// Stop ends the alarm. It must not be set again.
	Stop()
}

// system is the runtime's monotonic clock.
type system struct{ origin time.Time }

// System returns the default clock: the runtime's monotonic time since the call. It stands still
// only while the machine does (suspend, on most systems), not while the process is stopped.
func System() Clock { return system{time.Now()} }

func (c system) Now() time.Duration { return time.Since(c.origin) }

func (c system) Alarm() Alarm {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return systemAlarm{c, t}
}

type systemAlarm struct {
	clock system
	timer *time.Timer
}

func (a systemAlarm) Set(at time.Duration) { a.timer.Reset(at - a.clock.Now()) }
func (a systemAlarm) C() <-chan time.Time  { return a.timer.C }
func (a systemAlarm) Stop()                { a.timer.Stop() }

// Manual is a clock that its owner moves. The zero Manual reads 0 and is ready to use. Deadlines
// are rounded up to [Resolution]: the clock must be moved by up to d + Resolution for a timer of d
// to expire.
type Manual struct {
	mu     sync.Mutex // guards the fields below
	now    time.Duration
	alarms map[*manualAlarm]struct{}
	sooner chan struct{} // room for one; made when it is first asked for; never closed
}

// Now returns what the clock was moved to last.
func (c *Manual) Now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Set moves the clock to an instant, unless it is there already or beyond. It sounds alarms before
// it returns, never blocks, and costs O(alarms).
func (c *Manual) Set(now time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now > c.now {
		c.now = now
		c.soundLocked()
	}
}

// Advance is Set to d after the clock's reading; a negative d is taken as 0.
func (c *Manual) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = add(c.now, max(d, 0))
	c.soundLocked()
}

// Next returns the earliest instant that an alarm is set for, and whether there is one, so that the
// clock's owner can move the clock in time. It costs O(alarms).
func (c *Manual) Next() (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nextLocked()
}

func (c *Manual) nextLocked() (next time.Duration, ok bool) {
	for a := range c.alarms {
		if !ok || a.at < next {
			next, ok = a.at, true
		}
	}
	return next, ok
}

// Sooner returns a channel that receives when Next has become earlier. One value may stand for
// several times.
func (c *Manual) Sooner() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sooner == nil {
		c.sooner = make(chan struct{}, 1)
	}
	return c.sooner
}

func (c *Manual) soundLocked() {
	for a := range c.alarms {
		a.soundLocked()
	}
}

// Alarm implements [Clock].
func (c *Manual) Alarm() Alarm { return &manualAlarm{clock: c, c: make(chan time.Time, 1)} }

// manualAlarm is among its clock's alarms while it is set.
type manualAlarm struct {
	clock *Manual
	at    time.Duration  // guarded by clock.mu
	c     chan time.Time // room for one value; a full channel needs no other
}

func (a *manualAlarm) Set(at time.Duration) {
	a.clock.mu.Lock()
	defer a.clock.mu.Unlock()
	if a.clock.alarms == nil {
		a.clock.alarms = make(map[*manualAlarm]struct{})
	}
	if next, ok := a.clock.nextLocked(); !ok || at < next {
		select {
		case a.clock.sooner <- struct{}{}:
		default: // a value is there already, or Sooner was never called: a nil channel takes nothing
		}
	}
	a.at = at
	a.clock.alarms[a] = struct{}{}
	a.soundLocked()
}

func (a *manualAlarm) soundLocked() {
	if a.at > a.clock.now {
		return
	}
	delete(a.clock.alarms, a)
	select {
	case a.c <- time.Time{}:
	default:
	}
}

func (a *manualAlarm) C() <-chan time.Time { return a.c }

func (a *manualAlarm) Stop() {
	a.clock.mu.Lock()
	defer a.clock.mu.Unlock()
	delete(a.clock.alarms, a)
}
