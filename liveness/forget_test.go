package liveness_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/operate"
	"github.com/holter-iot/holter/liveness"
)

// flood makes devices that go offline at once, and one that lives after every so many of them.
func flood(t *testing.T, r *liveness.Registry, s *liveness.Source, name string, n, every int) (alive []*liveness.Session) {
	t.Helper()
	for i := range n {
		if i%1000 == 0 {
			if err := r.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		gone := liveness.Signal{Kind: liveness.Disconnected, At: s.Now(), Reason: liveness.Closed}
		if _, err := s.Apply(fmt.Sprintf("%s-%06d-with-a-long-id", name, i), gone); err != nil {
			t.Fatal(err)
		}
		if i%every == 0 {
			session := new(liveness.Session)
			if _, err := s.Open(session, fmt.Sprintf("alive-%s-%d", name, i), liveness.Hello{}, nil, s.Now()); err != nil {
				t.Fatal(err)
			}
			alive = append(alive, session)
		}
	}
	return alive
}

// forgetOffline forgets all devices that are offline.
func forgetOffline(t *testing.T, r *liveness.Registry) (n int) {
	t.Helper()
	for at := uint64(0); ; {
		next, some, err := r.Operator().ForgetSilent(at, 1000, operate.Forgetting{Message: "a test"}, operate.Forgetting{})
		if err != nil && !errors.Is(err, liveness.ErrBusy) {
			t.Fatal(err)
		}
		if err := r.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if at, n = next, n+some; at == 0 && err == nil {
			return n
		}
	}
}

// The memory of devices that came in a flood is given back when they are forgotten, also if some
// that came among them live on, and however often that happens. Those that live are not disturbed.
func TestForgottenMemory(t *testing.T) {
	const strangers, every, rounds = 60_000, 500, 2
	r := newRegistry(t, discard{}, liveness.Config{})
	defer start(t, r)()
	s := addSource(t, r, liveness.SourceConfig{Name: "edge"})
	s.Pulse(time.Now())
	alive := flood(t, r, s, "first", strangers, every) // then what is bounded, such as the queue of events, has the size that it keeps
	forgetOffline(t, r)
	before, most := heapBytes(), uint64(0)
	for i := range rounds {
		alive = append(alive, flood(t, r, s, fmt.Sprint("round", i), strangers, every)...)
		most = max(most, heapBytes())
		if n := forgetOffline(t, r); n != strangers {
			t.Fatalf("%d devices forgotten, want %d", n, strangers)
		}
	}
	after := heapBytes()
	t.Logf("heap: %d KB before, %d KB at most, %d KB after", before>>10, most>>10, after>>10)
	if grown := max(after, before) - before; grown > 3<<20 || grown > (most-before)/5 {
		t.Errorf("%d of the %d KB of the floods stay", grown>>10, (most-before)>>10)
	}
	for i, session := range alive {
		if !session.Beat(s.Now()) {
			t.Fatalf("session %d of %d has ended", i, len(alive))
		}
	}
	if views, _ := r.List(nil, 0, 1000); len(views) != len(alive) || r.Stats().Devices != len(alive) {
		t.Errorf("%d devices are listed, %d are counted, want %d", len(views), r.Stats().Devices, len(alive))
	}
	if _, heard := r.Keeper().Snapshot(nil); len(heard) > strangers+2*len(alive)+1000 {
		t.Errorf("numbers go up to %d", len(heard))
	}
}

// A device that has the place of a forgotten one has nothing to do with that one's session.
func TestForgottenPlace(t *testing.T) {
	log := newLog(t, 1000)
	r := newRegistry(t, log, liveness.Config{})
	defer start(t, r)()
	s := addSource(t, r, liveness.SourceConfig{Name: "edge"})
	s.Pulse(time.Now())
	for i := range 200 {
		old, anew := new(liveness.Session), new(liveness.Session)
		was, is := fmt.Sprint("was-", i), fmt.Sprint("is-", i)
		if _, err := s.Open(old, was, liveness.Hello{}, nil, s.Now()); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(r.Forget(was), r.Commit(t.Context())); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Open(anew, is, liveness.Hello{}, nil, s.Now()); err != nil {
			t.Fatal(err)
		}
		if old.Beat(s.Now()) || old.Bye(s.Now()) || old.Close(s.Now(), liveness.Closed) || old.ID() != was {
			t.Fatalf("the session of %s goes on as that of %s", was, old.ID())
		}
		if err := r.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if v, err := r.Device(is); err != nil || v.State != liveness.Online || !anew.Beat(s.Now()) {
			t.Fatalf("%s is %v, %v", is, v.State, err)
		}
	}
	events, err := log.Read(nil, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if e.Type == liveness.DeviceForgotten && (e.Seq != 2 || e.Subject[:4] != "was-") {
			t.Errorf("%+v", e)
		}
	}
}

// Devices that nothing but the registry holds are found after collections of garbage, and those
// that were forgotten among them are not.
func TestForgottenLookup(t *testing.T) {
	const devices, rounds = 3000, 3
	r := newRegistry(t, discard{}, liveness.Config{})
	defer start(t, r)()
	s := addSource(t, r, liveness.SourceConfig{Name: "edge"})
	s.Pulse(time.Now())
	for round := range rounds {
		for i := range devices {
			if _, err := s.Apply(fmt.Sprint("device-", i), liveness.Signal{At: s.Now()}); err != nil {
				t.Fatal(err)
			}
		}
		for i := range devices {
			if i%3 == round {
				if err := r.Forget(fmt.Sprint("device-", i)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := r.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		heapBytes()
		for i := range devices {
			id := fmt.Sprint("device-", i)
			v, err := r.Device(id)
			if forgotten := i%3 == round; forgotten != errors.Is(err, liveness.ErrUnknownDevice) || !forgotten && v.ID != id {
				t.Fatalf("round %d: Device(%s) = %s, %v", round, id, v.ID, err)
			}
		}
	}
}
