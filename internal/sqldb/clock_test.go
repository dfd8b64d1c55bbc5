package sqldb_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/test/testdb"
)

const day = 24 * time.Hour

// What is removed is told by time that has passed: twice as much of it becomes old at most, whatever the wall
// clock shows, unless that keeps pace for a day.
func TestSteadyClock(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	begun := time.Now()
	for range 200 {
		now, wall := begun, base
		c := sqldb.NewSteadyClock(base, wall, now)
		kept := now // when the wall clock jumped last
		for now.Sub(begun) < 90*day {
			d := time.Duration(random.Int64N(int64(2 * time.Hour)))
			now, wall = now.Add(d), wall.Add(d)
			if jump := now.Sub(kept) > 20*time.Hour || random.IntN(4) == 0; jump {
				wall, kept = wall.Add(time.Duration(random.Int64N(int64(800*day)))-300*day), now
			}
			shown, old := c.Look(wall, now)
			if most := base.Add(2 * now.Sub(begun)); old.After(most) || shown.After(most) || old.After(wall) {
				t.Fatalf("after %v: %v old, with a wall clock at %v: want %v at most", now.Sub(begun), old.Sub(base), wall.Sub(base), most.Sub(base))
			}
		}
	}
}

// The steady clock comes up with a wall clock that is right.
func TestSteadyClockFollows(t *testing.T) {
	for _, c := range []struct {
		name  string
		lag   time.Duration // of the steady clock at the beginning, behind the wall clock
		after time.Duration // it has come up
		steps time.Duration // the wall clock is set by that so often that it is not trusted
	}{
		{"it never lagged", 0, time.Second, 0},
		{"after an hour in which nothing ran", time.Hour, 61 * time.Minute, 0},
		{"after months, in a day", 100 * day, day + time.Minute, 0},
		{"since 1970, in a day", 56 * 365 * day, day + time.Minute, 0},
		{"it was ahead, as the wall clock was in its first life", -365 * day, day + time.Minute, 0},
		{"with a wall clock that is never trusted", 10 * day, 10*day + 13*time.Hour, 2 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			begun := time.Now()
			wall := base
			s := sqldb.NewSteadyClock(base.Add(-c.lag), wall, begun)
			var shown, old time.Time
			for d := time.Duration(0); d < c.after; d += 5 * time.Second {
				wall = base.Add(d)
				if d/(12*time.Hour)%2 == 1 {
					wall = wall.Add(-c.steps)
				}
				shown, old = s.Look(wall, begun.Add(d))
			}
			if !shown.Equal(wall) || !old.Equal(wall) {
				t.Errorf("after %v it shows %v, and tells age by %v, want %v", c.after, shown, old, wall)
			}
		})
	}
}

// The clock is that of the database, which in the tests is that of this machine.
func TestClock(t *testing.T) {
	for _, db := range testdb.Databases() {
		t.Run("db="+db.Name, func(t *testing.T) {
			db := open(t, db.URL(t))
			before := time.Now()
			now, err := db.Clock(t.Context())
			if after := time.Now(); err != nil || now.Before(before.Add(-2*time.Millisecond)) || now.After(after.Add(2*time.Millisecond)) {
				t.Errorf("Clock = %v, %v, want %v to %v", now, err, before, after)
			}
		})
	}
}
