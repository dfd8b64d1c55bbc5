// Package watermark decides when the listening clock of a source is moved.
//
// The clock of a source follows its watermark: all that had reached the source before an instant
// has been handled. How that is found out differs between inputs: a marker through each event loop,
// the emptiness of a socket, a message that a bridge sends to itself. When it is to be found out
// does not: when a deadline can be reached, but no more often than the input bears, and now and
// then if no deadline is near. That is what a [Loop] does.
package watermark

import (
	"context"
	"time"
)

// Idle is the time between two pulses while no deadline is near.
const Idle = 200 * time.Millisecond

// Source is what a loop must know of a source. A *liveness.Source is one.
type Source interface {
	// Next returns the listening time of the earliest deadline, and false if there is none.
	Next() (time.Duration, bool)
	// Sooner returns a channel that receives when the earliest deadline has become an earlier one.
	Sooner() <-chan struct{}
}

// Loop calls Pulse and Advance when they are due. Both are called by the goroutine of [Loop.Run],
// and must not block: no deadline of the source passes while they do.
type Loop struct {
	Source Source
	// Pulse tells the source that it listens, and begins to find out what has been handled. It
	// returns the listening time at now.
	Pulse func(now time.Time) (listened time.Duration, err error)
	// Advance goes on with what Pulse began. It is called whenever the loop wakes, and returns
	// after how long it is to be called again at the latest; 0 if it waits for nothing. Default:
	// nothing is to be advanced.
	Advance func(now time.Time) (again time.Duration, err error)
	// Wake receives when Advance has something to do. Default: nil, never.
	Wake <-chan struct{}
	// Least is the least time between two pulses. Pulse and Advance may change it.
	Least time.Duration
	// Lag is how far the clock stays behind the pulse that moves it. Pulse and Advance may change
	// it.
	Lag time.Duration
}

// Run keeps the clock until ctx is done, and returns nil then; or until Pulse or Advance fails, and
// returns that error.
func (l *Loop) Run(ctx context.Context) error {
	alarm := time.NewTimer(0)
	defer alarm.Stop()
	var last time.Time
	var listened, pause time.Duration
	for {
		select {
		case <-alarm.C:
		case <-l.Wake:
		case <-l.Source.Sooner():
		case <-ctx.Done():
			return nil
		}
		now := time.Now()
		if now.Sub(last) >= pause {
			var err error
			if listened, err = l.Pulse(now); err != nil {
				return err
			}
			last = now
		}
		again := time.Duration(0)
		if l.Advance != nil {
			var err error
			if again, err = l.Advance(now); err != nil {
				return err
			}
		}
		pause = l.pause(listened)
		wait := time.Until(last.Add(pause))
		if again > 0 {
			wait = min(wait, again)
		}
		alarm.Reset(wait)
	}
}

// pause returns how long after the pulse of a listening time the next is due.
func (l *Loop) pause(listened time.Duration) time.Duration {
	pause := Idle
	if next, ok := l.Source.Next(); ok {
		pause = min(pause, next+l.Lag-listened)
	}
	return max(pause, l.Least)
}
