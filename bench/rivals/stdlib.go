package rivals

import (
	"runtime"
	"time"
)

// stdlibContender is Go's own timer: a 4-ary heap for each P, kept by the runtime. Reset is cheap when
// the deadline moves back, since the runtime then leaves the heap alone until the timer comes up. It
// cannot bound its callbacks, each of which gets a goroutine, and it cannot end all timers at once.
func stdlibContender() contender {
	return contender{
		name:    "time.AfterFunc",
		version: runtime.Version(),
		runs:    "a goroutine each",
		renews:  "Reset",
		lacks:   "a bound on running callbacks; a Close",
		open: func(s setup) *rival {
			return hold(s, library[*time.Timer]{
				arm:    func(_ int, d time.Duration, f func()) *time.Timer { return time.AfterFunc(d, f) },
				touch:  func(t *time.Timer, d time.Duration) { t.Reset(d) },
				cancel: func(t *time.Timer) { t.Stop() },
			})
		},
	}
}
