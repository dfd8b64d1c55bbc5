package rivals

import (
	"context"
	"time"

	"github.com/holter-iot/holter/timer"
)

// holterContender is Holter's timer package with one handler for all timers, as its gateway uses it: the clock is read once for
// 256 operations. A timer is known by a number, and the caller keeps what belongs to it.
func holterContender() contender {
	return contender{
		name:   holterName,
		runs:   "workers, in batches",
		renews: "Touch",
		lacks:  "deadlines finer than 131 µs",
		open: func(s setup) (rival, error) {
			e, err := startHolter(s)
			if err != nil {
				return nil, err
			}
			h := &holterGroup{holterEngine: e}
			h.group, err = e.engine.Group(func(expired []timer.Expired) {
				for i := range expired {
					s.fire(int(expired[i].Data))
				}
			})
			return h, err
		},
	}
}

// holterEngine is an engine with a table of ids, and what both ways to use it have in common.
type holterEngine struct {
	engine *timer.Engine
	ids    []timer.ID
	wall   time.Time
	origin time.Duration // what the engine's clock read at wall
	now    time.Duration // what it read when the batch began
	calls  uint
}

func startHolter(s setup) (*holterEngine, error) {
	engine, err := timer.Start(timer.Config{Workers: s.workers})
	if err != nil {
		return nil, err
	}
	// The wall clock is read first, so that an instant of it is never too early on the engine's clock.
	wall := time.Now()
	return &holterEngine{engine: engine, ids: make([]timer.ID, s.n), wall: wall, origin: engine.Now()}, nil
}

// clock reads the engine's clock at the first and then at each 256th call of a batch.
func (h *holterEngine) clock() time.Duration {
	if h.calls&255 == 0 {
		h.now = h.engine.Now()
	}
	h.calls++
	return h.now
}

// instant returns an instant on the engine's clock.
func (h *holterEngine) instant(at time.Time) time.Duration { return h.origin + at.Sub(h.wall) }

func (h *holterEngine) batch()                       { h.calls = 0 }
func (h *holterEngine) touch(i int, _ time.Duration) { h.engine.Touch(h.ids[i], h.clock()) }
func (h *holterEngine) cancel(i int)                 { h.engine.Cancel(h.ids[i]) }
func (h *holterEngine) swap(i, j int)                { h.ids[i], h.ids[j] = h.ids[j], h.ids[i] }
func (h *holterEngine) idBytes() int                 { return 8 }

func (h *holterEngine) close() {
	if err := h.engine.Close(context.Background()); err != nil {
		panic(err) // its context has no end
	}
}

// lateness is how late the engine itself found timers due.
func (h *holterEngine) lateness() timer.Lateness { return h.engine.Stats().Lateness }

type holterGroup struct {
	*holterEngine

	group *timer.Group
}

func (h *holterGroup) arm(i int, d time.Duration) (err error) {
	h.ids[i], err = h.group.Arm(h.clock(), d, uint64(i))
	return err
}

func (h *holterGroup) armAt(i int, at time.Time) (err error) {
	h.ids[i], err = h.group.ArmAt(h.instant(at), time.Second, uint64(i))
	return err
}

// holterFuncContender is Holter's timer package used like time.AfterFunc. arm may be called concurrently.
func holterFuncContender() contender {
	return contender{
		name:   holterFuncName,
		runs:   "workers",
		renews: "Touch",
		lacks:  "deadlines finer than 131 µs",
		open: func(s setup) (rival, error) {
			e, err := startHolter(s)
			return &holterFunc{holterEngine: e, setup: s}, err
		},
	}
}

type holterFunc struct {
	*holterEngine
	setup
}

func (h *holterFunc) arm(i int, d time.Duration) (err error) {
	h.ids[i], err = h.engine.AfterFunc(d, h.callback(i))
	return err
}

func (h *holterFunc) armAt(i int, at time.Time) (err error) {
	h.ids[i], err = h.engine.AtFunc(h.instant(at), h.callback(i))
	return err
}
