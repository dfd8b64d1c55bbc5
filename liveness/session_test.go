package liveness_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
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

func TestClose(t *testing.T) {
	fleet := liveness.Config{Policy: liveness.Policy{CloseGrace: 4 * unit}}
	inRig(t, fleet, liveness.SourceConfig{}, func(r *rig) {
		for _, id := range []string{"back", "gone", "broke", "silent"} {
			r.open(id)
		}
		r.events()
		r.listen(10 * unit)
		r.sessions["back"].Close(r.now(), liveness.Closed)
		r.sessions["gone"].Close(r.now(), liveness.Closed)
		r.sessions["broke"].Close(r.now(), liveness.Protocol)
		for id, why := range map[string]liveness.Reason{"back": liveness.Closed, "broke": liveness.Protocol, "silent": liveness.NoReason} {
			v := r.device(id)
			due := 14.
			if why == liveness.NoReason {
				due = 30
			}
			if v.State != liveness.Online || v.Closing != why || v.Connected != (why == liveness.NoReason) || r.units(v.Deadline) != due {
				r.Errorf("%s: %v, closing %v, connected %v, due %g", id, v.State, v.Closing, v.Connected, r.units(v.Deadline))
			}
		}
		r.listen(3 * unit)
		r.open("back")
		r.want()
		r.listen(unit)
		got := r.events()
		if len(got) != 2 || got[0].Subject == got[1].Subject {
			r.Fatalf("events = %+v", got)
		}
		for _, e := range got {
			want := map[string]liveness.Reason{"gone": liveness.Closed, "broke": liveness.Protocol}[e.Subject]
			if e.Type != liveness.DeviceOffline || e.Reason != want || r.units(e.Deadline) != 14 || e.HeardSilence != 14*unit {
				r.Errorf("event %s", r.line(&e))
			}
		}
		r.listen(12 * unit)
		r.sessions["silent"].Close(r.now(), liveness.Closed) // 4 before its timeout
		if v := r.device("silent"); v.Closing != liveness.Closed {
			r.Errorf("closing %v", v.Closing)
		}
		r.listen(4 * unit)
		r.want("silent:2 device.offline silence at 30 seen 0 due 30 silent 30")
		r.wantState("back", liveness.Online)
	})
}

func TestBye(t *testing.T) {
	inRig(t, liveness.Config{}, liveness.SourceConfig{}, func(r *rig) {
		p := new(peer)
		s := r.openAs("a", liveness.Hello{}, p)
		r.listen(2 * unit)
		if !s.Bye(r.now()) {
			r.Error("Bye = false")
		}
		r.want(
			"a:1 device.online at 0 seen 0 due 30 silent 0",
			"a:2 device.offline bye at 2 seen 2 due 32 silent 0",
		)
		if s.Bye(r.now()) || s.Beat(r.now()) || s.Close(r.now(), liveness.Closed) || s.Fail(r.now(), "x") == nil {
			r.Error("something on a session that has ended = true")
		}
		r.listen(100 * unit)
		r.want()
		if v := r.device("a"); v.Reason != liveness.Bye || v.Connected || *p != (peer{}) {
			r.Errorf("%v, connected %v, peer %+v", v.Reason, v.Connected, *p)
		}
	})
}

