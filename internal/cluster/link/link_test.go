package link_test

import (
	"testing"
	"time"

	"github.com/holter-iot/holter/liveness"
)

func TestOpenAndBeat(t *testing.T) {
	inFleet(t, func(f *fleet, a *node) {
		e := f.ear("one")
		defer e.stop()
		f.wait(time.Second)
		var o outcome
		h := liveness.Hello{Announced: liveness.Policy{Timeout: 10 * time.Second, Interval: 2 * time.Second}}
		s := e.Open("d", h, nil, f.now(), o.done)
		f.wait(10 * time.Millisecond)
		w := o.want(t, nil)
		if w.Epoch != 1 || w.Policy.Timeout != 10*time.Second || w.Policy.Interval != 2*time.Second || s.Epoch() != 1 || s.ID() != "d" {
			t.Errorf("welcome %+v, epoch %d", w, s.Epoch())
		}
		f.beat(60*time.Second, s)
		v := a.wantState("d", liveness.Online)
		if v.Source != "gateway/one" || !v.Connected || time.Since(v.LastSeen) > time.Second {
			t.Errorf("view %+v", v)
		}
		a.want("d:1 device.online")
		views := a.judge.Views()
		if len(views) != 1 || views[0].Name != "one" || views[0].Sessions != 1 || views[0].Version != "v1" || views[0].Behind > 300*time.Millisecond {
			t.Errorf("Views = %+v", views)
		}
		if !e.Ready() || e.Sessions() != 1 {
			t.Errorf("Ready = %v, Sessions = %d", e.Ready(), e.Sessions())
		}
		f.wait(11 * time.Second)
		a.want("d:2 device.offline silence")
	})
}

func TestAsks(t *testing.T) {
	inFleet(t, func(f *fleet, a *node) {
		e := f.ear("one")
		defer e.stop()
		s, _ := e.open("d")
		a.want("d:1 device.online")
		ask := func(f2 func(done func(liveness.Welcome, error))) liveness.Welcome {
			t.Helper()
			var o outcome
			f2(o.done)
			f.wait(10 * time.Millisecond)
			return o.want(t, nil)
		}
		if w := ask(func(done func(liveness.Welcome, error)) { s.Sleep(f.now(), time.Minute, done) }); w.Granted != time.Minute {
			t.Errorf("granted %v", w.Granted)
		}
		a.want("d:2 device.sleeping")
		f.wait(40 * time.Second)
		ask(func(done func(liveness.Welcome, error)) { s.Fail(f.now(), "hot\xff", done) })
		a.want("d:3 device.online", "d:4 device.failed")
		w := ask(func(done func(liveness.Welcome, error)) {
			s.UpdatePolicy(f.now(), liveness.Policy{Timeout: time.Minute}, done)
		})
		if w.Policy.Timeout != time.Minute || w.Policy.Interval != 20*time.Second {
			t.Errorf("policy %+v", w.Policy)
		}
		a.want("d:5 device.changed")
		ask(func(done func(liveness.Welcome, error)) { s.Bye(f.now(), done) })
		a.want("d:6 device.offline bye")
		if s.Beat(f.now()) {
			t.Error("Beat = true after Bye")
		}
		var o outcome
		s.Fail(f.now(), "x", o.done)
		f.wait(10 * time.Millisecond)
		o.want(t, liveness.ErrReplaced)
		if e.Sessions() != 0 || a.judge.Views()[0].Sessions != 0 {
			t.Errorf("%d sessions, %d at the judge", e.Sessions(), a.judge.Views()[0].Sessions)
		}
	})
}

// A device has given up a connection, which is read after the one that it opened then.
func TestOpenLeft(t *testing.T) {
	inFleet(t, func(f *fleet, a *node) {
		e := f.ear("one")
		defer e.stop()
		left := f.now()
		f.wait(2 * time.Second)
		s, p := e.open("d")
		f.wait(time.Second)
		var o outcome
		late := e.Open("d", liveness.Hello{Left: left}, nil, f.now(), o.done)
		f.wait(time.Second)
		o.want(t, liveness.ErrReplaced)
		if !s.Beat(f.now()) || late.Beat(f.now()) {
			t.Error("it has replaced the one that lives")
		}
		p.want(t)
		a.want("d:1 device.online")
	})
}

