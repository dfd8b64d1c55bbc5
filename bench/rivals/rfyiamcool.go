package rivals

import (
	"time"

	timewheel "github.com/rfyiamcool/go-timewheel"
)

// rfyiamcoolContender is a wheel of one level whose slots are maps, under one mutex. It cannot say
// whether a Remove came in time. Its Timer has a Reset, which leaves the old task in its slot and adds
// a new one, and the Timer costs a channel and a context more; Remove + Add is the cheaper way, and is
// used here.
func rfyiamcoolContender() contender {
	return contender{
		name:   "rfyiamcool/go-timewheel",
		module: "github.com/rfyiamcool/go-timewheel",
		runs:   "a goroutine each",
		renews: "Remove + Add",
		lacks:  "whether a cancel won; a bound on running callbacks",
		tick:   30 * time.Millisecond,
		open: func(s setup) *rival {
			wheel := must(timewheel.NewTimeWheel(wheelTick, wheelSlots))
			wheel.Start()
			return hold(s, library[*timewheel.Task]{
				arm:    func(_ int, d time.Duration, f func()) *timewheel.Task { return wheel.Add(d, f) },
				cancel: func(t *timewheel.Task) { _ = wheel.Remove(t) }, // it never fails
			})
		},
	}
}
