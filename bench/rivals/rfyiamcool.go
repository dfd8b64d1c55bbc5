package rivals

import (
	"time"

	timewheel "github.com/rfyiamcool/go-timewheel"
)

// rfyiamcoolContender is a wheel of one level whose slots are maps, under one mutex. It cannot say whether a Remove came in time.
// Its Timer has a Reset, which leaves the old task in its slot and adds a new one, and the Timer costs a channel and a context
// more; Remove + Add is the cheaper way, and is used here.
func rfyiamcoolContender() contender {
	return contender{
		name:   "rfyiamcool/go-timewheel",
		module: "github.com/rfyiamcool/go-timewheel",
		runs:   "a goroutine each",
		renews: "Remove + Add",
		lacks:  "whether a cancel won; a bound on running callbacks",
		tick:   30 * time.Millisecond,
		open: func(s setup) (rival, error) {
			wheel, err := timewheel.NewTimeWheel(wheelTick, wheelSlots)
			if err != nil {
				return nil, err
			}
			wheel.Start()
			return &rfyiamcool{setup: s, wheel: wheel, tasks: make([]*timewheel.Task, s.n)}, nil
		},
	}
}

type rfyiamcool struct {
	setup

	wheel *timewheel.TimeWheel
	tasks []*timewheel.Task
}

func (w *rfyiamcool) arm(i int, d time.Duration) error {
	w.tasks[i] = w.wheel.Add(d, w.callback(i))
	return nil
}

func (w *rfyiamcool) touch(i int, d time.Duration) {
	w.cancel(i)
	w.tasks[i] = w.wheel.Add(d, w.callback(i))
}

func (w *rfyiamcool) cancel(i int) {
	if err := w.wheel.Remove(w.tasks[i]); err != nil {
		panic(err) // it never fails
	}
}

func (w *rfyiamcool) swap(i, j int) { w.tasks[i], w.tasks[j] = w.tasks[j], w.tasks[i] }
func (w *rfyiamcool) idBytes() int  { return 8 }
func (w *rfyiamcool) close()        { w.wheel.Stop() }
