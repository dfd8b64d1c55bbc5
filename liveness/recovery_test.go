package liveness_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/liveness"
)

// recovering is a fleet whose devices are online again after three heartbeats in a row.
func recovering() liveness.Config {
	return liveness.Config{Policy: liveness.Policy{Timeout: 30 * unit, CloseGrace: 5 * unit, RecoverAfter: 3}}
}

func (r *rig) wantRecovering(id string, want int) {
	r.Helper()
	if v := r.device(id); v.State != liveness.Offline || v.Recovering != want {
		r.Errorf("%s is %v, recovering %d, want offline, %d", id, v.State, v.Recovering, want)
	}
}

// fall opens a session of a new device, with a peer, and has it judged for its silence.
func (r *rig) fall(id string, p liveness.Peer) *liveness.Session {
	r.Helper()
	s := r.openAs(id, liveness.Hello{}, p)
	r.listen(30 * unit)
	r.wantRecovering(id, 0)
	r.events()
	return s
}

func TestRecoverBySession(t *testing.T) {
	inRig(t, recovering(), liveness.SourceConfig{}, func(r *rig) {
		r.fall("a", nil).Close(r.now(), liveness.Closed) // else its session is replaced, with an event
		s := new(liveness.Session)
		w, err := r.source.Open(s, "a", liveness.Hello{}, nil, r.now())
		if err != nil || w.Pending || s.Judged() {
			r.Errorf("Open = %+v, %v, judged %v", w, err, s.Judged())
		}
		r.wantRecovering("a", 1)
		r.listen(30*unit - step) // a little less than the timeout
		s.Beat(r.now())
		r.wantRecovering("a", 2)
		r.want()
		if err := s.Fail(r.now(), "hot"); err != nil {
			r.Error(err)
		}
		r.wantState("a", liveness.Online)
		r.listen(5 * unit)
		s.Beat(r.now()) // as ever
		r.listen(30 * unit)
		r.want(
			"a:3 device.online at 59.75 seen 59.75 due 89.75 silent 0",
			"a:4 device.failed at 59.75 seen 59.75 due 89.75 silent 0",
			"a:5 device.offline silence at 94.75 seen 64.75 due 94.75 silent 30",
		)
	})
}

// Without a session: a silence, an end of the connection and a goodbye begin the count anew.
func TestRecoverAnew(t *testing.T) {
	inRig(t, recovering(), liveness.SourceConfig{}, func(r *rig) {
		apply := func(sig liveness.Signal) {
			r.Helper()
			sig.At = r.now()
			if w, err := r.source.Apply("a", sig); err != nil || w.Pending && r.device("a").Recovering != 0 {
				r.Errorf("Apply = %+v, %v", w, err)
			}
		}
		beats := func(n int) {
			for range n {
				r.listen(unit)
				apply(liveness.Signal{})
			}
		}
		if _, err := r.source.Apply("a", liveness.Signal{At: r.now()}); err != nil {
			r.Fatal(err)
		}
		r.listen(30 * unit)
		r.events()
		beats(2)
		r.wantRecovering("a", 2)
		r.listen(30 * unit)
		r.wantRecovering("a", 0)
		beats(2)
		apply(liveness.Signal{Kind: liveness.Disconnected, Reason: liveness.Closed})
		r.wantRecovering("a", 0)
		beats(2)
		apply(liveness.Signal{Kind: liveness.Retained})
		r.wantRecovering("a", 2)
		r.cut(100 * unit) // is no silence of its own
		r.listen(unit)
		r.events()
		r.wantRecovering("a", 2)
		beats(1)
		r.wantState("a", liveness.Online)
		apply(liveness.Signal{Kind: liveness.Goodbye})
		beats(1)
		r.wantState("a", liveness.Online)
		if got := r.device("a").Seq; got != 5 { // online, offline, online, offline, online
			r.Errorf("%d events", got)
		}
	})
}

// A goodbye of a device that is offline: it stays so until enough heartbeats have come.
func TestByeWhileOffline(t *testing.T) {
	inRig(t, recovering(), liveness.SourceConfig{}, func(r *rig) {
		if s := r.fall("a", nil); !s.Judged() || !s.Bye(r.now()) {
			r.Error("Bye = false")
		}
		r.wantRecovering("a", 0)
		r.want()
		r.open("a")
		r.wantRecovering("a", 1)
		s := r.sessions["a"]
		s.Beat(r.now())
		s.Beat(r.now())
		s.Bye(r.now())
		r.want("a:3 device.online at 30 seen 30 due 60 silent 0", "a:4 device.offline bye at 30 seen 30 due 60 silent 0")
		r.open("a")
		r.wantState("a", liveness.Online)
		r.open("b").Sleep(r.now(), unit)
		r.listen(31 * unit)
		r.wantRecovering("b", 0)
		if granted, err := r.open("b").Sleep(r.now(), 7*unit); granted != 7*unit || err != nil {
			r.Errorf("Sleep = %v, %v", granted, err)
		}
		r.wantState("b", liveness.Sleeping)
	})
}

