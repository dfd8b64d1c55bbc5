package liveness_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"
	"unsafe"

	"github.com/holter-iot/holter/liveness"
)

// peer counts its calls.
type peer struct {
	replaced, dismissed, judged, asked int
	mute                               bool // it cannot be asked
}

func (p *peer) Replaced()  { p.replaced++ }
func (p *peer) Dismissed() { p.dismissed++ }
func (p *peer) Judged()    { p.judged++ }
func (p *peer) Committed() {}

func (p *peer) Probe() bool {
	if !p.mute {
		p.asked++
	}
	return !p.mute
}

func TestJudged(t *testing.T) {
	inRig(t, liveness.Config{}, liveness.SourceConfig{}, func(r *rig) {
		open, closed := new(peer), new(peer)
		a := r.openAs("a", liveness.Hello{}, open)
		b := r.openAs("b", liveness.Hello{}, closed)
		if a.Judged() || new(liveness.Session).Judged() {
			r.Error("Judged = true before the verdict")
		}
		r.listen(29 * unit)
		b.Close(r.now(), liveness.Closed)
		r.listen(20 * unit)
		if !a.Judged() || b.Judged() || open.judged != 1 || closed.judged != 0 {
			r.Errorf("Judged: %v, %v; peers: %+v, %+v", a.Judged(), b.Judged(), *open, *closed)
		}
		a.Beat(r.now())
		if a.Judged() {
			r.Error("Judged = true after it was heard")
		}
		r.wantState("a", liveness.Online)
	})
}

// No operation on a session that was replaced changes anything.
func TestReplaced(t *testing.T) {
	inRig(t, liveness.Config{}, liveness.SourceConfig{}, func(r *rig) {
		p, q := new(peer), new(peer)
		old := r.openAs("a", liveness.Hello{}, p)
		r.listen(unit)
		r.openAs("a", liveness.Hello{}, q)
		r.want(
			"a:1 device.online at 0 seen 0 due 30 silent 0",
			"a:2 device.session_replaced at 1 seen 1 due 31 silent 0",
		)
		if *p != (peer{replaced: 1}) || *q != (peer{}) {
			r.Errorf("peers: %+v, %+v", *p, *q)
		}
		r.listen(unit)
		before := r.device("a")
		for name, does := range map[string]func() bool{
			"Beat":  func() bool { return old.Beat(r.now()) },
			"Fail":  func() bool { return old.Fail(r.now(), "x") == nil },
			"Sleep": func() bool { _, err := old.Sleep(r.now(), unit); return err == nil },
			"Bye":   func() bool { return old.Bye(r.now()) },
			"Close": func() bool { return old.Close(r.now(), liveness.Protocol) },
			"Repace": func() bool {
				p, err := old.UpdatePolicy(r.now(), liveness.Policy{Timeout: unit})
				return p != liveness.Policy{} || !errors.Is(err, liveness.ErrReplaced)
			},
			"Judged": old.Judged,
		} {
			if does() {
				r.Errorf("%s on a replaced session does something", name)
			}
		}
		after := r.device("a")
		if before.Last != after.Last || after.Seq != 2 || after.Epoch != 2 || !after.Connected || after.Policy != before.Policy {
			r.Errorf("before: %+v\nafter: %+v", before, after)
		}
		r.listen(29 * unit)
		r.want("a:3 device.offline silence at 31 seen 1 due 31 silent 30")
		if *p != (peer{replaced: 1}) || *q != (peer{judged: 1}) {
			r.Errorf("peers: %+v, %+v", *p, *q)
		}
	})
}

// A hello that waited to be read, and whose sender has closed the connection, does not replace a session
// that was opened meanwhile.
func TestOpenLeft(t *testing.T) {
	inRig(t, liveness.Config{}, liveness.SourceConfig{}, func(r *rig) {
		r.listen(2 * unit)
		p := new(peer)
		r.openAs("a", liveness.Hello{}, p)
		r.listen(3 * unit)
		r.want("a:1 device.online at 2 seen 2 due 32 silent 0")
		late := new(liveness.Session)
		if _, err := r.source.Open(late, "a", liveness.Hello{Left: unit}, nil, r.now()); !errors.Is(err, liveness.ErrReplaced) {
			t.Errorf("err = %v, want ErrReplaced", err)
		}
		if v := r.device("a"); !v.Connected || v.Epoch != 1 || p.replaced != 0 || v.HeardSilence != 0 {
			t.Errorf("the device is %+v, its peer %+v", v, p)
		}
		if _, err := r.source.Open(late, "a", liveness.Hello{Left: r.now() - time.Millisecond}, nil, r.now()); err != nil || p.replaced != 1 {
			t.Errorf("err = %v, and the peer %+v; want it replaced", err, p)
		}
	})
}

