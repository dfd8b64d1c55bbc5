package liveness_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/operate"
	"github.com/holter-iot/holter/liveness"
)

func TestForget(t *testing.T) {
	fleet := liveness.Config{Groups: []liveness.GroupConfig{{Name: "g", Match: "*", Outage: liveness.OutageConfig{Share: 0.1, MinDevices: 1}}}}
	inRig(t, fleet, liveness.SourceConfig{}, func(r *rig) {
		p := new(peer)
		session := r.openAs("a", liveness.Hello{}, p)
		r.open("b")
		r.listen(30 * unit)
		r.events()
		for _, id := range []string{"a", "b"} {
			if err := r.registry.Forget(id); err != nil {
				r.Error(err)
			}
		}
		r.want(
			"a:3 device.forgotten silence at 30 seen 0 due 30 silent 30",
			"b:3 device.forgotten silence at 30 seen 0 due 30 silent 30",
			"group/g:2 group.outage.ended at 30 0 of 0",
		)
		if *p != (peer{dismissed: 1, judged: 1}) || session.Beat(r.now()) || session.Close(r.now(), liveness.Closed) || session.Judged() {
			r.Errorf("the session goes on: %+v", *p)
		}
		if g, st := r.registry.Groups()[0], r.registry.Stats(); g.Members != 0 || g.Silent != 0 || st.Devices != 0 || st.States[liveness.Offline] != 0 {
			r.Errorf("%+v, %+v", g, st)
		}
		if views, _ := r.registry.List(nil, 0, 10); len(views) != 0 || r.registry.Operator().Known("a") {
			r.Errorf("%+v", views)
		}
		if err := r.registry.Forget("a"); !errors.Is(err, liveness.ErrUnknownDevice) {
			r.Errorf("Forget again = %v", err)
		}
		r.open("a") // another one
		r.want("a:4 device.online at 30 seen 30 due 60 silent 0")
		r.listen(30 * unit)
	})
}

