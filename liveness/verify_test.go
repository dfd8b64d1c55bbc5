package liveness_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/operate"
	"github.com/holter-iot/holter/liveness"
)

// A device is unverified from its first sign of life without a proof to the first one with a proof.
func TestUnverified(t *testing.T) {
	open := func(id string, unverified bool) func(*rig) {
		return func(r *rig) { r.openAs(id, liveness.Hello{Unverified: unverified}, nil) }
	}
	apply := func(id string, kind liveness.Kind, unverified bool) func(*rig) {
		return func(r *rig) {
			r.Helper()
			if _, err := r.source.Apply(id, liveness.Signal{Kind: kind, At: r.now(), Unverified: unverified}); err != nil {
				r.Error(err)
			}
		}
	}
	speak := func(r *rig) { // nothing of this proves anything
		s := r.sessions["a"]
		_, err := s.Sleep(r.now(), unit)
		if err != nil || !s.Beat(r.now()) || s.Fail(r.now(), "x") != nil || !s.Close(r.now(), liveness.Closed) {
			r.Error("the session has ended", err)
		}
	}
	for _, tt := range []struct {
		name  string
		steps []func(*rig)
		want  bool
		last  liveness.Type
	}{
		{"opened with a proof", []func(*rig){open("a", false)}, false, liveness.DeviceOnline},
		{"opened without", []func(*rig){open("a", true)}, true, liveness.DeviceOnline},
		{"heard with a proof", []func(*rig){apply("a", liveness.Heartbeat, false)}, false, liveness.DeviceOnline},
		{"heard without", []func(*rig){apply("a", liveness.Heartbeat, true)}, true, liveness.DeviceOnline},
		{"verified by a heartbeat", []func(*rig){apply("a", liveness.Heartbeat, true), apply("a", liveness.Heartbeat, false)}, false, liveness.DeviceChanged},
		{"verified by a session", []func(*rig){open("a", true), open("a", false)}, false, liveness.DeviceSessionReplaced},
		{"verified stays so", []func(*rig){open("a", false), apply("a", liveness.Heartbeat, true)}, false, liveness.DeviceOnline},
		{"verified stays so offline", []func(*rig){
			apply("a", liveness.Heartbeat, false), apply("a", liveness.Goodbye, true), apply("a", liveness.Heartbeat, true),
		}, false, liveness.DeviceOnline},
		{"a session without a proof goes on", []func(*rig){open("a", true), speak}, true, liveness.DeviceFailed},
		{"a configured device without a proof", []func(*rig){open("configured", true)}, true, liveness.DeviceOnline},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inRig(t, liveness.Config{Devices: map[string]liveness.Policy{"configured": {}}}, liveness.SourceConfig{}, func(r *rig) {
				for _, step := range tt.steps {
					step(r)
					synctest.Wait()
				}
				events := r.events()
				last := events[len(events)-1]
				if last.Type != tt.last {
					r.Errorf("the last event is %v, want %v", last.Type, tt.last)
				}
				if v := r.device(last.Subject); v.Unverified != tt.want {
					r.Errorf("unverified: %v, want %v", v.Unverified, tt.want)
				}
			})
		})
	}
}

// Devices that were never verified are forgotten sooner, also by another process.
func TestForgetUnverified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, began := newShelf(t), time.Now()
		l := begin(t, k, liveness.Config{}, began)
		l.pulse()
		l.openAs("stranger", liveness.Hello{Unverified: true}, nil).Close(l.now(), liveness.Closed)
		l.openAs("known", liveness.Hello{}, nil).Close(l.now(), liveness.Closed)
		l.openAs("proved", liveness.Hello{Unverified: true}, nil).Close(l.now(), liveness.Closed)
		l.openAs("proved", liveness.Hello{}, nil).Close(l.now(), liveness.Closed)
		l.listen(10 * unit)
		k.checkpoint(l.registry)
		l.stop()
		l = begin(t, k, liveness.Config{}, began)
		defer l.stop()
		l.pulse()
		sooner := operate.Forgetting{After: 100 * unit, Message: "never verified"}
		for at, want := range []int{0, 1, 0} {
			if _, n, err := l.registry.Operator().ForgetSilent(0, 100, operate.Forgetting{}, sooner); n != want || err != nil {
				t.Errorf("ForgetSilent the %dth time = %d, %v, want %d", at+1, n, err, want)
			}
			l.listen(95 * unit)
		}
		for id, want := range map[string]bool{"stranger": false, "known": true, "proved": true} {
			if l.registry.Operator().Known(id) != want {
				t.Errorf("%s is known: %v", id, !want)
			}
		}
	})
}
