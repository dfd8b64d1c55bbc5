package store_test

import (
	"math"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/liveness"
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
		{"many are ahead", [][]time.Time{some(1, old), some(10_100, ahead), some(2, old), some(1, young)}, 10_104},
		{"nothing follows those ahead", [][]time.Time{some(2, old), some(3, ahead)}, 3},
		{"nor in the next piece", [][]time.Time{some(2, old), some(5100, ahead)}, 3},
		{"young ones follow those ahead", [][]time.Time{some(2, old), some(5100, ahead), some(1, young)}, 3},
		{"the clock was behind for one", [][]time.Time{some(2, young), some(1, behind), some(2, young)}, 1},
		{"the clock was behind for the first", [][]time.Time{some(2, behind), some(2, young)}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachDatabase(t, config{MaxAge: time.Hour}, func(t *testing.T, s *store.Store) {
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
	var wallClock atomic.Pointer[func() time.Time]
	show := func(clock func() time.Time) { wallClock.Store(&clock) }
	cfg := config{MaxAge: 10 * day, Wall: func() time.Time { return (*wallClock.Load())() }}
	show(time.Now)
	eachDatabase(t, cfg, func(t *testing.T, s *store.Store) {
		t.Helper()
		check := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		appendAll(t, s, device(1, "dev-1", 1, liveness.DeviceOnline), device(1, "dev-1", 2, liveness.DeviceOffline))

		wall := func(ahead time.Duration) { show(func() time.Time { return time.Now().Add(ahead) }) }
		prune := func(when string) {
			t.Helper()
			check(s.Prune(t.Context()))
			if oldest, latest := s.Bounds(); oldest != 1 || latest != 2 {
				t.Errorf("%s: events %d to %d are kept, want 1 to 2", when, oldest, latest)
			}
		}
		for range 3 {
			wall(30 * day)
			prune("a month ahead")
		}
		check(s.Close())
		reopen(t, s)
		wall(30 * day)
		prune("a month ahead at the start")
		wall(0)
		prune("and set right")
		wall(-20 * 365 * day)
		prune("years behind")
		wall(math.MinInt64)
		prune("as long ago as can be")
		wall(0)
		prune("and set right again")
		show(func() time.Time { return farAhead })
		prune("as far ahead as can be")
		wall(0)
		check(s.Close())
		reopen(t, s)
		prune("after another start")
	})
}
