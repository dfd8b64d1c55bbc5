package liveness_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/operate"
	"github.com/holter-iot/holter/liveness"
)

// cover covers all devices, and returns how many that changed.
func cover(tb testing.TB, r *liveness.Registry, ended string, w operate.Window, prefix string) (changed int) {
	tb.Helper()
	for from, more := uint64(0), true; more; more = from != 0 {
		var n int
		var err error
		from, n, err = r.Operator().Cover(from, 2, ended, func(id, _ string) (operate.Window, bool) { return w, prefix != "" && strings.HasPrefix(id, prefix) })
		if err != nil {
			tb.Fatal(err)
		}
		changed += n
	}
	return changed
}

// A window and an operator do not end each other's maintenance, and repeating either causes no
// event.
func TestWindow(t *testing.T) {
	inRig(t, liveness.Config{Groups: []liveness.GroupConfig{{Name: "g", Match: "*"}}}, liveness.SourceConfig{}, func(r *rig) {
		for _, id := range []string{"a1", "a2", "b1"} {
			r.open(id)
		}
		if err := r.registry.SetMaintenance("a1", true); err != nil {
			r.Error(err)
		}
		r.events()
		w := operate.Window{Name: "window night"}
		if n := cover(t, r.registry, "", w, "a"); n != 2 {
			r.Errorf("%d came under it, want 2", n)
		}
		if n := cover(t, r.registry, "", w, "a"); n != 0 {
			r.Errorf("%d came under it again", n)
		}
		events := r.events()
		if len(events) != 2 || events[0].Type != liveness.DeviceMaintenanceStarted || events[0].Message != "window night" || !events[0].Maintenance {
			r.Errorf("events %+v", events)
		}
		if err := r.registry.SetMaintenance("a1", false); err != nil || !r.device("a1").Maintenance || !r.device("a1").Window {
			r.Errorf("the operator's end: %v, %+v", err, r.device("a1"))
		}
		if err := r.registry.SetMaintenance("a2", true); err != nil {
			r.Error(err)
		}
		r.listen(30 * unit) // all fall silent
		for _, e := range r.events() {
			if want := strings.HasPrefix(e.Subject, "a") && e.Type == liveness.DeviceOffline; want != (e.Maintenance && e.Type == liveness.DeviceOffline) {
				r.Errorf("%+v", e)
			}
		}
		if n := cover(t, r.registry, "window night", operate.Window{}, ""); n != 2 {
			r.Errorf("%d came out of it, want 2", n)
		}
		if a, b := r.device("a1"), r.device("a2"); a.Maintenance || !b.Maintenance || b.Window || a.State != liveness.Offline {
			r.Errorf("after it: %+v, %+v", a, b)
		}
		if events = r.events(); len(events) != 2 || events[0].Type != liveness.DeviceMaintenanceStopped || events[0].Message != "window night" {
			r.Errorf("events %+v", events)
		}
		if g := r.registry.Groups()[0]; g.Silent != 2 {
			r.Errorf("%+v", g)
		}
	})
}

// In a window that suppresses silence no device goes offline for it, and afterwards each has its
// whole timeout.
func TestWindowExcuses(t *testing.T) {
	fleet := liveness.Config{Policy: liveness.Policy{Timeout: 30 * unit, LateAfter: 10 * unit}}
	inRig(t, fleet, liveness.SourceConfig{}, func(r *rig) {
		for _, id := range []string{"silent", "alive", "bye"} {
			r.open(id)
		}
		end := r.now() + 100*unit
		excuse := func() {
			from := uint64(0)
			for {
				next, _, err := r.registry.Operator().Cover(from, 10, "", func(string, string) (operate.Window, bool) {
					return operate.Window{Name: "w", Suppress: end - r.now()}, true
				})
				if err != nil {
					r.Fatal(err)
				}
				if from = next; from == 0 {
					return
				}
			}
		}
		r.listen(5 * unit)
		excuse()
		r.events()
		for range 9 {
			r.listen(10 * unit)
			r.sessions["alive"].Beat(r.now())
			excuse()
		}
		r.sessions["bye"].Bye(r.now())
		if events := r.events(); len(events) != 1 || events[0].Subject != "bye" {
			r.Errorf("in the window: %+v", events)
		}
		if v := r.device("silent"); v.State != liveness.Online || v.HeardSilence < 90*unit {
			r.Errorf("silent: %+v", v)
		}
		r.listen(5 * unit) // the end
		cover(t, r.registry, "w", operate.Window{}, "")
		r.events()
		r.listen(29 * unit)
		for _, e := range r.events() {
			if e.Type == liveness.DeviceOffline {
				r.Errorf("before its timeout: %+v", e)
			}
		}
		r.listen(2 * unit)
		if a, b := r.device("silent"), r.device("alive"); a.State != liveness.Offline || b.State != liveness.Offline {
			r.Errorf("after it: %v, %v", a.State, b.State)
		}
	})
}

