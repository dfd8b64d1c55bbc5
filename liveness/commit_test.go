package liveness_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/liveness"
)

// commitPeer records the order in which its methods are called.
type commitPeer struct {
	peer

	told []string
}

func (p *commitPeer) Judged()    { p.told = append(p.told, "judged") }
func (p *commitPeer) Committed() { p.told = append(p.told, "committed") }

// A decided state is pending, and the peer is told nothing, until the sink has taken it.
func TestPending(t *testing.T) {
	var gate chan error
	k := &sink{append: func([]liveness.Event) error { return <-gate }}
	withSink(t, k, 0, func(r *liveness.Registry, s *liveness.Source, stop func() error) {
		gate = make(chan error)
		var session liveness.Session
		p := new(commitPeer)
		state := func(want liveness.State, pending bool) {
			t.Helper()
			synctest.Wait()
			v, err := r.Device("a")
			if err != nil || v.State != want || session.Pending() != pending || r.Stats().States[want] != 1 {
				t.Errorf("%v, %v, pending %v, %v; want %v, pending %v", v.State, err, session.Pending(), r.Stats().States, want, pending)
			}
		}
		if _, err := s.Open(&session, "a", liveness.Hello{}, p, s.Time(time.Now())); err != nil {
			t.Fatal(err)
		}
		committed := 0
		r.AfterCommit(func(ok bool) {
			if ok {
				committed++
			}
		})
		state(liveness.Pending, true)
		gate <- errors.New("not now")
		time.Sleep(time.Second)
		state(liveness.Pending, true)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := r.Commit(ctx); !errors.Is(err, context.DeadlineExceeded) || committed != 0 || len(p.told) != 0 {
			t.Errorf("Commit = %v while the sink refuses; %d told, %v", err, committed, p.told)
		}
		gate <- nil
		state(liveness.Online, false)
		if err := r.Commit(context.Background()); err != nil || committed != 1 || len(p.told) != 1 || p.told[0] != "committed" {
			t.Errorf("Commit = %v, %d told, %v", err, committed, p.told)
		}
		for range 91 {
			time.Sleep(time.Second)
			s.Watermark(0, s.Pulse(time.Now()))
		}
		state(liveness.Pending, true)
		if len(p.told) != 1 {
			t.Errorf("told %v before the verdict was committed", p.told)
		}
		gate <- nil // that the source was deaf
		gate <- nil
		state(liveness.Offline, false)
		if len(p.told) != 2 || p.told[1] != "judged" {
			t.Errorf("told %v", p.told)
		}
		session.Beat(s.Time(time.Now()))
		r.AfterCommit(func(ok bool) {
			if ok {
				t.Error("what the sink never took counts as committed")
			}
			committed++
		})
		go func() {
			for range 2 { // the attempt that is under way, and the last one
				gate <- errors.New("never")
			}
		}()
		time.Sleep(time.Millisecond)
		if err := stop(); err == nil || committed != 2 {
			t.Errorf("Run = %v, %d told", err, committed)
		}
	})
}

