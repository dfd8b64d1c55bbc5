package rivals

import (
	"time"

	"github.com/antlabs/timer"
)

// antlabsContender is a five-level wheel like the one that Linux had, with a tick of 10 ms. It may be
// early by up to two ticks. It cannot bound its callbacks. Its Reset is not used: it takes the lock of
// the timer's slot, and while holding it the lock of the slot that the timer moves to, so it hangs for
// ever when the two are one, which with slots of 2.5 s happens at once.
func antlabsContender() contender {
	return contender{
		name:   "antlabs/timer",
		module: "github.com/antlabs/timer",
		runs:   "a goroutine each",
		renews: "Stop + AfterFunc",
		lacks:  "a Reset that does not hang; a bound on running callbacks",
		tick:   30 * time.Millisecond,
		open: func(s setup) *rival {
			wheel := timer.NewTimer()
			go wheel.Run()
			time.Sleep(20 * time.Millisecond) // until Run has read the clock; it has no other sign
			return hold(s, library[timer.TimeNoder]{
				arm:    func(_ int, d time.Duration, f func()) timer.TimeNoder { return wheel.AfterFunc(d, f) },
				cancel: func(t timer.TimeNoder) { t.Stop() },
			})
		},
	}
}
