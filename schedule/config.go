package schedule

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"
)

var (
	// ErrFull is returned by [Plan.Do] when the engine holds [Config.MaxSchedules] schedules.
	ErrFull = errors.New("schedule: the engine is full")
	// ErrClosed is returned by all that would add or run something once the context of [Engine.Run] has ended.
	ErrClosed = errors.New("schedule: the engine is closed")
	// ErrBusy is returned by [Handle.RunNow] when the schedule's overlap policy leaves no room for one more run.
	ErrBusy = errors.New("schedule: a run still goes on, and no more of them may wait")
	// ErrEnded is returned by [Handle.RunNow] when the schedule was cancelled or has no instant left.
	ErrEnded = errors.New("schedule: it has ended")
)

// Unlimited as [Config.Workers], and for [Engine.Resize], sets no limit to the number of concurrent runs.
const Unlimited = -1

// maxSchedules is how many timers fit into one shard of a timer engine, whichever they come to lie in.
const maxSchedules = 1 << 24

// Config is the configuration of an engine. The zero Config is valid.
type Config struct {
	// Workers is the largest number of concurrent runs, or Unlimited. Default: 8 × GOMAXPROCS. See
	// [Engine.Resize].
	Workers int
	// MaxSchedules is the largest number of schedules; [Plan.Do] returns ErrFull beyond it. Default
	// and maximum: 2^24.
	MaxSchedules int
	// Location is that of days, and of crontab expressions that name none. Default: time.Local.
	Location *time.Location
	// Grace is how late an instant may be run with [MisfireSkip]. Default: one minute.
	Grace time.Duration
	// OnPanic is told what a run panicked with, and where; or a schedule's Next, with a Run that has no number. It is called on the
	// worker's goroutine, or on that of [Handle.Resume]; several may call it at a time; it may block, and must not panic. Default:
	// panics are only counted.
	OnPanic func(run Run, recovered any, stack []byte)
	// OnError is told the error of a task, of [Plan.DoTask]. It is called on the worker's goroutine; several may call it at a time; it
	// may block. Default: errors are only counted.
	OnError func(run Run, err error)
	// Now reads the wall clock. It may be called concurrently. Default: time.Now.
	Now func() time.Time
}

func (c Config) withDefaults() (Config, error) {
	if c.Workers == 0 {
		c.Workers = 8 * runtime.GOMAXPROCS(0)
	}
	if c.MaxSchedules == 0 {
		c.MaxSchedules = maxSchedules
	}
	if c.Location == nil {
		c.Location = time.Local
	}
	if c.Grace == 0 {
		c.Grace = time.Minute
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	var errs []error
	if c.Workers < Unlimited || c.Workers > math.MaxInt32 {
		errs = append(errs, fmt.Errorf("schedule: Workers is %d: want 0 to %d or Unlimited", c.Workers, math.MaxInt32))
	}
	if c.MaxSchedules < 0 || c.MaxSchedules > maxSchedules {
		errs = append(errs, fmt.Errorf("schedule: MaxSchedules is %d: want 0 to %d", c.MaxSchedules, maxSchedules))
	}
	if c.Grace < 0 {
		errs = append(errs, fmt.Errorf("schedule: Grace is %v: want 0 or more", c.Grace))
	}
	return c, errors.Join(errs...)
}