// The far end of a session is not told that its device was judged while that is recovering, and it is
// once the device has fallen silent again.
func TestRecoverTellsThePeer(t *testing.T) {
	inRig(t, recovering(), liveness.SourceConfig{}, func(r *rig) {
		r.fall("a", nil)
		p := new(commitPeer)
		s := r.openAs("a", liveness.Hello{Announced: liveness.Policy{Interval: 7 * unit}}, p) // with an event
		r.wantRecovering("a", 1)
		if !slices.Equal(p.told, []string{"committed"}) || s.Judged() || s.Pending() {
			r.Errorf("told %q, Judged %v, Pending %v", p.told, s.Judged(), s.Pending())
		}
		for _, e := range r.events() {
			if !e.Deadline.IsZero() {
				r.Errorf("%s: a deadline, %v, of a device that was heard since", e.ID(), e.Deadline)
			}
		}
		r.listen(30*unit - step)
		if len(p.told) != 1 {
			r.Errorf("told %q early", p.told)
		}
		r.listen(step)
		if !slices.Equal(p.told, []string{"committed", "judged"}) || !s.Judged() {
			r.Errorf("told %q, Judged %v", p.told, s.Judged())
		}
		r.want()
	})
}

// After a restart the count begins anew, also if the memory of the process before has heartbeats that
// came after the verdict.
func TestRecoverAfterARestart(t *testing.T) {
	for _, heard := range []time.Duration{0, 40 * unit} {
		synctest.Test(t, func(t *testing.T) {
			k, origin := newShelf(t), time.Now()
			l := begin(t, k, recovering(), origin)
			l.pulse()
			l.open("a")
			l.listen(30 * unit)
			l.open("a")
			l.listen(unit)
			l.sessions["a"].Beat(l.now())
			l.wantRecovering("a", 2)
			l.listen(10 * unit)
			k.checkpoint(l.registry)
			l.stop()
			rec := k.devices["a"]
			rec.Heard, rec.HeardBy = heard, "edge"
			k.devices["a"] = rec
			l = begin(t, k, recovering(), origin)
			defer func() { l.stop() }()
			l.pulse()
			l.wantRecovering("a", 0)
			l.open("a")
			l.wantRecovering("a", 1)
			l.sessions["a"].Beat(l.now())
			l.sessions["a"].Beat(l.now())
			l.wantState("a", liveness.Online)
		})
	}
}

// While too many events wait, the heartbeat that would bring the device online is no more than heard, and
// the next one does.
func TestRecoverWhileBusy(t *testing.T) {
	var stuck atomic.Bool
	k := &sink{}
	k.append = func([]liveness.Event) error {
		if stuck.Load() {
			return errSink
		}
		return nil
	}
	withSink(t, k, 4, func(r *liveness.Registry, s *liveness.Source, stop func() error) {
		beat := func() liveness.Welcome {
			w, err := s.Apply("a", liveness.Signal{At: s.Now() + time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			return w
		}
		stuck.Store(false)
		if _, err := s.Apply("a", liveness.Signal{At: 0, Announced: liveness.Policy{RecoverAfter: 3}}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Apply("a", liveness.Signal{Kind: liveness.Disconnected, Reason: liveness.Closed, AtOnce: true}); err != nil {
			t.Fatal(err)
		}
		s.Watermark(0, s.Pulse(time.Now().Add(time.Millisecond)))
		synctest.Wait()
		stuck.Store(true)
		if w := beat(); w.Pending {
			t.Error("pending after the first heartbeat")
		}
		openMany(t, s, 0, 8)
		synctest.Wait()
		beat()
		if w := beat(); !w.Pending {
			t.Error("not pending after the third heartbeat")
		}
		if v, err := r.Device("a"); v.Recovering != 2 || err != nil {
			t.Errorf("%+v, %v", v, err)
		}
		stuck.Store(false)
		time.Sleep(10 * time.Second)
		beat()
		synctest.Wait()
		if v, err := r.Device("a"); v.State != liveness.Online || err != nil {
			t.Errorf("%+v, %v", v, err)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
