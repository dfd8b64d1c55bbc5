package rivals

import (
	"sync/atomic"
	"time"
)

const baselineName = "one compare-and-swap on a random word"

// baselineContender is no timer but the least that a heartbeat can cost: one compare-and-swap on an
// eight-byte word that is found through a table of ids.
func baselineContender() contender {
	return contender{
		name: baselineName,
		open: func(s setup) *rival {
			words := make([]atomic.Uint64, s.n)
			return hold(s, library[uint64]{
				arm: func(i int, _ time.Duration, _ func()) uint64 { return uint64(i) },
				touch: func(id uint64, _ time.Duration) {
					old := words[id].Load()
					words[id].CompareAndSwap(old, old+1)
				},
				cancel: func(uint64) {},
			})
		},
	}
}
