package rivals

import (
	"time"

	"github.com/zeromicro/go-zero/core/collection"
	"github.com/zeromicro/go-zero/core/logx"
)

// Wheels of one level are given a tick of 10 ms and as many slots as the longest timeout has ticks, so that no timer needs a
// second turn. Smaller wheels would be slower.
const (
	wheelTick  = 10 * time.Millisecond
	wheelSlots = 10_000
)

// goZeroContender is the wheel inside go-zero's cache: keys, one goroutine that owns it, and a channel for each operation. The
// callbacks of one slot run one after the other on a goroutine of their own, so a slow one delays its neighbours. A timer whose
// deadline moves back keeps its place until it comes up. It may be early by two ticks.
func goZeroContender() contender {
	return contender{
		name:   "go-zero TimingWheel",
		module: "github.com/zeromicro/go-zero",
		runs:   "a goroutine for a slot",
		renews: "MoveTimer",
		lacks:  "a Close that waits; a bound on running callbacks",
		tick:   30 * time.Millisecond,
		open: func(s setup) (rival, error) {
			logx.Disable()
			wheel, err := collection.NewTimingWheel(wheelTick, wheelSlots, func(key, _ any) { s.fire(key.(int)) })
			if err != nil {
				return nil, err
			}
			w := &goZero{wheel: wheel, keys: make([]int, s.n)}
			for i := range w.keys {
				w.keys[i] = i
			}
			return w, nil
		},
	}
}

type goZero struct {
	wheel *collection.TimingWheel
	keys  []int
}

func (w *goZero) arm(i int, d time.Duration) error { return w.wheel.SetTimer(w.keys[i], nil, d) }

func (w *goZero) touch(i int, d time.Duration) {
	if err := w.wheel.MoveTimer(w.keys[i], d); err != nil {
		panic(err) // it fails only when it is closed
	}
}

func (w *goZero) cancel(i int) {
	if err := w.wheel.RemoveTimer(w.keys[i]); err != nil {
		panic(err)
	}
}

func (w *goZero) swap(i, j int) { w.keys[i], w.keys[j] = w.keys[j], w.keys[i] }
func (w *goZero) idBytes() int  { return 8 }
func (w *goZero) close()        { w.wheel.Stop() }
