package timer

import (
	"iter"
	"time"

	"github.com/holter-iot/holter/dualmap"
)

// Left yields what a block of a [Config.Memory] holds of the timers of a process that was killed: for each one with a period its data
// and the instant that [Engine.Touched] would have returned, which is not before that of any touch that had returned true. A timer that had
// expired is among them until its handler has returned, with its last touch; one that was cancelled is not. Who replaces a timer by another
// one arms the new one first, then neither instant finds none. A timer that was being Reset when the process was killed may be yielded
// with its deadline of before and its period of after.
//
// Timers without a period, and those whose touches mean nothing because a callback with a fixed delay was running, are left out. Left copes
// with any content and length of the block, but what it yields then means nothing.
func Left(block []byte) iter.Seq2[uint64, time.Duration] {
	return func(yield func(data uint64, touched time.Duration) bool) {
		for e := range dualmap.Scan(block) {
			if unpackPeriod(e.Param) == 0 || e.Value > maxTick {
				continue
			}
			if !yield(e.Data, touchedAt(e.Value, e.Param)) {
				return
			}
		}
	}
}