// A device that has left a connection after a hello there that waited for long may go on in the session
// that it had before.
func TestOpenLeftLong(t *testing.T) {
	for _, tt := range []struct {
		waited time.Duration
		want   error
	}{{time.Second, liveness.ErrReplaced}, {time.Second - 1, nil}} {
		inRig(t, liveness.Config{}, liveness.SourceConfig{}, func(r *rig) {
			r.listen(2 * unit)
			r.openAs("a", liveness.Hello{}, nil)
			r.listen(3 * unit)
			_, err := r.source.Open(new(liveness.Session), "a", liveness.Hello{Left: r.now() - tt.waited}, nil, r.now())
			if !errors.Is(err, tt.want) {
				t.Errorf("a hello that waited for %v: %v, want %v", tt.waited, err, tt.want)
			}
		})
	}
}

// A hello that the device had sent before it went to sleep does not wake it.
func TestOpenLeftSleeping(t *testing.T) {
	inRig(t, liveness.Config{}, liveness.SourceConfig{}, func(r *rig) {
		r.listen(2 * unit)
		left := r.now()
		r.listen(unit)
		if _, err := r.open("a").Sleep(r.now(), 100*unit); err != nil {
			r.Fatal(err)
		}
		r.listen(unit)
		if _, err := r.source.Open(new(liveness.Session), "a", liveness.Hello{Left: left}, nil, r.now()); !errors.Is(err, liveness.ErrReplaced) {
			r.Errorf("Open = %v, want ErrReplaced", err)
		}
		r.listen(40 * unit)
		r.wantState("a", liveness.Sleeping)
	})
}

func TestEpoch(t *testing.T) {
	inRig(t, liveness.Config{}, liveness.SourceConfig{}, func(r *rig) {
		p := new(peer)
		current := r.openAs("a", liveness.Hello{Epoch: 5}, p)
		r.listen(unit)
		r.events()
		before := r.device("a")
		_, err := r.source.Open(new(liveness.Session), "a", liveness.Hello{Epoch: 4, Announced: liveness.Policy{Timeout: unit}}, nil, r.now())
		if !errors.Is(err, liveness.ErrStaleEpoch) {
			r.Errorf("Open with a stale epoch = %v", err)
		}
		after := r.device("a")
		if before.Last != after.Last || before.Policy != after.Policy || after.Epoch != 5 || *p != (peer{}) || !current.Beat(r.now()) {
			r.Errorf("a stale epoch changed something: %+v, peer %+v", after, *p)
		}
		r.want()
		for _, tt := range []struct {
			name        string
			epoch, want uint64
		}{
			{"equal", 5, 5},
			{"numbered by the registry", 0, 6},
			{"a later one", 60, 60},
			{"numbered again", 0, 61},
			{"the last there is", math.MaxUint64, math.MaxUint64},
			{"no later one", 0, math.MaxUint64},
		} {
			session := new(liveness.Session)
			w, err := r.source.Open(session, "a", liveness.Hello{Epoch: tt.epoch}, nil, r.now())
			if err != nil || w.Epoch != tt.want || session.Epoch() != tt.want || session.ID() != "a" || r.device("a").Epoch != tt.want {
				r.Errorf("%s: Open = %d, %v, want %d", tt.name, w.Epoch, err, tt.want)
			}
			if events := r.events(); len(events) != 1 || events[0].Type != liveness.DeviceSessionReplaced || events[0].Epoch != tt.want {
				r.Errorf("%s: events %+v", tt.name, events)
			}
		}
		if p.replaced != 1 {
			r.Errorf("Replaced was called %d times, want once", p.replaced)
		}
	})
}

// A device may open its session again.
func TestOpenAgain(t *testing.T) {
	inRig(t, liveness.Config{}, liveness.SourceConfig{}, func(r *rig) {
		p := new(peer)
		session := r.openAs("a", liveness.Hello{}, p)
		r.listen(10 * unit)
		w, err := r.source.Open(session, "a", liveness.Hello{Announced: liveness.Policy{Timeout: 50 * unit}}, p, r.now())
		if err != nil || w.Epoch != 2 || w.Policy.Timeout != 50*unit || *p != (peer{}) {
			r.Errorf("Open = %+v, %v, peer %+v", w, err, *p)
		}
		r.listen(40 * unit)
		if !session.Beat(r.now()) {
			r.Error("Beat = false")
		}
		r.want("a:1 device.online at 0 seen 0 due 30 silent 0", "a:2 device.changed at 10 seen 10 due 60 silent 0")
		session.Close(r.now(), liveness.Closed)
		if _, err := r.source.Open(session, "a", liveness.Hello{}, p, r.now()); err != nil {
			r.Errorf("Open of a closed session = %v", err)
		}
		r.want("a:3 device.changed at 50 seen 50 due 80 silent 0")
		r.wantState("a", liveness.Online)
	})
}

