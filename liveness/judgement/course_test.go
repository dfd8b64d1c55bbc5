package judgement

import (
	"testing"
	"time"
)

// What a database holds of a course may be damaged: it is no reason to end.
func TestDamagedCourse(t *testing.T) {
	at := time.Date(2026, time.January, 5, 0, 0, 0, 0, time.UTC)
	for _, turns := range [][]Turn{
		{{At: at, Until: at.Add(time.Hour)}},
		{{Listened: 5 * time.Minute, At: at}, {Listened: time.Minute, At: at.Add(-time.Hour), Until: at}},
	} {
		var c Course
		c.Restore(turns, time.Hour, at.Add(2*time.Hour))
		for listened := time.Duration(0); listened < 2*time.Hour; listened += time.Minute {
			c.At(listened)
			c.Knows(listened)
		}
		by := Pace{Course: c.Since(0), quiet: quiet{{days: 1, to: time.Hour, zone: time.UTC}}}
		by.Counts(0, 2*time.Hour)
	}
}