// A device that was judged and then says goodbye was back: its events report that, and its state
// agrees with the last one.
func TestByeAfterVerdict(t *testing.T) {
	inRig(t, liveness.Config{}, liveness.SourceConfig{}, func(r *rig) {
		p := new(peer)
		s := r.openAs("a", liveness.Hello{}, p)
		r.listen(30 * unit)
		if !s.Judged() || p.judged != 1 {
			r.Errorf("Judged = %v, peer %+v", s.Judged(), *p)
		}
		r.events()
		s.Bye(r.now())
		r.want(
			"a:3 device.online at 30 seen 30 due 60 silent 0",
			"a:4 device.offline bye at 30 seen 30 due 60 silent 0",
		)
		if v := r.device("a"); v.Reason != liveness.Bye || v.Seq != 4 {
			r.Errorf("view = %+v", v)
		}
	})
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

func TestSleep(t *testing.T) {
	fleet := liveness.Config{Policy: liveness.Policy{SleepLimit: 100 * unit, LateAfter: 20 * unit, CloseGrace: unit}}
	inRig(t, fleet, liveness.SourceConfig{}, func(r *rig) {
		s := r.open("a")
		r.events()
		for _, tt := range []struct{ length, want time.Duration }{
			{-unit, 0}, {0, 0}, {40 * unit, 40 * unit}, {100*unit + 1, 100 * unit}, {math.MaxInt64, 100 * unit}, {50 * unit, 50 * unit},
		} {
			if granted, err := s.Sleep(r.now(), tt.length); granted != tt.want || err != nil {
				r.Errorf("Sleep(%v) = %v, %v, want %v", tt.length, granted, err, tt.want)
			}
		}
		if v := r.device("a"); v.State != liveness.Sleeping || r.units(v.Sleep) != 50 || r.units(v.Deadline) != 80 {
			r.Errorf("%v until %g, due %g, want sleeping until 50, due 80", v.State, r.units(v.Sleep), r.units(v.Deadline))
		}
		s.Close(r.now(), liveness.Closed) // as one does who sleeps
		r.listen(80*unit - step)
		r.want(
			"a:2 device.sleeping at 0 seen 0 due 30 silent 0",
			"a:3 device.sleeping at 0 seen 0 due 70 silent 0",
			"a:4 device.sleeping at 0 seen 0 due 130 silent 0",
			"a:5 device.sleeping at 0 seen 0 due 80 silent 0",
		)
		r.listen(step)
		r.want("a:6 device.offline silence at 80 seen 0 due 80 silent 80")
		s = r.open("a")
		s.Sleep(r.now(), 10*unit)
		r.listen(5 * unit)
		s.Beat(r.now()) // woke up
		r.listen(30 * unit)
		r.want(
			"a:7 device.online at 80 seen 80 due 110 silent 0",
			"a:8 device.sleeping at 80 seen 80 due 120 silent 0",
			"a:9 device.online at 85 seen 85 due 115 silent 0",
			"a:10 device.late at 105 seen 85 due 115 silent 20",
			"a:11 device.offline silence at 115 seen 85 due 115 silent 30",
		)
	})
}

// A device sleeps on while its source is cut off, and has its grace if it should have woken up
// meanwhile.
func TestSleepAndDeaf(t *testing.T) {
	inRig(t, liveness.Config{}, liveness.SourceConfig{}, func(r *rig) {
		r.open("a").Sleep(r.now(), 5*unit)
		r.events()
		r.listen(34 * unit)
		r.cut(100 * unit)
		r.events()
		r.wantState("a", liveness.Sleeping)
		r.listen(20*unit - step)
		r.want()
		r.listen(step)
		r.want("a:3 device.offline silence at 154 seen 0 due 154 silent 54")
	})
}

func TestFail(t *testing.T) {
	inRig(t, liveness.Config{}, liveness.SourceConfig{}, func(r *rig) {
		s := r.open("a")
		r.listen(20 * unit)
		s.Fail(r.now(), "disk")
		r.listen(30 * unit)
		s.Fail(r.now(), "again")
		events := r.events()
		var got []string
		for _, e := range events {
			got = append(got, r.line(&e)+" "+e.Message)
		}
		want := []string{
			"a:1 device.online at 0 seen 0 due 30 silent 0 ",
			"a:2 device.failed at 20 seen 20 due 50 silent 0 disk",
			"a:3 device.offline silence at 50 seen 20 due 50 silent 30 ",
			"a:4 device.online at 50 seen 50 due 80 silent 0 ",
			"a:5 device.failed at 50 seen 50 due 80 silent 0 again",
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			r.Errorf("events:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
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
		if r.registry.Known("b") || !session.Beat(r.now()) {
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
		if err := open("a", liveness.Policy{Timeout: -1}); err == nil || r.registry.Known("a") {
			r.Errorf("Open with a negative timeout = %v", err)
		}
		if err := open("a", liveness.Policy{}); err != nil {
			r.Error(err)
		}
		if err := open("b", liveness.Policy{}); !errors.Is(err, liveness.ErrFull) || r.registry.Known("b") {
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

func TestRepace(t *testing.T) {
	inRig(t, liveness.Config{}, liveness.SourceConfig{}, func(r *rig) {
		session := r.open("a")
		r.listen(20 * unit)
		if _, err := session.UpdatePolicy(r.now(), liveness.Policy{Timeout: -1}); err == nil {
			r.Error("Repace to a negative timeout = nil")
		}
		p, err := session.UpdatePolicy(r.now(), liveness.Policy{Timeout: 5 * unit})
		if err != nil || p.Timeout != 5*unit || p.Interval != 5*unit/3 {
			r.Errorf("Repace = %+v, %v", p, err)
		}
		if v := r.device("a"); v.Policy != p || v.From != "announced" {
			r.Errorf("policy %+v from %q", v.Policy, v.From)
		}
		r.listen(4 * unit)
		session.Beat(r.now())
		r.listen(5 * unit)
		r.want(
			"a:1 device.online at 0 seen 0 due 30 silent 0",
			"a:2 device.changed at 20 seen 20 due 25 silent 0",
			"a:3 device.offline silence at 29 seen 24 due 29 silent 5",
		)
		if _, err := session.UpdatePolicy(r.now(), liveness.Policy{Timeout: 50 * unit}); err != nil {
			r.Error(err)
		}
		r.want("a:4 device.online at 29 seen 29 due 79 silent 0")
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
