package liveness

import (
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/liveness/judgement"
)

// TestGroupRecount lets devices of a group fall silent, come back, say goodbye, go into maintenance
// and be forgotten. After each step the group's counts equal those of a new process that restores
// the devices' and the outage's records.
func TestGroupRecount(t *testing.T) {
	type member struct {
		judgement.Standing

		since int64
	}
	standings := map[string]judgement.Standing{
		"online": {Member: true}, "silent": {Member: true, Silent: true}, "maintained": {Member: true}, "gone": {},
	}
	rapid.Check(t, func(t *rapid.T) {
		config := GroupConfig{Name: "g", Match: "*", Outage: OutageConfig{Share: 0.3, Window: time.Minute, MinDevices: 2}}
		g, out := newGroup(config), newOutbox(1<<20, newClock())
		g.complete(0, out)
		members := make([]member, 8)
		now := int64(1_000_000 * time.Second)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			now += int64(rapid.SampledFrom([]time.Duration{0, time.Second, 7 * time.Second, 40 * time.Second, time.Hour}).Draw(t, "pause"))
			m := &members[rapid.IntRange(0, len(members)-1).Draw(t, "device")]
			was := *m
			m.Standing = standings[rapid.SampledFrom([]string{"online", "silent", "maintained", "gone"}).Draw(t, "becomes")]
			if rapid.Bool().Draw(t, "state changed") || !was.Member {
				m.since = now
			}
			g.change(was.Standing, was.since, m.Standing, m.since, now, out)

			anew := newGroup(config)
			anew.restore(keep.GroupRecord{Name: "g", Outage: g.counts.On, From: time.Unix(0, g.counts.From)})
			belong, silent := 0, 0
			for _, m := range members {
				anew.count(1, m.Standing, m.since, now)
				if m.Silent {
					silent++
					if m.since >= g.counts.From {
						belong++
					}
				}
			}
			if anew.counts != g.counts || g.counts.Silent != silent {
				t.Fatalf("counted: %+v, %d are silent; counted anew: %+v", g.counts, silent, anew.counts)
			}
			if g.counts.On && (g.counts.Fallen != belong || float64(belong) <= 0.15*float64(g.counts.Members)) {
				t.Fatalf("an outage of %d of %d devices, counted %d", belong, g.counts.Members, g.counts.Fallen)
			}
			if !g.counts.On && g.counts.Fallen != 0 {
				t.Fatalf("no outage, and %d devices belong to it", g.counts.Fallen)
			}
		}
	})
}

// The steady time goes on after a restart, and is shown by the wall clock as it is set now.
func TestSteady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newClock()
		start := time.Now()
		if s.steady() != start.UnixNano() {
			t.Errorf("it begins %v from the wall clock", time.Duration(s.steady()-start.UnixNano()))
		}
		hour := int64(time.Hour)
		future := start.UnixNano() + hour // the wall clock was set back by an hour before the process started
		if got := s.restored(future); got != future || s.steady() != future {
			t.Errorf("restored gives %d, and it reads %d then, want %d", got, s.steady(), future)
		}
		time.Sleep(time.Minute)
		if got := s.steady() - future; got != int64(time.Minute) {
			t.Errorf("a minute later it went on by %v", time.Duration(got))
		}
		if got := s.wall(future); !got.Equal(start) {
			t.Errorf("what was kept is told as %v, want %v", got, start)
		}
		for _, tt := range []struct{ kept, want int64 }{
			{-5, 0}, {0, 0}, {future - 7, future - 7}, {1 << 62, s.steady()}, {s.steady() + int64(400*24*time.Hour), s.steady()},
		} {
			if got := s.restored(tt.kept); got != tt.want {
				t.Errorf("restored(%d) = %d, want %d", tt.kept, got, tt.want)
			}
		}
		if got := s.steady() - future; got != int64(time.Minute) {
			t.Errorf("what is beyond all reason moved it: %v", time.Duration(got))
		}
	})
}

// All devices of a group are counted anew while some fall silent. Those that do after the count has begun belong
// to the outage as well.
func TestGroupFallsWhileCounted(t *testing.T) {
	const begun = int64(1_000_000 * time.Second)
	out := newOutbox(1<<20, newClock())
	g := newGroup(GroupConfig{Name: "g", Match: "*", Outage: OutageConfig{Share: 0.5, Window: time.Minute, MinDevices: 4}})
	g.counting = true
	for i := range 8 {
		fell := begun + int64(time.Duration(10+i)*time.Second)
		g.count(1, judgement.Standing{Member: true, Silent: i < 4}, fell, begun)
	}
	g.counted(true, begun+int64(20*time.Second), out)
	if !g.counts.On || g.counts.Fallen != 4 {
		t.Errorf("%+v; 4 of 8 have fallen silent within 4 s", g.counts)
	}
}
