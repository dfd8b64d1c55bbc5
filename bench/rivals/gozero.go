package rivals

import (
	"time"

	"github.com/zeromicro/go-zero/core/collection"
	"github.com/zeromicro/go-zero/core/logx"
)

// Wheels of one level are given a tick of 10 ms and as many slots as the longest timeout has ticks, so
// that no timer needs a second turn. Smaller wheels would be slower.
const (
	wheelTick  = 10 * time.Millisecond
	wheelSlots = 10_000
)

// goZeroContender is the wheel inside go-zero's cache: keys, one goroutine that owns it, and a channel
// for each operation. The callbacks of one slot run one after the other on a goroutine of their own,
// so a slow one delays its neighbours. A timer whose deadline moves back keeps its place until it
// comes up. It may be early by two ticks.
func goZeroContender() contender {
	return contender{
		name:   "go-zero TimingWheel",
		module: "github.com/zeromicro/go-zero",
		runs:   "a goroutine for a slot",
		renews: "MoveTimer",
		lacks:  "a Close that waits; a bound on running callbacks",
		tick:   30 * time.Millisecond,
		open: func(s setup) *rival {
			logx.Disable()
			wheel := must(collection.NewTimingWheel(wheelTick, wheelSlots, func(key, _ any) { s.fire(key.(int)) }))
			// Errors are left out: there are some only for keys and times that are missing, and after Stop.
			return hold(s, library[int]{
				arm: func(i int, d time.Duration, _ func()) int {
					_ = wheel.SetTimer(i, nil, d)
					return i
				},
				touch:  func(key int, d time.Duration) { _ = wheel.MoveTimer(key, d) },
				cancel: func(key int) { _ = wheel.RemoveTimer(key) },
			})
		},
	}
}
