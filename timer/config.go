package timer

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"runtime"
	"time"

	"github.com/panjf2000/ants/v2"

	"github.com/holter-iot/holter/dualmap"
)

var (
	// ErrFull is returned when an engine holds [Config.MaxTimers] timers, or a shard has no slot
	// left.
	ErrFull = errors.New("timer: engine is full")
	// ErrClosed is returned by calls that would arm a timer once the engine is closed.
	ErrClosed = errors.New("timer: engine is closed")
	// ErrGroups is returned by [Engine.Group] when the engine has 256 groups, that of the funcs
	// among them.
	ErrGroups = errors.New("timer: too many groups")
	// ErrNoTime is returned by [Engine.AtTime] for the zero time.
	ErrNoTime = errors.New("timer: AtTime got the zero time")
	// ErrNil is wrapped by the error of a call that was given a nil func or a nil handler.
	ErrNil = errors.New("timer: nothing to call")
)

// Unlimited as [Config.Workers] gives each func that is due a goroutine of its own at once, and
// each batch of a handler.
const Unlimited = -1

// Config describes an engine. The zero Config is ready to use.
type Config struct {
	// Clock is what deadlines are measured on. Default: System().
	Clock Clock
	// Precision is the unit in which deadlines are kept: a power of two of nanoseconds, at most
	// Resolution. A finer one makes them, and the order of those of a shard, finer, at the price of
	// range: deadlines lie up to 2^42 × Precision after the clock's origin, for instance 18 years
	// with 131.072µs, 52 days with 1.024µs, and 73 minutes with 1ns. What is armed when the clock
	// comes there expires. Other figures shrink in proportion: the entry of a deadline farther ahead
	// than 2^32 units is looked at on the way, and a period of more than 2^30 units is rounded up
	// to a multiple of 2^14. A Memory needs the default. Default: Resolution.
	Precision time.Duration
	// Wall reads the wall clock, which the timers of [Engine.AtTime] follow. It may be called
	// concurrently, must return at once, and must not call the engine. Default: time.Now.
	Wall func() time.Time
	// Shards is the number of shards, a power of two up to 1024. Each expires its timers in the order
	// of their deadlines; there is none among shards. Default: 4 × GOMAXPROCS, rounded up to a power
	// of two; 1 if Workers is 1, so that funcs, and the timers of a group, come in order.
	Shards int
	// MaxTimers is the most timers that may be armed at a time; due ones count until a worker
	// claims them. An arming beyond it returns ErrFull at once. Default 0: bounded only by memory
	// and by 2^24 timers of one group in a shard, cancelled ones that are due among them, and some
	// that were cancelled before the shard was full.
	MaxTimers int
	// Eager takes a cancelled timer's entry out of the heap at once, and gives back its slot and its
	// func, under the lock and in O(log n), for four bytes more a timer. A timer that is due already
	// waits for a worker all the same. Default: cancelled timers are left to be swept.
	Eager bool
	// Workers is the most callbacks that run at a time. Default 0: 8 × GOMAXPROCS. Unlimited: no
	// bound. [Engine.Resize] changes it.
	Workers int
	// PoolOptions are passed to the ants pool that the workers belong to; it is not used while they
	// are Unlimited. With ants.WithNonblocking, a task for which no worker is free is offered again
	// after a millisecond, and Stats.Refused counts it.
	PoolOptions []ants.Option
	// Queue is how many batches the ready queue is meant to hold. When callbacks are slower than
	// expiries it holds more, in proportion to the armed timers at most, and Stats.Spilled counts
	// them. Default: 1024.
	Queue int
	// OnPanic gets the value with which a callback panicked, on the worker's goroutine. It may be
	// called concurrently, may block, and must not panic. Default: panics are only counted.
	OnPanic func(recovered any)
	// Memory, if not nil, holds the timers of the groups, but not those with funcs, so that [Left]
	// can read them after the process was killed. Each engine needs its own; Close leaves its
	// content. Where it has no room the Go heap serves. Default: the Go heap.
	Memory dualmap.Memory
}

func (c Config) withDefaults() (Config, error) {
	procs := runtime.GOMAXPROCS(0)
	if c.Clock == nil {
		c.Clock = System()
	}
	if c.Precision == 0 {
		c.Precision = Resolution
	}
	if c.Wall == nil {
		c.Wall = time.Now
	}
	if c.Shards == 0 && c.Workers == 1 {
		c.Shards = 1
	}
	if c.Shards == 0 {
		c.Shards = min(1<<bits.Len(uint(4*procs-1)), maxShards)
	}
	if c.Workers == 0 {
		c.Workers = 8 * procs
	}
	if c.Queue == 0 {
		c.Queue = 1024
	}
	var errs []error
	if c.Precision < 1 || c.Precision > Resolution || c.Precision&(c.Precision-1) != 0 {
		errs = append(errs, fmt.Errorf("timer: Precision is %v, want a power of two of nanoseconds from 1ns to %v", c.Precision, Resolution))
	} else if c.Precision != Resolution && c.Memory != nil {
		errs = append(errs, fmt.Errorf("timer: Precision is %v, want %v: what is left in a Memory is read in that unit", c.Precision, Resolution))
	}
	if c.Shards < 1 || c.Shards > maxShards || c.Shards&(c.Shards-1) != 0 {
		errs = append(errs, fmt.Errorf("timer: Shards is %d, want a power of two from 1 to %d", c.Shards, maxShards))
	}
	if c.MaxTimers < 0 {
		errs = append(errs, fmt.Errorf("timer: MaxTimers is %d, want 0 or more", c.MaxTimers))
	}
	if c.Workers < Unlimited || c.Workers > math.MaxInt32 {
		errs = append(errs, fmt.Errorf("timer: Workers is %d, want 0 to %d or Unlimited", c.Workers, math.MaxInt32))
	}
	if c.Queue < 0 {
		errs = append(errs, fmt.Errorf("timer: Queue is %d, want 0 or more", c.Queue))
	}
	return c, errors.Join(errs...)
}
