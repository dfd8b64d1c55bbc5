package rivals

import (
	"context"
	"time"

	"github.com/holter-iot/holter/timer"
)

// holterContender is Holter's timer package with one handler for all timers, as its gateway uses it: the clock is read once for
// 256 operations. A timer is known by a number; what belongs to it the caller keeps.
func holterContender() contender {
	return contender{
		name:   holterName,
		runs:   "workers, in batches",
		renews: "Touch",
		lacks:  "deadlines finer than 131 µs",
		open: func(s setup) (rival, error) {
			h := &holterGroup{ids: make([]timer.ID, s.n)}
			var err error
			if h.engine, err = timer.Start(timer.Config{Workers: s.workers}); err != nil {
				return nil, err
			}
			// The wall is read first, so that an instant on it is never put too early on the engine's clock.
			h.wall = time.Now()
			h.origin = h.engine.Now()
			h.group, err = h.engine.Group(func(expired []timer.Expired) {
				for i := range expired {
					s.fire(int(expired[i].Data))
				}
			})
			return h, err
		},
	}
}

type holterGroup struct {
	engine *timer.Engine
	group  *timer.Group
	ids    []timer.ID
	wall   time.Time
	origin time.Duration // what the engine's clock read at wall
	now    time.Duration // what it read when the batch began
	calls  uint
}

// clock reads the engine's clock at the first and then at each 256th call of a batch.
func (h *holterGroup) clock() time.Duration {
	if h.calls&255 == 0 {
		h.now = h.engine.Now()
	}
	h.calls++
	return h.now
}

func (h *holterGroup) batch() { h.calls = 0 }

func (h *holterGroup) arm(i int, d time.Duration) (err error) {
	h.ids[i], err = h.group.Arm(h.clock(), d, uint64(i))
	return err
}

func (h *holterGroup) armAt(i int, at time.Time) (err error) {
	h.ids[i], err = h.group.ArmAt(h.origin+at.Sub(h.wall), time.Second, uint64(i))
	return err
}

func (h *holterGroup) touch(i int, _ time.Duration) { h.engine.Touch(h.ids[i], h.clock()) }
func (h *holterGroup) cancel(i int)                 { h.engine.Cancel(h.ids[i]) }
func (h *holterGroup) swap(i, j int)                { h.ids[i], h.ids[j] = h.ids[j], h.ids[i] }
func (h *holterGroup) idBytes() int                 { return 8 }
func (h *holterGroup) close()                       { closeEngine(h.engine) }

func closeEngine(e *timer.Engine) {
	if err := e.Close(context.Background()); err != nil {
		panic(err) // its context has no end
	}
}

// lateness is how late the engine itself found timers due.
func (h *holterGroup) lateness() timer.Lateness { return h.engine.Stats().Lateness }

// holterFuncContender is Holter's timer package used like time.AfterFunc. arm may be called concurrently.
func holterFuncContender() contender {
	return contender{
		name:   holterFuncName,
		runs:   "workers",
		renews: "Touch",
		lacks:  "deadlines finer than 131 µs",
		open: func(s setup) (rival, error) {
			h := &holterFunc{setup: s, ids: make([]timer.ID, s.n)}
			var err error
			if h.engine, err = timer.Start(timer.Config{Workers: s.workers}); err != nil {
				return nil, err
			}
			h.wall = time.Now()
			h.origin = h.engine.Now()
			return h, nil
		},
	}
}

type holterFunc struct {
	setup

	engine *timer.Engine
	ids    []timer.ID
	wall   time.Time
	origin time.Duration
	now    time.Duration
	calls  uint
}

func (h *holterFunc) arm(i int, d time.Duration) (err error) {
	h.ids[i], err = h.engine.AfterFunc(d, h.callback(i))
	return err
}

func (h *holterFunc) armAt(i int, at time.Time) (err error) {
	h.ids[i], err = h.engine.AtFunc(h.origin+at.Sub(h.wall), h.callback(i))
	return err
}

func (h *holterFunc) touch(i int, _ time.Duration) {
	if h.calls&255 == 0 {
		h.now = h.engine.Now()
	}
	h.calls++
	h.engine.Touch(h.ids[i], h.now)
}

func (h *holterFunc) batch()                   { h.calls = 0 }
func (h *holterFunc) cancel(i int)             { h.engine.Cancel(h.ids[i]) }
func (h *holterFunc) swap(i, j int)            { h.ids[i], h.ids[j] = h.ids[j], h.ids[i] }
func (h *holterFunc) idBytes() int             { return 8 }
func (h *holterFunc) close()                   { closeEngine(h.engine) }
func (h *holterFunc) lateness() timer.Lateness { return h.engine.Stats().Lateness }
