package store_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/store"
)

const day = 24 * time.Hour

// What is removed for its age is what comes before an event that is too old, as far as nothing young is
// in between, whatever the times of single events say.
func TestPruneDisorder(t *testing.T) {
	now := time.Now()
	old, young, ahead, behind := now.Add(-day), now.Add(-time.Minute), now.Add(365*day), time.Unix(1000, 0)
	some := func(n int, at time.Time) []time.Time { return slices.Repeat([]time.Time{at}, n) }
	for _, c := range []struct {
		name   string
		times  [][]time.Time
		oldest uint64
	}{
		{"one is a year ahead", [][]time.Time{some(1, ahead), some(20, old), some(1, young)}, 22},
		{"and old ones before it", [][]time.Time{some(20, old), some(1, ahead), some(20, old), some(1, young)}, 42},
		{"many are ahead", [][]time.Time{some(1, old), some(12_000, ahead), some(2, old), some(1, young)}, 12_004},
		{"nothing follows those ahead", [][]time.Time{some(2, old), some(3, ahead)}, 3},
		{"nor in the next piece", [][]time.Time{some(2, old), some(6000, ahead)}, 3},
		{"young ones follow those ahead", [][]time.Time{some(2, old), some(6000, ahead), some(1, young)}, 3},
		{"the clock was behind for one", [][]time.Time{some(2, young), some(1, behind), some(2, young)}, 1},
		{"the clock was behind for the first", [][]time.Time{some(2, behind), some(2, young)}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachDatabase(t, store.Config{MaxAge: time.Hour}, func(t *testing.T, s *store.Store) {
				t.Helper()
				var events []liveness.Event
				for i, at := range slices.Concat(c.times...) {
					ev := device(uint32(i%100+1), strconv.Itoa(i%100+1), uint64(i/100+1), liveness.DeviceOnline)
					ev.Time = at
					events = append(events, ev)
				}
				appendAll(t, s, events...)
				if err := s.Prune(t.Context()); err != nil {
					t.Fatal(err)
				}
				if oldest, latest := s.Bounds(); oldest != c.oldest {
					t.Errorf("events %d to %d are kept, want %d and on", oldest, latest, c.oldest)
				}
			})
		})
	}
}

// A clock that is a month ahead for a while has nothing removed, also if the process begins with it.
func TestClockAhead(t *testing.T) {
	eachDatabase(t, store.Config{MaxAge: 10 * day}, func(t *testing.T, s *store.Store) {
		t.Helper()
		q := newQueue(t, s)
		check := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		appendAll(t, s, device(1, "dev-1", 1, liveness.DeviceOnline), device(1, "dev-1", 2, liveness.DeviceOffline))
		once := store.NewJob{Lane: lane, Unique: "once", JobBody: store.JobBody{Created: q.now}}
		first := q.enqueue(once)
		q.settle(store.Outcome{Job: q.claim(1).Jobs[0], Verdict: store.Dead})
		run := store.Run{ID: 99, Playbook: "p", Subject: "a", State: store.RunDone, Started: base, Ended: base}
		check(s.Runs().Save(t.Context(), []*store.RunChange{{Run: run}}))
		fireAt(t, s.Schedules(), putSchedule(t, s.Schedules(), daily("nightly")), base.Add(time.Hour), nil)
		claimed, err := s.Schedules().Claim(t.Context(), kinds, 1, "me", base.Add(time.Hour), time.Minute)
		check(err)
		if ok, err := s.Schedules().Finish(t.Context(), &claimed[0].ScheduleRun, store.ScheduleOutcome{State: store.ScheduleDone}, base.Add(time.Hour)); !ok || err != nil {
			t.Fatal(ok, err)
		}

		wall := func(ahead time.Duration) time.Time {
			now := time.Now().Add(ahead)
			s.SetWall(func() time.Time { return time.Now().Add(ahead) })
			return now
		}
		prune := func(when string, now time.Time) {
			t.Helper()
			check(s.Prune(t.Context()))
			if oldest, latest := s.Bounds(); oldest != 1 || latest != 2 {
				t.Errorf("%s: events %d to %d are kept, want 1 to 2", when, oldest, latest)
			}
			if n, err := s.Jobs().Sweep(t.Context(), store.Retention{Dead: 10, DeadAge: 10 * day, KeyAge: 2 * day}, now); n != 0 || err != nil {
				t.Errorf("%s: %d dead letters are removed, %v", when, n, err)
			}
			if again := q.enqueue(once); again != first {
				t.Errorf("%s: the idempotency key of job %d is not known any more: there is another, %d", when, first, again)
			}
			if n, err := s.Runs().Sweep(t.Context(), 10, 10*day, now); n != 0 || err != nil {
				t.Errorf("%s: %d runs of playbooks are removed, %v", when, n, err)
			}
			if n, err := s.Schedules().Forget(t.Context(), 10*day, now); n != 0 || err != nil {
				t.Errorf("%s: %d runs of schedules are removed, %v", when, n, err)
			}
		}
		for range 3 {
			prune("a month ahead", wall(30*day))
		}
		check(s.Close())
		reopen(t, s)
		prune("a month ahead at the start", wall(30*day))
		prune("and set right", wall(0))
		prune("years behind", wall(-20*365*day))
		prune("as long ago as can be", wall(math.MinInt64))
		prune("and set right again", wall(0))
		s.SetWall(func() time.Time { return farAhead })
		prune("as far ahead as can be", farAhead)
		wall(0)
		check(s.Close())
		reopen(t, s)
		prune("after another start", time.Now())
	})
}

// What is removed is told by time that has passed: twice as much of it becomes old at most, whatever the wall
// clock shows, unless that keeps pace for a day.
func TestSteadyClock(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	begun := time.Now()
	for range 200 {
		now, wall := begun, base
		c := store.NewSteadyClock(base, wall, now)
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
			s := store.NewSteadyClock(base.Add(-c.lag), wall, begun)
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
