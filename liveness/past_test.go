package liveness_test

import (
	"testing"
	"time"

	"github.com/holter-iot/holter/liveness"
)

// What was heard in a gap counts from where listening time stood still, what was heard before from
// when it was.
func TestTimeAt(t *testing.T) {
	inRig(t, liveness.Config{}, liveness.SourceConfig{}, func(r *rig) {
		listenWith(10*unit, r.source)
		time.Sleep(20 * unit) // of which one counts
		listenWith(5*unit, r.source)
		if now, since := inUnits(r.source.Time(time.Now())), inUnits(r.source.Since()); now != 16 || since != 11 {
			t.Errorf("the time is %g, it goes on since %g, want 16 and 11", now, since)
		}
		const tolerance = 50 * time.Millisecond
		for age, want := range map[time.Duration]time.Duration{
			-unit: 16 * unit, 0: 16 * unit, 5 * unit: 11 * unit, 7 * unit: 11 * unit, 23 * unit: 11 * unit,
			26 * unit: 9*unit + tolerance, 35 * unit: tolerance, 1000 * unit: tolerance,
		} {
			if got := r.source.TimeAt(time.Now(), age); got != want {
				t.Errorf("TimeAt(%g ago) = %g, want %g", inUnits(age), inUnits(got), inUnits(want))
			}
		}
	})
}