// However many events of a device wait for the sink: what is shown as its latest one is committed.
func TestManyWait(t *testing.T) {
	var gate chan struct{}
	took := uint64(0)
	k := &sink{append: func(events []liveness.Event) error {
		<-gate
		took = events[len(events)-1].Seq
		return nil
	}}
	withSink(t, k, 0, func(r *liveness.Registry, s *liveness.Source, stop func() error) {
		gate = make(chan struct{})
		var session liveness.Session
		if _, err := s.Open(&session, "a", liveness.Hello{}, nil, s.Time(time.Now())); err != nil {
			t.Fatal(err)
		}
		shown := func() {
			t.Helper()
			synctest.Wait()
			if v, err := r.Device("a"); err != nil || v.Seq != took {
				t.Errorf("the latest event is number %d, %v, want %d, the latest that is committed", v.Seq, err, took)
			}
		}
		for range 2 {
			for range 700 {
				if err := session.Fail(s.Time(time.Now()), "valve stuck"); err != nil {
					t.Fatal(err)
				}
			}
			shown()
			gate <- struct{}{} // one batch or more
			shown()
		}
		close(gate)
		shown()
		if took != 1401 {
			t.Errorf("%d events are committed, want 1401", took)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// A heartbeat reports whether something of its device waits to be committed.
func TestWelcomePending(t *testing.T) {
	var open atomic.Bool
	k := &sink{append: func([]liveness.Event) error {
		if open.Load() {
			return nil
		}
		return errors.New("not now")
	}}
	withSink(t, k, 1, func(r *liveness.Registry, s *liveness.Source, stop func() error) {
		commit := func() {
			open.Store(true)
			time.Sleep(2 * time.Second) // until the sink is tried again
			open.Store(false)
		}
		beat := func(what, id string, announced liveness.Policy, want bool) {
			t.Helper()
			if w, err := s.Apply(id, liveness.Signal{At: s.Time(time.Now()), Announced: announced}); err != nil || w.Pending != want {
				t.Errorf("%s: pending %v, %v; want %v", what, w.Pending, err, want)
			}
		}
		announced := liveness.Policy{Timeout: time.Minute}
		beat("the first", "a", liveness.Policy{}, true)
		beat("the next", "a", liveness.Policy{}, true)
		commit()
		beat("when it is committed", "a", liveness.Policy{}, false)
		beat("of another", "b", liveness.Policy{}, true)
		beat("while another waits", "a", liveness.Policy{}, false)
		commit()
		beat("a new policy", "a", announced, true)
		beat("the same policy", "a", announced, true)
		commit()
		beat("the same policy, committed", "a", announced, false)
		if _, err := s.Apply("a", liveness.Signal{Kind: liveness.Goodbye, At: s.Time(time.Now())}); err != nil {
			t.Error(err)
		}
		commit()
		openMany(t, s, 0, 2)
		beat("while too much waits", "a", liveness.Policy{}, true)
		commit()
		beat("of one that is offline", "a", liveness.Policy{}, true)
		commit()
		beat("when that is committed", "a", liveness.Policy{}, false)
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// An operator ends a session, and the device comes back or does not.
func TestDisconnect(t *testing.T) {
	inRig(t, liveness.Config{Policy: liveness.Policy{CloseGrace: 4 * unit}}, liveness.SourceConfig{}, func(r *rig) {
		back, gone := new(peer), new(peer)
		r.openAs("back", liveness.Hello{}, back)
		session := r.openAs("gone", liveness.Hello{}, gone)
		r.listen(unit)
		r.events()
		for _, id := range []string{"back", "gone"} {
			if had, err := r.registry.Disconnect(id); !had || err != nil {
				r.Errorf("Disconnect(%q) = %v, %v", id, had, err)
			}
		}
		if had, err := r.registry.Disconnect("gone"); had || err != nil {
			r.Errorf("Disconnect again = %v, %v", had, err)
		}
		if _, err := r.registry.Disconnect("nobody"); !errors.Is(err, liveness.ErrUnknownDevice) {
			r.Errorf("Disconnect of an unknown device = %v", err)
		}
		if *back != (peer{dismissed: 1}) || *gone != (peer{dismissed: 1}) || session.Beat(r.now()) {
			r.Errorf("peers %+v, %+v", *back, *gone)
		}
		r.want()
		r.open("back")
		r.listen(4 * unit)
		r.want("gone:2 device.offline admin at 5 seen 0 due 5 silent 5")
	})
}

// A device's number is that of its latest event that the sink has taken, also where its state did
// not change.
func TestShownNumberIsCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &gate{newLog(t, 0), make(chan struct{})}
		close(sink.open)
		r := newRegistry(t, sink, liveness.Config{})
		defer start(t, r)()
		source := addSource(t, r, liveness.SourceConfig{Name: "edge"})
		if _, err := source.Apply("d", liveness.Signal{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		sink.open = make(chan struct{})
		for i := range 300 {
			if err := r.SetMaintenance("d", i%2 == 0); err != nil {
				t.Fatal(err)
			}
			if v, err := r.Device("d"); err != nil || v.State != liveness.Online || i < 255 && v.Seq != 1 {
				t.Fatalf("after %d changes: %v, number %d, %v", i+1, v.State, v.Seq, err)
			}
		}
		close(sink.open)
		synctest.Wait()
		if v, err := r.Device("d"); err != nil || v.Seq != 301 {
			t.Errorf("in the end: number %d, %v", v.Seq, err)
		}
	})
}
