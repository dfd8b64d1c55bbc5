package liveness_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/liveness"
)

func TestDeafen(t *testing.T) {
	inRig(t, liveness.Config{}, liveness.SourceConfig{}, func(r *rig) {
		r.listen(unit)
		s := r.open("a")
		r.listen(4 * unit)
		s.Beat(r.now())
		time.Sleep(unit) // the broker is lost, and it takes a unit until that is noticed
		r.source.Pulse(time.Now())
		r.source.Deafen(time.Now().Add(-unit))
		r.source.Deafen(time.Now()) // it is deaf already
		r.want(
			"a:1 device.online at 1 seen 1 due 31 silent 0",
			"source/edge:1 source.deaf at 5 deaf 0", // beyond the heartbeat as a checkpoint would round it
		)
		r.wantState("a", liveness.Unknown)
		if v := r.source.View(); r.units(v.DeafSince) != 5 {
			t.Errorf("View.DeafSince = %v, want 5 units", r.units(v.DeafSince))
		}
		stamp := r.now()
		time.Sleep(1000 * unit)
		if got := r.now(); got != stamp {
			t.Errorf("listening time went on from %v to %v while the source was deaf", stamp, got)
		}
		r.pulse()
		r.want("source/edge:2 source.heard at 1006 deaf 1001")
		r.wantState("a", liveness.Unknown)
		if v := r.device("a"); r.units(v.LastSeen) != 5 {
			t.Errorf("a was seen last at %v, want 5 units", r.units(v.LastSeen))
		}
		r.open("b")
		r.listen(30*unit - step)
		r.wantState("a", liveness.Unknown)
		s.Beat(r.now())
		r.wantState("a", liveness.Online)
		if v := r.source.View(); len(v.Deaf) != 1 || inUnits(v.DeafTotal) != 1001 || !v.DeafSince.IsZero() {
			t.Errorf("View = %+v, want one deaf interval of 1001 units", v)
		}
	})
}

func TestDeafenBeforeTheFirstPulse(t *testing.T) {
	inRig(t, liveness.Config{}, liveness.SourceConfig{}, func(r *rig) {
		s := addSource(t, r.registry, liveness.SourceConfig{Name: "other", Note: "a"})
		s.Deafen(time.Now())
		s.Owner().SetNote("b")
		if v := s.View(); !v.DeafSince.IsZero() || v.Note != "b" {
			t.Errorf("View = %+v", v)
		}
		r.want()
	})
}

func TestNever(t *testing.T) {
	fleet := liveness.Config{Policy: liveness.Policy{Timeout: liveness.Never, CloseGrace: 5 * unit}}
	inRig(t, fleet, liveness.SourceConfig{}, func(r *rig) {
		r.listen(unit)
		if _, err := r.source.Apply("a", liveness.Signal{At: r.now()}); err != nil {
			t.Fatal(err)
		}
		r.listen(1000 * unit)
		v := r.device("a")
		if v.State != liveness.Online || !v.Deadline.IsZero() || v.NotBefore != 0 || v.Policy.Interval != 30*time.Second {
			t.Errorf("a device that is never silent for too long is %+v", v)
		}
		if e := r.events(); len(e) != 1 || !e[0].Deadline.IsZero() {
			t.Errorf("events = %+v, want one without a deadline", e)
		}
		r.cut(unit)
		r.wantState("a", liveness.Unknown)
		r.read++
		r.read++
		if _, err := r.source.Apply("a", liveness.Signal{Kind: liveness.Retained, At: r.now()}); err != nil { // nobody else can vouch for it
			t.Fatal(err)
		}
		r.wantState("a", liveness.Online)
		if _, err := r.source.Apply("a", liveness.Signal{Kind: liveness.Disconnected, At: r.now(), Reason: liveness.Will}); err != nil {
			t.Fatal(err)
		}
		if v := r.device("a"); v.Closing != liveness.Will || v.Deadline.IsZero() {
			t.Errorf("a device whose last will came is %+v", v)
		}
		r.listen(5 * unit)
		r.want("a:2 device.offline will at 1007 seen 1002 due 1007 silent 5")
	})
}