func TestErrors(t *testing.T) {
	inFleet(t, func(f *fleet, a *node) {
		e := f.ear("one")
		defer e.stop()
		want := func(id string, h liveness.Hello, want error) {
			t.Helper()
			var o outcome
			s := e.Open(id, h, nil, f.now(), o.done)
			f.wait(10 * time.Millisecond)
			o.want(t, want)
			if want != nil && s.Beat(f.now()) {
				t.Error("Beat = true on a session that was refused")
			}
		}
		want("", liveness.Hello{}, liveness.ErrInvalidID)
		want("d", liveness.Hello{Epoch: 5}, nil)
		want("d", liveness.Hello{Epoch: 4}, liveness.ErrStaleEpoch)
		var o outcome
		e.Open("bad", liveness.Hello{Announced: liveness.Policy{Timeout: -1}}, nil, f.now(), o.done)
		f.wait(10 * time.Millisecond)
		if o.err == nil || o.calls != 1 {
			t.Errorf("a bad policy: %v", o.err)
		}
		if n := a.judge.Views()[0].Sessions; n != 1 || e.Sessions() != 1 {
			t.Errorf("%d sessions at the judge, %d at the ear", n, e.Sessions())
		}
	})
}

// A device that comes back at another ear is replaced at the first.
func TestReplaced(t *testing.T) {
	inFleet(t, func(f *fleet, a *node) {
		one, two := f.ear("one"), f.ear("two")
		defer one.stop()
		defer two.stop()
		f.wait(time.Second)
		s, p := one.open("d")
		again, _ := two.open("d")
		p.want(t, "replaced")
		if s.Beat(f.now()) || again.Epoch() != 2 || one.Sessions() != 0 {
			t.Errorf("Beat = true, or epoch %d, or %d sessions", again.Epoch(), one.Sessions())
		}
		a.want("d:1 device.online", "d:2 device.session_replaced")
		s.Close(f.now(), liveness.Closed)
		f.beat(60*time.Second, again)
		a.want()
		if ok, err := a.registry.Disconnect("d"); !ok || err != nil {
			t.Fatal(ok, err)
		}
		f.wait(time.Second)
		if again.Beat(f.now()) {
			t.Error("Beat = true after Disconnect")
		}
	})
}

// Who is told that something was done can rely on it.
func TestAnswersWaitForCommits(t *testing.T) {
	inFleet(t, func(f *fleet, a *node) {
		e := f.ear("one")
		defer e.stop()
		s, _ := e.open("d")
		a.gate.set(true)
		var slow, after, bye, opened outcome
		s.Fail(f.now(), "x", slow.done)
		s.UpdatePolicy(f.now(), liveness.Policy{}, after.done)
		f.wait(time.Second)
		slow.wantNone(t)
		after.wantNone(t)
		a.gate.set(false)
		f.wait(time.Second)
		slow.want(t, nil)
		after.want(t, nil)
		a.gate.set(true)
		e.Open("n", liveness.Hello{}, nil, f.now(), opened.done)
		s.Bye(f.now(), bye.done)
		f.wait(1900 * time.Millisecond)
		opened.wantNone(t)
		bye.wantNone(t)
		f.wait(200 * time.Millisecond)
		opened.want(t, liveness.ErrBusy)
		bye.want(t, liveness.ErrBusy)
		a.gate.set(false)
		f.wait(time.Minute)
		if e.Sessions() != 0 || a.judge.Views()[0].Sessions != 0 {
			t.Errorf("%d sessions, %d at the judge", e.Sessions(), a.judge.Views()[0].Sessions)
		}
		a.want("d:1 device.online", "d:2 device.failed", "n:1 device.online", "d:3 device.offline bye", "n:2 device.offline silence")
	})
}
