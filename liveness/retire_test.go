package liveness_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/liveness"
)

// orphans restores a source that is not added, with devices that it heard, beside others that are.
func orphans(r *rig, name string, silence time.Duration, policies ...liveness.Policy) {
	r.Helper()
	const listened = 1000 * unit
	if err := r.registry.Keeper().RestoreSource(keep.SourceRecord{Name: name, Listened: listened, At: time.Now().Add(-unit)}); err != nil {
		r.Fatal(err)
	}
	for i, p := range policies {
		err := r.registry.Keeper().Restore(keep.Record{
			Num: uint32(i + 1), ID: name + "/" + string(rune('a'+i)), State: liveness.Online, Source: name,
			Last: listened - silence, Seq: 1, Announced: p,
		})
		if err != nil {
			r.Fatal(err)
		}
	}
}

// The devices of a source that is not configured any more are judged by the clock of others, after
// their grace, with the silence that they had.
func TestRetire(t *testing.T) {
	for _, tt := range []struct {
		name, source string
		byHand       bool
	}{
		{"of the same kind", "edge:old", false},
		{"of another kind", "gone", false},
		{"by hand", "edge:old", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := liveness.Config{RetireAfter: time.Minute}
			inRig(t, cfg, liveness.SourceConfig{Name: "edge:new"}, func(r *rig) {
				vouched := liveness.Policy{Timeout: liveness.Never}
				orphans(r, tt.source, 5*unit, liveness.Policy{Timeout: 40 * time.Second, Interval: 5 * time.Second}, vouched)
				if err := r.registry.Operator().Retire("edge:new"); !errors.Is(err, liveness.ErrSourceInUse) {
					r.Errorf("Retire of a source in use = %v", err)
				}
				if err := r.registry.Operator().Retire("nobody"); !errors.Is(err, liveness.ErrUnknownSource) {
					r.Errorf("Retire of an unknown source = %v", err)
				}
				if tt.byHand {
					if err := r.registry.Operator().Retire(tt.source); err != nil {
						r.Error(err)
					}
				} else {
					r.listen(59 * time.Second)
					if v := r.registry.Sources()[1].View(); !v.Absent || v.Retired {
						r.Errorf("before its time: %+v", v)
					}
					r.wantState(tt.source+"/a", liveness.Unknown)
					r.listen(2 * time.Second)
				}
				if v := r.registry.Sources()[1].View(); !v.Absent || !v.Retired {
					r.Errorf("retired: %+v", v)
				}
				r.listen(12 * time.Second)
				r.wantState(tt.source+"/a", liveness.Unknown)
				time.Sleep(time.Hour) // nobody listens
				r.wantState(tt.source+"/a", liveness.Unknown)
				r.listen(40 * time.Second)
				r.wantState(tt.source+"/a", liveness.Offline)
				if v := r.device(tt.source + "/a"); v.Reason != liveness.Silence || v.LastSeen.IsZero() || v.HeardSilence < 40*time.Second {
					r.Errorf("%+v", v)
				}
				r.listen(60 * time.Second)
				r.wantState(tt.source+"/b", liveness.Offline) // nobody vouches for it any more
			})
		})
	}
}

// A source that comes back after it was retired goes on with its own clock, and its devices have
// their grace.
func TestRetiredComesBack(t *testing.T) {
	inRig(t, liveness.Config{RetireAfter: time.Second}, liveness.SourceConfig{}, func(r *rig) {
		orphans(r, "old", 0, liveness.Policy{Timeout: 60 * time.Second, Interval: time.Second})
		r.listen(30 * time.Second)
		again := r.addSource(liveness.SourceConfig{Name: "old"})
		v := again.View()
		if v.Absent || v.Retired || v.Missed != 0 {
			r.Errorf("%+v", v)
		}
		r.listen(60 * time.Second)
		r.wantState("old/a", liveness.Unknown)
		if now := again.Now(); now > v.Listened+time.Second {
			r.Errorf("the clock went on from %v to %v although the source did not listen", v.Listened, now)
		}
	})
}

// The time for which a source was missed is kept, so that no crash loop puts its retirement off.
func TestMissedIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, origin := newShelf(t), time.Now()
		k.sources["old"] = keep.SourceRecord{Name: "old", Listened: time.Minute, At: origin.Add(-time.Minute)}
		for range 10 {
			l := begin(t, k, liveness.Config{RetireAfter: time.Minute}, origin)
			l.listen(8 * time.Second)
			k.checkpoint(l.registry)
			l.stop()
		}
		l := begin(t, k, liveness.Config{RetireAfter: time.Minute}, origin)
		defer func() { l.stop() }()
		l.listen(time.Second)
		for _, s := range l.registry.Sources() {
			if v := s.View(); s.Name() == "old" && !v.Retired {
				t.Errorf("%+v", v)
			}
		}
	})
}

// A source that is awaited, and that an operator retires just when it is added, is in use in the end.
func TestRetireWhileAdded(t *testing.T) {
	const sources = 300
	inPool(t, liveness.Config{}, func(p *pooled) {
		for i := range sources {
			orphans(p.rig, fmt.Sprintf("gateway/c%d", i), 0)
		}
		for i, s := range p.registry.Sources()[2:] {
			if !s.Owner().Await("gateway") {
				p.Fatalf("%s is not awaited", s.Name())
			}
			var working sync.WaitGroup
			working.Go(func() { _ = p.registry.Operator().Retire(s.Name()) })
			for range i * 20 { // now before it is retired, now in the middle of that, now after it
				s.Now()
			}
			addSource(p.T, p.registry, liveness.SourceConfig{Name: s.Name(), Pool: "gateway"})
			working.Wait()
			if v := s.View(); v.Absent || v.Missed != 0 {
				p.Errorf("%s was added: %+v", s.Name(), v)
			}
		}
	})
}