// What is reported at once is judged when the clock has passed it: what came right behind it counts.
func TestReportedAtOnce(t *testing.T) {
	online := "a:1 device.online at 1 seen 1 due 31 silent 0"
	for _, tt := range []struct {
		name string
		do   func(r *rig, reported, beat func())
		want []string
	}{
		{"alone", func(r *rig, reported, _ func()) { reported(); r.listen(step) }, []string{online, "a:2 device.offline reported at 1.5 seen 1 due 1.25 silent 0.5"}},
		{"back before the clock moved", func(r *rig, reported, beat func()) { reported(); beat(); r.listen(20 * unit) }, []string{online}},
		{"back later", func(r *rig, reported, beat func()) { reported(); r.listen(step); beat() }, []string{
			online, "a:2 device.offline reported at 1.5 seen 1 due 1.25 silent 0.5", "a:3 device.online at 1.5 seen 1.5 due 31.5 silent 0",
		}},
		{"while the will waits", func(r *rig, reported, _ func()) {
			if _, err := r.source.Apply("a", liveness.Signal{Kind: liveness.Disconnected, At: r.now(), Reason: liveness.Will}); err != nil {
				r.Fatal(err)
			}
			reported()
			r.listen(step)
		}, []string{online, "a:2 device.offline reported at 1.5 seen 1 due 1.25 silent 0.5"}},
		{"after a cut", func(r *rig, reported, _ func()) {
			r.cut(unit)
			reported()
			r.listen(6 * unit)
		}, []string{
			online, "source/edge:1 source.deaf at 1.25 deaf 0", "source/edge:2 source.heard at 2.25 deaf 1",
			"a:2 device.offline reported at 7.25 seen 1 due 7.25 silent 5.25",
		}},
		{"before a cut, not before the grace to be heard", func(r *rig, reported, _ func()) {
			reported()
			r.cut(unit)
			r.listen(9 * unit)
		}, []string{online, "source/edge:1 source.deaf at 1.25 deaf 0", "source/edge:2 source.heard at 2.25 deaf 1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inRig(t, liveness.Config{Policy: liveness.Policy{Timeout: 30 * unit, CloseGrace: 5 * unit}}, liveness.SourceConfig{}, func(r *rig) {
				apply := func(sig liveness.Signal) func() {
					return func() {
						r.Helper()
						sig.At = r.now()
						if _, err := r.source.Apply("a", sig); err != nil {
							r.Fatal(err)
						}
					}
				}
				r.listen(unit)
				beat := apply(liveness.Signal{})
				beat()
				time.Sleep(step) // the clock is behind what is received now
				tt.do(r, apply(liveness.Signal{Kind: liveness.Disconnected, Reason: liveness.Reported, AtOnce: true}), beat)
				r.want(tt.want...)
			})
		})
	}
}

// Disconnected and Retained signals of another source change nothing while the device is heard
// elsewhere.
func TestSignalsElsewhere(t *testing.T) {
	inRig(t, liveness.Config{}, liveness.SourceConfig{}, func(r *rig) {
		r.listen(unit)
		other := r.addSource(liveness.SourceConfig{Name: "other"})
		r.open("a")
		if _, err := r.source.Apply("b", liveness.Signal{At: r.now()}); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"a", "b"} {
			if _, err := other.Apply(id, liveness.Signal{Kind: liveness.Disconnected, At: other.Time(time.Now()), Reason: liveness.Will}); err != nil {
				t.Errorf("Lost(%s) = %v", id, err)
			}
			if _, err := other.Apply(id, liveness.Signal{Kind: liveness.Retained, At: other.Time(time.Now())}); err != nil {
				t.Errorf("Seed(%s) = %v", id, err)
			}
			if v := r.device(id); v.Source != "edge" || v.Closing != liveness.NoReason {
				t.Errorf("the device is %+v", v)
			}
		}
		if _, err := other.Apply("", liveness.Signal{Kind: liveness.Disconnected, Reason: liveness.Will}); !errors.Is(err, liveness.ErrInvalidID) {
			t.Errorf("Lost without an id = %v", err)
		}
		if _, err := other.Apply("", liveness.Signal{Kind: liveness.Retained}); !errors.Is(err, liveness.ErrInvalidID) {
			t.Errorf("Seed without an id = %v", err)
		}
	})
}

// A signal at a restored source before its first pulse comes after all that it had heard before.
func TestHeardBeforePulse(t *testing.T) {
	inRig(t, liveness.Config{Policy: liveness.Policy{Timeout: liveness.Never}}, liveness.SourceConfig{}, func(r *rig) {
		err := r.registry.Keeper().RestoreSource(keep.SourceRecord{Name: "other", Listened: 100 * unit, At: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		rec := keep.Record{Num: 1, ID: "a", State: liveness.Online, Source: "other", Last: 100 * unit, Since: time.Now(), Seq: 1}
		if err := r.registry.Keeper().Restore(rec); err != nil {
			t.Fatal(err)
		}
		s := addSource(t, r.registry, liveness.SourceConfig{Name: "other"})
		r.wantState("a", liveness.Unknown)
		if _, err := s.Apply("a", liveness.Signal{Kind: liveness.Retained, At: s.Time(time.Now())}); err != nil {
			t.Fatal(err)
		}
		s.Pulse(time.Now())
		r.wantState("a", liveness.Online)
	})
}

// A source that was deaf when the process ended reports only that it is heard again.
func TestDeafAcrossRestart(t *testing.T) {
	inRig(t, liveness.Config{}, liveness.SourceConfig{}, func(r *rig) {
		for i, seq := range []uint64{3, 4} {
			name := []string{"was-deaf", "listened"}[i]
			err := r.registry.Keeper().RestoreSource(keep.SourceRecord{Name: name, Listened: 100 * unit, At: time.Now(), Seq: seq})
			if err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(7 * unit)
		r.addSource(liveness.SourceConfig{Name: "was-deaf"})
		r.want("source/was-deaf:4 source.heard at 7 deaf 7")
		r.addSource(liveness.SourceConfig{Name: "listened"})
		r.want("source/listened:5 source.deaf at 0 deaf 7", "source/listened:6 source.heard at 7 deaf 7")
	})
}
