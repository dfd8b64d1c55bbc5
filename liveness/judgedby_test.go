package liveness_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/timer"
)

// A state follows from the policy in force then, whatever becomes of the policy: in this process, and in the next.
func TestJudgedBy(t *testing.T) {
	before := liveness.Config{Policy: liveness.Policy{Timeout: 30 * unit, LateAfter: 10 * unit, CloseGrace: 5 * unit, RecoverAfter: 3}}
	after := liveness.Config{Policy: liveness.Policy{Timeout: 300 * unit, LateAfter: 200 * unit, CloseGrace: 50 * unit, RecoverAfter: 3}}
	synctest.Test(t, func(t *testing.T) {
		k, origin := newShelf(t), time.Now()
		l := begin(t, k, before, origin)
		defer func() { l.stop() }()
		want := map[string]time.Duration{"silent": 30 * unit, "recovers": 30 * unit, "closed": 5 * unit, "late": 10 * unit, "ends": 5 * unit, "left": 0}
		check := func(when string) {
			t.Helper()
			for id, span := range want {
				if v := l.device(id); v.JudgedBy != span {
					t.Errorf("%s, %s is %v (%v) by %v units, want %v", when, id, v.State, v.Reason, inUnits(v.JudgedBy), inUnits(span))
				}
			}
		}
		l.pulse()
		l.open("silent")
		l.open("recovers")
		l.open("closed").Close(l.now(), liveness.Closed)
		l.open("left").Bye(l.now())
		l.listen(20 * unit)
		l.open("late")
		l.listen(11 * unit)
		l.open("ends").Close(l.now(), liveness.Closed)
		check("at first")
		l.reconfigure(after)
		check("with another policy")
		l.signal("recovers", liveness.Signal{Announced: liveness.Policy{Timeout: 70 * unit}})
		check("when one has announced a timeout")
		l.listen(5 * unit)
		if v := l.device("ends"); v.State != liveness.Offline || v.Policy.CloseGrace != 50*unit {
			t.Errorf("%+v", v)
		}
		check("when another one is judged")
		k.checkpoint(l.registry)
		l.stop()
		l = begin(t, k, after, origin)
		l.pulse()
		check("after a restart")

		s := l.open("late")
		want["late"] = 0
		check("when it was heard")
		l.listen(200 * unit)
		want["late"] = 200 * unit
		check("when it is late again")
		s.Close(l.now(), liveness.Closed)
		want["late"] = 50 * unit
		check("when its connection ended")
	})
}

// Devices that only a source tracked are judged by the fleet's timeout once it is retired; their own is Never.
func TestJudgedByFleet(t *testing.T) {
	inRig(t, liveness.Config{}, liveness.SourceConfig{}, func(r *rig) {
		r.admit(r.registry.Keeper().RestoreSource(keep.SourceRecord{Name: "broker", Listened: 100 * unit, At: time.Now()}))
		r.admit(r.registry.Keeper().Restore(keep.Record{
			Num: 1, ID: "a", State: liveness.Online, Source: "broker", Last: 90 * unit, Seq: 1, Announced: liveness.Policy{Timeout: liveness.Never},
		}))
		r.admit(r.registry.Operator().Retire("broker"))
		r.listen(60 * unit)
		if v := r.device("a"); v.State != liveness.Offline || v.JudgedBy != 30*unit {
			t.Errorf("%v by %v, want offline by %v", v.State, v.JudgedBy, 30*unit)
		}
	})
}

// What puts a verdict off is told apart, and a reconnect grace is used by deaf times only.
func TestWhyNotJudged(t *testing.T) {
	inRig(t, liveness.Config{Policy: liveness.Policy{Timeout: 60 * unit, Interval: 20 * unit}}, liveness.SourceConfig{}, func(r *rig) {
		r.registry.Keeper().RecordGaps() // for how long it slept is known of one that was judged, too
		r.open("granted")
		if _, err := r.open("asleep").Sleep(r.now(), 30*unit); err != nil {
			t.Fatal(err)
		}
		r.listen(12 * unit)
		if v := r.device("asleep"); v.Slept != 12*unit || v.HeardSilence != 12*unit {
			t.Errorf("%v of %v it was asleep", v.Slept, v.HeardSilence)
		}
		r.reconfigure(liveness.Config{Policy: liveness.Policy{Timeout: 10 * unit, Interval: 20 * unit}})
		r.listen(8 * unit)
		if v := r.device("granted"); !v.Granted || v.Released || v.Suppressed || v.Grace != 0 || v.GraceUsed != 0 {
			t.Errorf("%+v, want one that was granted time", v)
		}
		r.cut(unit)
		r.listen(5 * unit)
		if v := r.device("granted"); v.Granted || v.Grace != 30*unit || inUnits(v.GraceUsed) != 15 {
			t.Errorf("%+v, want one whose source was deaf", v)
		}
		r.listen(30 * unit)
		if v := r.device("asleep"); v.State != liveness.Offline || v.Slept != 30*unit {
			t.Errorf("%+v, want one that was asleep for %v", v, 30*unit)
		}
	})
}