// A session that is open for one device cannot be opened for another, since the first would never
// learn of its end.
func TestOpenForAnother(t *testing.T) {
	inRig(t, liveness.Config{}, liveness.SourceConfig{}, func(r *rig) {
		session := r.open("a")
		if _, err := r.source.Open(session, "b", liveness.Hello{}, nil, r.now()); err == nil {
			r.Error("Open of a session that is open for another device = nil")
		}
		if r.registry.Operator().Known("b") || !session.Beat(r.now()) {
			r.Error("it changed something")
		}
		session.Close(r.now(), liveness.Closed)
		if _, err := r.source.Open(session, "b", liveness.Hello{}, nil, r.now()); err != nil {
			r.Errorf("Open of a closed session = %v", err)
		}
		other := r.open("b")
		if _, err := r.source.Open(session, "c", liveness.Hello{}, nil, r.now()); err != nil {
			r.Errorf("Open of a replaced session = %v", err)
		}
		r.listen(29 * unit)
		other.Beat(r.now())
		r.listen(unit)
		r.wantState("a", liveness.Offline)
		r.wantState("b", liveness.Online)
		r.wantState("c", liveness.Offline)
	})
}

func TestOpenRejects(t *testing.T) {
	fleet := liveness.Config{MaxDevices: 2, Devices: map[string]liveness.Policy{"configured": {}}}
	inRig(t, fleet, liveness.SourceConfig{}, func(r *rig) {
		open := func(id string, p liveness.Policy) error {
			_, err := r.source.Open(new(liveness.Session), id, liveness.Hello{Announced: p}, nil, 0)
			return err
		}
		if err := open("", liveness.Policy{}); !errors.Is(err, liveness.ErrInvalidID) {
			r.Errorf("Open without an id = %v", err)
		}
		if err := open("a", liveness.Policy{Timeout: -1}); err == nil || r.registry.Operator().Known("a") {
			r.Errorf("Open with a negative timeout = %v", err)
		}
		if err := open("a", liveness.Policy{}); err != nil {
			r.Error(err)
		}
		if err := open("b", liveness.Policy{}); !errors.Is(err, liveness.ErrFull) || r.registry.Operator().Known("b") {
			r.Errorf("Open beyond MaxDevices = %v", err)
		}
		if err := errors.Join(open("a", liveness.Policy{}), open("configured", liveness.Policy{})); err != nil {
			r.Errorf("Open of known devices in a full registry = %v", err)
		}
		if n := r.registry.Stats().Devices; n != 2 {
			r.Errorf("%d devices, want 2", n)
		}
	})
}

// An edge may pass an id that lies in its read buffer.
func TestOpenCopiesTheID(t *testing.T) {
	inRig(t, liveness.Config{}, liveness.SourceConfig{}, func(r *rig) {
		buffer := make([]byte, 12)
		id := unsafe.String(&buffer[0], len(buffer))
		for i := range 500 {
			copy(buffer, fmt.Sprintf("device-%05d", i))
			r.open(id)
		}
		clear(buffer)
		for i := range 500 {
			if want := fmt.Sprintf("device-%05d", i); r.device(want).ID != want {
				t.Errorf("%s is called %q", want, r.device(want).ID)
			}
		}
	})
}

// A device may move to another source, whose clock reads another time.
func TestMove(t *testing.T) {
	inRig(t, liveness.Config{}, liveness.SourceConfig{}, func(r *rig) {
		p := new(peer)
		first := r.openAs("a", liveness.Hello{}, p)
		r.listen(25 * unit)
		other := r.addSource(liveness.SourceConfig{Name: "other"})
		moved := new(liveness.Session)
		if _, err := other.Open(moved, "a", liveness.Hello{}, nil, other.Time(time.Now())); err != nil {
			r.Fatal(err)
		}
		if p.replaced != 1 || first.Beat(r.now()) {
			r.Errorf("peer %+v", *p)
		}
		r.listen(10 * unit) // the first source goes on, the other does not
		v := r.device("a")
		if v.Source != "other" || v.State != liveness.Online || v.Last != 0 || r.units(v.LastSeen) != 25 {
			r.Errorf("view = %+v", v)
		}
		r.want(
			"a:1 device.online at 0 seen 0 due 30 silent 0",
			"a:2 device.session_replaced at 25 seen 25 due 55 silent 0",
		)
		back := r.source
		r.source = other
		r.source.Pulse(time.Now()) // deaf for 9
		if !moved.Beat(r.now()) {
			r.Error("Beat = false")
		}
		r.events()
		r.listen(30 * unit)
		r.want("a:3 device.offline silence at 65 seen 35 due 65 silent 30")
		back.Pulse(time.Now()) // deaf for 29
		r.events()
		if _, err := back.Open(moved, "a", liveness.Hello{}, nil, back.Time(time.Now())); err != nil {
			r.Errorf("Open of a session at another source = %v", err)
		}
		r.want("a:4 device.online at 65 seen 65 due 95 silent 0")
	})
}