// Devices come and go; their numbers stay dense, and the index finds each of them and no other.
func TestForgetMany(t *testing.T) {
	log := newLog(t, 1<<20)
	r := newRegistry(t, log, liveness.Config{MaxDevices: 1000})
	stop := start(t, r)
	s := addSource(t, r, liveness.SourceConfig{Name: "edge"})
	s.Pulse(time.Now())
	there := make(map[string]bool)
	for i := range 50_000 {
		if i%50 == 0 { // a number is free once it is committed that its device is gone
			if err := r.Commit(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		id := strconv.Itoa(rand.N(2000))
		switch err := r.Forget(id); {
		case there[id] != (err == nil):
			t.Fatalf("Forget(%s) = %v, there: %v", id, err, there[id])
		case err == nil:
			delete(there, id)
		case len(there) < 1000:
			if _, err := s.Apply(id, liveness.Signal{}); err != nil {
				if errors.Is(err, liveness.ErrBusy) {
					continue
				}
				t.Fatal(err)
			}
			there[id] = true
		}
	}
	for i := range 2000 {
		if id := strconv.Itoa(i); r.Operator().Known(id) != there[id] {
			t.Errorf("Known(%s) = %v", id, !there[id])
		}
	}
	if _, heard := r.Keeper().Snapshot(nil); len(heard) > 1100 {
		t.Errorf("numbers up to %d for 1000 devices", len(heard))
	}
	stop()
	seqs, gone := make(map[string]uint64), make(map[string]bool)
	events, err := log.Read(nil, 0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		last, known := seqs[e.Subject]
		if anew := !known || gone[e.Subject]; e.Seq <= last || !anew && e.Seq != last+1 {
			t.Fatalf("%s after %d", e.ID(), last)
		}
		seqs[e.Subject], gone[e.Subject] = e.Seq, e.Type == liveness.DeviceForgotten
	}
}

// A device is forgotten while it is heard, judged and shown.
func TestForgetConcurrently(t *testing.T) {
	r := newRegistry(t, newLog(t, 0), liveness.Config{Policy: liveness.Policy{Timeout: time.Millisecond}, MinTimeout: 1})
	defer start(t, r)()
	s := addSource(t, r, liveness.SourceConfig{Name: "edge"})
	s.Pulse(time.Now())
	var workers sync.WaitGroup
	for worker := range 4 {
		workers.Go(func() {
			session := new(liveness.Session)
			for range 5000 {
				id, now := fmt.Sprint("d", rand.N(70)), s.Time(time.Now())
				switch rand.N(6) {
				case 0:
					_ = r.Forget(id)
				case 1:
					session = new(liveness.Session)
					_, _ = s.Open(session, id, liveness.Hello{}, nil, now)
				case 2:
					_, _ = s.Apply(id, liveness.Signal{At: now, Announced: liveness.Policy{Timeout: time.Duration(1+worker) * time.Millisecond}})
				case 3:
					_, _ = r.Device(id)
					_, _ = r.List(nil, 0, 100)
					r.Keeper().Snapshot(nil)
				case 4:
					s.Watermark(0, s.Pulse(time.Now()))
				default:
					session.Beat(now)
				}
			}
		})
	}
	workers.Wait()
}

// New devices are made while snapshots are taken.
func TestSnapshotWhileDevicesCome(t *testing.T) {
	r := newRegistry(t, newLog(t, 0), liveness.Config{})
	defer start(t, r)()
	s := addSource(t, r, liveness.SourceConfig{Name: "edge"})
	s.Pulse(time.Now())
	var workers sync.WaitGroup
	for worker := range 2 {
		workers.Go(func() {
			for i := range 20_000 {
				_, _ = s.Apply(fmt.Sprint(worker, "-", i), liveness.Signal{})
			}
		})
	}
	done := make(chan struct{})
	go func() {
		workers.Wait()
		close(done)
	}()
	for coming := true; coming; {
		r.Keeper().Snapshot(nil)
		select {
		case <-done:
			coming = false
		default:
		}
	}
}

// A device is heard without a session.
func TestSourceBeat(t *testing.T) {
	inRig(t, liveness.Config{}, liveness.SourceConfig{}, func(r *rig) {
		beat := func(p liveness.Policy) liveness.Welcome {
			r.Helper()
			w, err := r.source.Apply("a", liveness.Signal{At: r.now(), Announced: p})
			if err != nil {
				r.Error(err)
			}
			return w
		}
		if w := beat(liveness.Policy{Timeout: 40 * unit}); w.Policy.Timeout != 40*unit || w.From != "announced" {
			r.Errorf("%+v", w)
		}
		r.listen(20 * unit)
		if w := beat(liveness.Policy{}); w.Policy.Timeout != 40*unit {
			r.Errorf("%+v", w)
		}
		r.listen(20 * unit)
		beat(liveness.Policy{Timeout: 30 * unit})
		if w, err := r.source.Apply("a", liveness.Signal{Kind: liveness.Sleep, At: r.now(), Length: 5 * unit}); w.Granted != 5*unit || err != nil {
			r.Errorf("Sleep = %v, %v", w.Granted, err)
		}
		if _, err := r.source.Apply("a", liveness.Signal{Kind: liveness.Failure, At: r.now(), Message: "disk"}); err != nil {
			r.Error(err)
		}
		for range 2 {
			if _, err := r.source.Apply("a", liveness.Signal{Kind: liveness.Goodbye, At: r.now()}); err != nil {
				r.Error(err)
			}
		}
		r.want(
			"a:1 device.online at 0 seen 0 due 40 silent 0",
			"a:2 device.changed at 40 seen 40 due 70 silent 0",
			"a:3 device.sleeping at 40 seen 40 due 75 silent 0",
			"a:4 device.online at 40 seen 40 due 70 silent 0",
			"a:5 device.failed at 40 seen 40 due 70 silent 0",
			"a:6 device.offline bye at 40 seen 40 due 70 silent 0",
		)
		if _, err := r.source.Apply("nobody", liveness.Signal{Kind: liveness.Goodbye, At: r.now()}); !errors.Is(err, liveness.ErrUnknownDevice) {
			r.Errorf("Bye of an unknown device = %v", err)
		}
		if _, err := r.source.Apply("\x00", liveness.Signal{At: r.now()}); !errors.Is(err, liveness.ErrInvalidID) {
			r.Errorf("Beat with a bad id = %v", err)
		}
		if _, err := r.source.Apply("b", liveness.Signal{At: r.now(), Announced: liveness.Policy{Timeout: -1}}); err == nil || r.registry.Operator().Known("b") {
			r.Errorf("Beat with a bad policy = %v", err)
		}
		r.listen(10 * unit)
		beat(liveness.Policy{})
		r.listen(30 * unit)
		r.want("a:7 device.online at 50 seen 50 due 80 silent 0", "a:8 device.offline silence at 80 seen 50 due 80 silent 30")
	})
}

// A signal of a device that has a session counts at the session's source.
func TestSourceBeatBesideASession(t *testing.T) {
	inRig(t, liveness.Config{}, liveness.SourceConfig{}, func(r *rig) {
		http := r.addSource(liveness.SourceConfig{Name: "http"})
		session := r.open("a")
		r.listen(20 * unit) // http is not pulsed: what it hears, it heard within a MaxGap of its last pulse
		if _, err := http.Apply("a", liveness.Signal{At: http.Time(time.Now())}); err != nil {
			r.Error(err)
		}
		if v := r.device("a"); v.Source != "edge" || !v.Connected || inUnits(v.HeardSilence) != 0 {
			r.Errorf("%+v", v)
		}
		session.Close(r.now(), liveness.Closed)
		if _, err := http.Apply("a", liveness.Signal{At: http.Time(time.Now())}); err != nil {
			r.Error(err)
		}
		r.want("a:1 device.online at 0 seen 0 due 30 silent 0", "a:2 device.changed at 20 seen 1 due 31 silent 0")
		if v := r.device("a"); v.Source != "http" || v.Connected || v.Closing != liveness.NoReason {
			r.Errorf("%+v", v)
		}
	})
}

// Devices that were not heard for long are forgotten, in listening time; not those that somebody has named, and not
// those that live.
func TestForgetSilent(t *testing.T) {
	inRig(t, liveness.Config{Devices: map[string]liveness.Policy{"configured": {}}}, liveness.SourceConfig{}, func(r *rig) {
		for _, id := range []string{"gone", "configured", "maintained", "set", "back"} {
			r.open(id).Close(r.now(), liveness.Closed)
		}
		alive := r.open("alive")
		if err := errors.Join(r.registry.SetMaintenance("maintained", true), r.registry.SetPolicy("set", liveness.Policy{Timeout: 5 * unit})); err != nil {
			r.Fatal(err)
		}
		forget := func(want int) {
			r.Helper()
			if next, n, err := r.registry.Operator().ForgetSilent(0, 100, operate.Forgetting{After: 100 * unit, Message: "long silent"}, operate.Forgetting{}); next != 0 || n != want || err != nil {
				r.Errorf("ForgetSilent = %d, %d, %v, want %d", next, n, err, want)
			}
			synctest.Wait()
		}
		beat := func(d time.Duration) {
			for ; d > 0; d -= 10 * unit {
				r.listen(10 * unit)
				alive.Beat(r.now())
			}
		}
		forget(0)
		beat(60 * unit)
		r.open("back").Close(r.now(), liveness.Closed)
		r.cut(100 * unit) // deaf time does not count
		beat(30 * unit)
		forget(0)
		beat(20 * unit)
		forget(1)
		for id, want := range map[string]bool{"gone": false, "configured": true, "maintained": true, "set": true, "back": true, "alive": true} {
			if r.registry.Operator().Known(id) != want {
				r.Errorf("%s is known: %t", id, !want)
			}
		}
		events := r.events()
		if last := events[len(events)-1]; last.Type != liveness.DeviceForgotten || last.Subject != "gone" || last.Message != "long silent" {
			r.Errorf("%+v", last)
		}
		if next, _, err := r.registry.Operator().ForgetSilent(0, 2, operate.Forgetting{}, operate.Forgetting{}); next == 0 || err != nil {
			r.Errorf("with a limit: %d, %v", next, err)
		}
	})
}

// A configured device that was forgotten long ago, of which only the greatest of all such numbers
// is kept, numbers its events from there.
func TestConfiguredNumbersGoOn(t *testing.T) {
	r := newRegistry(t, newLog(t, 100), liveness.Config{Devices: map[string]liveness.Policy{"pump": {}, "kept": {}}})
	defer start(t, r)()
	r.Keeper().RestoreForgotten("", 17)
	r.Keeper().RestoreForgotten("kept", 5)
	for id, want := range map[string]uint64{"pump": 18, "kept": 6} {
		if err := r.SetMaintenance(id, true); err != nil {
			t.Fatal(err)
		}
		if err := r.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if v, err := r.Device(id); err != nil || v.Seq != want {
			t.Errorf("%s: its first event has the number %d, %v, want %d", id, v.Seq, err, want)
		}
	}
}
