package timer

import (
	"iter"
	"time"

	"github.com/holter-iot/holter/dualmap"
)

// Left yields the timers with a period that a block of a [Config.Memory] holds after a process was
// killed: the data of each, and the instant that [Engine.Touched] would have returned, which is not
// before that of any touch that had returned true. A timer that had expired is among them, with its
// last touch, until its handler has returned; a timer that was cancelled is not. To replace a timer
// without an instant at which neither is there, arm the new one first. A timer that was being Reset
// when the process was killed may be yielded with the deadline from before and the period from
// after.
//
// Timers without a period are left out, and so are those whose touches mean nothing because a
// callback with a fixed delay was running. Left accepts any content and length of the block, but
// what it yields then means nothing.
func Left(block []byte) iter.Seq2[uint64, time.Duration] {
	return func(yield func(data uint64, touched time.Duration) bool) {
		for e := range dualmap.Scan(block) {
			if unpackPeriod(e.Param) == 0 || e.Value > maxTick {
				continue
			}
			if !yield(e.Data, coarsest.touchedAt(e.Value, e.Param)) {
				return
			}
		}
	}
}