// The suppression ends with a window that ends early.
func TestWindowExcusesLess(t *testing.T) {
	inRig(t, liveness.Config{Policy: liveness.Policy{Timeout: 10 * unit}}, liveness.SourceConfig{}, func(r *rig) {
		r.open("a")
		w := operate.Window{Name: "w", Suppress: 1000 * unit}
		cover(t, r.registry, "", w, "a")
		r.listen(50 * unit)
		cover(t, r.registry, "w", operate.Window{}, "")
		r.listen(9 * unit)
		if v := r.device("a"); v.State == liveness.Offline {
			r.Errorf("%+v", v)
		}
		r.listen(2 * unit)
		if v := r.device("a"); v.State != liveness.Offline {
			r.Errorf("%+v", v)
		}
	})
}

// A window's cover outlasts a restart.
func TestWindowRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, origin := newShelf(t), time.Now()
		l := begin(t, k, liveness.Config{}, origin)
		l.pulse()
		for i := range 3 {
			l.open(fmt.Sprint("d", i))
		}
		cover(t, l.registry, "", operate.Window{Name: "w"}, "d1")
		l.listen(unit)
		k.checkpoint(l.registry)
		l.stop()
		l = begin(t, k, liveness.Config{}, origin)
		defer func() { l.stop() }()
		if v, err := l.registry.Device("d1"); err != nil || !v.Window || !v.Maintenance {
			t.Errorf("d1: %+v, %v", v, err)
		}
		if n := cover(t, l.registry, "w", operate.Window{}, ""); n != 1 {
			t.Errorf("%d came out of it, want 1", n)
		}
	})
}

// A window's suppression outlasts a restart if the registry is told: until the end that is to come,
// or for what is left of the timeout after an end that is past.
func TestWindowExcusesAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, origin := newShelf(t), time.Now()
		l := begin(t, k, liveness.Config{}, origin)
		l.pulse()
		devices := []string{"d-none", "d-over", "d-past", "d-open"}
		for _, id := range devices {
			l.open(id)
		}
		l.listen(5 * unit)
		cover(t, l.registry, "", operate.Window{Name: "w", Suppress: 1000 * unit}, "d")
		l.listen(100 * unit)
		k.checkpoint(l.registry)
		l.stop()
		l = begin(t, k, liveness.Config{}, origin)
		defer func() { l.stop() }()
		ends := map[string]time.Duration{"d-over": -30 * unit, "d-past": -10 * unit, "d-open": 40 * unit}
		l.registry.Operator().Suppress(func(id, _ string, timeout time.Duration) (time.Duration, bool) {
			if timeout != 30*unit {
				t.Errorf("%s: timeout %v", id, timeout)
			}
			end, ok := ends[id]
			return end, ok
		})
		l.pulse()
		for _, step := range []struct {
			listen int
			want   string
		}{{9, "d-none d-over"}, {2, "d-none d-over"}, {8, "d-none d-over"}, {2, "d-none d-over d-past"}, {48, "d-none d-over d-past"}, {2, "d-none d-over d-past d-open"}} {
			l.listen(time.Duration(step.listen) * unit)
			var got []string
			for _, id := range devices {
				if l.device(id).State == liveness.Offline {
					got = append(got, id)
				}
			}
			if s := strings.Join(got, " "); s != step.want {
				t.Errorf("at %v: offline are %q, want %q", l.now(), s, step.want)
			}
		}
	})
}

// Cover yields while the sink has much to do.
func TestWindowMakesWay(t *testing.T) {
	k := &sink{}
	k.append = func([]liveness.Event) error { <-k.gate; return nil }
	withSink(t, k, 8, func(r *liveness.Registry, s *liveness.Source, stop func() error) {
		openMany(t, s, 0, 4)
		synctest.Wait()
		_, n, err := r.Operator().Cover(0, 10, "", func(string, string) (operate.Window, bool) { return operate.Window{Name: "w"}, true })
		if n != 0 || !errors.Is(err, liveness.ErrBusy) {
			t.Errorf("Cover = %d, %v", n, err)
		}
		close(k.gate)
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
