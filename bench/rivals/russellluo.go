package rivals

import (
	"time"

	"github.com/RussellLuo/timingwheel"
)

// russellLuoContender is a hierarchy of timing wheels like Kafka's, driven by a queue of the slots
// that are in use. Deadlines are cut off to milliseconds, so it may be early by one tick. It cannot
// renew a timer, and cannot bound its callbacks.
func russellLuoContender() contender {
	return contender{
		name:   "RussellLuo/timingwheel",
		module: "github.com/RussellLuo/timingwheel",
		runs:   "a goroutine each",
		renews: "Stop + AfterFunc",
		lacks:  "a renewal; a bound on running callbacks",
		tick:   2 * time.Millisecond,
		open: func(s setup) *rival {
			// Two levels, for timeouts of up to four minutes; more and smaller ones are slower.
			wheel := timingwheel.NewTimingWheel(time.Millisecond, 512)
			wheel.Start()
			return hold(s, library[*timingwheel.Timer]{
				arm:    func(_ int, d time.Duration, f func()) *timingwheel.Timer { return wheel.AfterFunc(d, f) },
				cancel: func(t *timingwheel.Timer) { t.Stop() },
			})
		},
	}
}