// When a connection ended is known whatever becomes of the close grace, and of an end that left no time to come
// back: for the record of the silence, for what is told, and for quiet windows.
func TestEndKeepsItsGrace(t *testing.T) {
	policy := func(grace time.Duration) liveness.Config {
		return liveness.Config{Policy: liveness.Policy{Timeout: 60 * unit, LateAfter: 15 * unit, CloseGrace: grace}}
	}
	tests := []struct {
		name     string
		signal   liveness.Signal
		at       time.Duration // after the last heartbeat
		grace    time.Duration // of the policy that comes 3 units after the end, if any
		judgedBy time.Duration
	}{
		{"same grace", liveness.Signal{Reason: liveness.Closed}, 10 * unit, 20 * unit, 20 * unit},
		{"longer grace", liveness.Signal{Reason: liveness.Closed}, 10 * unit, 40 * unit, 20 * unit},
		{"shorter grace", liveness.Signal{Reason: liveness.Closed}, 10 * unit, unit, 20 * unit},
		{"at once", liveness.Signal{Reason: liveness.Reported, AtOnce: true}, 10 * unit, 20 * unit, 0},
		{"at once, longer grace", liveness.Signal{Reason: liveness.Reported, AtOnce: true}, 10 * unit, 40 * unit, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inLearner(t, policy(20*unit), func(l *learner) {
				beat := func() { l.signal("a", liveness.Signal{}) }
				beat()
				l.pass(tt.at)
				tt.signal.Kind = liveness.Disconnected
				l.signal("a", tt.signal)
				l.pass(3 * unit)
				l.reconfigure(policy(tt.grace))
				l.pass(4 * unit) // it is late, if its connection ended and is not judged
				if v := l.device("a"); v.JudgedBy != tt.judgedBy {
					t.Errorf("%v by %g units, want %g", v.State, inUnits(v.JudgedBy), inUnits(tt.judgedBy))
				}
				l.pass(33 * unit)
				if v := l.device("a"); v.State != liveness.Offline || v.Reason != tt.signal.Reason || v.JudgedBy != tt.judgedBy {
					t.Errorf("%v, %v by %g units, want offline by %g", v.State, v.Reason, inUnits(v.JudgedBy), inUnits(tt.judgedBy))
				}
				beat()
				l.checkpoint()
				if g := l.gaps[len(l.gaps)-1]; (g.Closed-tt.at).Abs() > 2*timer.Resolution || g.Reason != tt.signal.Reason {
					t.Errorf("recorded as closed after %g units for %v, want %g", inUnits(g.Closed), g.Reason, inUnits(tt.at))
				}
			})
		})
	}
}

// Whether the time to come back touches a quiet window follows from the close grace that the device had.
func TestEndBesideAQuietWindow(t *testing.T) {
	const quiet = "22:00-06:00"
	for _, tt := range []struct {
		name    string
		signal  liveness.Signal
		at      string
		later   time.Duration // the close grace that comes then
		verdict string
	}{
		{"longer grace after its end", liveness.Signal{Reason: liveness.Closed}, "06:00:05", 60 * time.Second, "06:00:15"},
		{"shorter grace across its end", liveness.Signal{Reason: liveness.Closed}, "05:59:55", time.Second, "06:10:00"},
		{"at once after its end", liveness.Signal{Reason: liveness.Reported, AtOnce: true}, "06:00:05", 10 * time.Second, "06:00:05"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inQuiet(t, liveness.Policy{CloseGrace: 10 * time.Second}, func(r *rig) {
				r.at("23:00:00")
				r.signal("a", liveness.Signal{})
				r.at(tt.at)
				tt.signal.Kind = liveness.Disconnected
				r.signal("a", tt.signal)
				r.reconfigure(liveness.Config{Policy: liveness.Policy{Timeout: 10 * time.Minute, Quiet: quiet, CloseGrace: tt.later}})
				r.at("06:20:00")
				events := r.events()
				last := events[len(events)-1]
				if got := last.Time.Format("15:04:05"); last.Type != liveness.DeviceOffline || got < tt.verdict || got > tt.verdict[:7]+"9" {
					t.Errorf("%v at %s, want offline at %s", last.Type, got, tt.verdict)
				}
			})
		})
	}
}
