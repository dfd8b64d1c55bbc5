package liveness_test

import (
	"testing"

	"github.com/holter-iot/holter/liveness"
)

func TestFlapping(t *testing.T) {
	fleet := liveness.Config{Flapping: liveness.FlappingConfig{Threshold: 5, Window: 100 * unit}}
	inRig(t, fleet, liveness.SourceConfig{}, func(r *rig) {
		for range 2 { // four changes
			r.open("a").Bye(r.now())
			r.listen(5 * unit)
		}
		r.open("a")
		r.want(
			"a:1 device.online at 0 seen 0 due 30 silent 0",
			"a:2 device.offline bye at 0 seen 0 due 30 silent 0",
			"a:3 device.online at 5 seen 5 due 35 silent 0",
			"a:4 device.offline bye at 5 seen 5 due 35 silent 0",
			"a:5 device.online at 10 seen 10 due 40 silent 0",
		)
		if v := r.device("a"); v.Flapping || r.registry.Stats().Flaps != 0 {
			r.Error("flaps after four changes")
		}
		r.listen(10 * unit)
		r.sessions["a"].Bye(r.now())
		events := r.events()
		if len(events) != 2 || events[1].Type != liveness.DeviceFlappingStarted || events[1].Seq != 7 || events[0].Flapping || !events[1].Flapping {
			r.Fatalf("events = %+v", events)
		}
		if v := r.device("a"); !v.Flapping || r.registry.Stats().Flaps != 1 {
			r.Error("does not flap after five changes")
		}
		r.listen(20 * unit)
		r.open("a")
		if events := r.events(); len(events) != 1 || !events[0].Flapping {
			r.Errorf("events = %+v, want one that says flapping", events)
		}
		s := r.sessions["a"]
		for r.device("a").Flapping {
			r.listen(step)
			s.Beat(r.now())
			if r.units(r.device("a").LastSeen) > 200 {
				r.Fatal("flaps for ever")
			}
		}
		// Changes at 0, 5, 5, 10, 20, 40. When four have left the window, two are left: no more
		// than half of five.
		events = r.events()
		if len(events) != 1 || events[0].Type != liveness.DeviceFlappingStopped || events[0].Seq != 9 || events[0].Flapping {
			r.Fatalf("events = %+v", events)
		}
		if at := r.units(events[0].Time); at < 110 || at > 111 {
			r.Errorf("stopped at %g, want 110 or soon after", at)
		}
		if r.registry.Stats().Flaps != 0 {
			r.Error("still among the flapping")
		}
	})
}

// Changes that are far enough apart are no flapping, however many.
func TestSeldomIsNoFlapping(t *testing.T) {
	fleet := liveness.Config{Flapping: liveness.FlappingConfig{Threshold: 3, Window: 10 * unit}}
	inRig(t, fleet, liveness.SourceConfig{}, func(r *rig) {
		for range 20 {
			r.open("a").Bye(r.now())
			r.listen(10 * unit)
		}
		for _, e := range r.events() {
			if e.Type != liveness.DeviceOnline && e.Type != liveness.DeviceOffline {
				r.Errorf("event %s", r.line(&e))
			}
		}
	})
}
