package rivals

import (
	"time"

	"github.com/holter-iot/holter/timer"
)

// holterContender is Holter's timer package with one handler for all timers, as its gateway uses it:
// the clock is read once for 256 operations. A timer is known by a number, and the caller keeps what
// belongs to it.
func holterContender() contender {
	return contender{
		name:   holterName,
		module: holterModule,
		runs:   "workers, in batches",
		renews: "Touch",
		lacks:  "deadlines finer than 131 µs",
		open: func(s setup) *rival {
			e := startEngine(s)
			group := must(e.Group(func(expired []timer.Expired) {
				for i := range expired {
					s.fire(int(expired[i].Data))
				}
			}))
			return e.hold(s, func(i int, d time.Duration, _ func()) timer.ID { return must(group.Arm(e.clock.now(), d, uint64(i))) })
		},
	}
}

// holterFuncContender is Holter's timer package used like time.AfterFunc.
func holterFuncContender() contender {
	c := holterContender()
	c.name, c.runs = holterFuncName, "workers"
	c.open = func(s setup) *rival {
		e := startEngine(s)
		return e.hold(s, func(_ int, d time.Duration, f func()) timer.ID { return must(e.AfterFunc(d, f)) })
	}
	return c
}

// engine is what both ways to use it have in common.
type engine struct {
	*timer.Engine

	clock sharedClock
}

func startEngine(s setup) *engine {
	e := &engine{Engine: must(timer.Start(timer.Config{Workers: s.workers}))}
	e.clock.read = e.Now
	return e
}

func (e *engine) hold(s setup, arm func(int, time.Duration, func()) timer.ID) *rival {
	r := hold(s, library[timer.ID]{
		arm:    arm,
		touch:  func(id timer.ID, _ time.Duration) { e.Touch(id, e.clock.now()) },
		cancel: func(id timer.ID) { e.Cancel(id) },
	})
	r.batch = e.clock.batch
	r.lateness = func() timer.Lateness { return e.Stats().Lateness }
	return r
}
