package liveness_test

import (
	"testing"
	"time"

	"github.com/holter-iot/holter/liveness"
)

// What was heard in a gap counts from where listening time stood still, what was heard before from
// when it was.
func TestPast(t *testing.T) {
	inRig(t, liveness.Config{}, liveness.SourceConfig{}, func(r *rig) {
		listenWith(10*unit, r.source)
		time.Sleep(20 * unit) // of which one counts
		listenWith(5*unit, r.source)
		const tolerance = 50 * time.Millisecond
		want := func(all map[time.Duration]time.Duration) {
			past := r.source.Owner().Past(time.Now())
			for age, want := range all {
				if got := past.At(age); got != want {
					t.Errorf("%g ago the time was %g, want %g", inUnits(age), inUnits(got), inUnits(want))
				}
			}
		}
		want(map[time.Duration]time.Duration{
			-unit: 16 * unit, 0: 16 * unit, 5 * unit: 11 * unit, 7 * unit: 11 * unit, 23 * unit: 11 * unit,
			26 * unit: 9*unit + tolerance, 35 * unit: tolerance, 1000 * unit: tolerance,
		})
		time.Sleep(3 * unit) // a gap that goes on
		want(map[time.Duration]time.Duration{
			0: 17 * unit, 2 * unit: 17 * unit, 2*unit + step: 17*unit - step, 3 * unit: 16 * unit, 4 * unit: 15 * unit, 8 * unit: 11 * unit, 9 * unit: 11 * unit,
		})
	})
}
