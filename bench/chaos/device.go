package chaos

import (
	"math"
	"time"

	"github.com/holter-iot/holter/loadgen/drive"
	"github.com/holter-iot/holter/loadgen/plan"
)

// Device is the truth about a device.
type Device struct {
	drive.Journal

	ID  string
	TTL time.Duration // as it announces it
	// Steps are what it was ordered to do and did, in order. A device without a connection does
	// nothing that the server could notice: it was Silent.
	Steps []plan.Truth
}

// Lags are delays in ascending order.
type Lags []time.Duration

// Percentile returns the smallest lag that at least p percent of the lags do not exceed (nearest
// rank); 0 if there are none.
func (l Lags) Percentile(p float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	rank := int(math.Ceil(p / 100 * float64(len(l))))
	return l[min(max(rank, 1), len(l))-1]
}

// stepsOf returns the truth about each of n devices, whose instants end up in order.
func stepsOf(truths []plan.Truth, n int) [][]plan.Truth {
	all := make([][]plan.Truth, n)
	for _, t := range truths {
		switch {
		case t.Kind == plan.Lost, !t.Back.IsZero(): // not on purpose, or told a second time
			continue
		case !t.Connected || t.Kind == plan.Crash:
			t.Kind = plan.Silent
		}
		all[t.Device] = append(all[t.Device], t)
	}
	return all
}
