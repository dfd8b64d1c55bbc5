package liveness_test

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/operate"
	"github.com/holter-iot/holter/liveness"
)

func addQuota(t *testing.T, r *liveness.Registry, name string, limit int) operate.Quota {
	t.Helper()
	q, err := r.Operator().AddQuota(name, limit)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// A quota bounds the new devices, not those that are known, and not those that come in another way.
// One that is forgotten makes room, and a restart changes nothing.
func TestQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, began := newShelf(t), time.Now()
		fleet := liveness.Config{Devices: map[string]liveness.Policy{"configured": {}}}
		l := begin(t, k, fleet, began)
		q, other := addQuota(t, l.registry, "port", 2), addQuota(t, l.registry, "other", 1)
		l.pulse()
		open := func(id string, q operate.Quota, want error) {
			t.Helper()
			if _, err := l.source.Open(new(liveness.Session), id, liveness.Hello{Quota: q}, nil, l.now()); !errors.Is(err, want) || (err == nil) != (want == nil) {
				t.Errorf("Open(%s) = %v, want %v", id, err, want)
			}
			synctest.Wait()
		}
		open("known", nil, nil)
		open("a", q, nil)
		open("b", q, nil)
		open("c", q, liveness.ErrQuota)
		open("known", q, nil)
		open("configured", q, nil)
		open("a", q, nil)
		open("c", other, nil)
		open("d", other, liveness.ErrQuota)
		open("d", nil, nil)
		if n, st := q.Devices(), l.registry.Stats(); n != 2 || st.Devices != 6 || l.registry.Operator().Known("x") {
			t.Errorf("%d devices of %d count, want 2 of 6", n, st.Devices)
		}
		if err := l.registry.Forget("a"); err != nil || q.Devices() != 1 {
			t.Errorf("Forget = %v, then %d devices count", err, q.Devices())
		}
		open("e", q, nil)
		open("a", q, liveness.ErrQuota)
		l.stop()
		r := newRegistry(t, k, fleet)
		q = addQuota(t, r, "port", 1) // less than there are
		k.checkpoint(l.registry)
		if err := k.restore(r); err != nil {
			t.Fatal(err)
		}
		l.stop, l.registry = start(t, r), r
		defer func() { l.stop() }()
		l.source = addSource(t, r, liveness.SourceConfig{Name: "edge"})
		l.pulse()
		if q.Devices() != 2 {
			t.Errorf("after a restart %d devices count, want 2", q.Devices())
		}
		open("f", q, liveness.ErrQuota)
		open("b", q, nil)
		if err := errors.Join(r.Forget("b"), r.Forget("e"), r.Forget("known")); err != nil || q.Devices() != 0 {
			t.Errorf("Forget = %v, then %d devices count", err, q.Devices())
		}
		open("f", q, nil)
	})
}

func TestAddQuota(t *testing.T) {
	r := newRegistry(t, discard{}, liveness.Config{})
	addQuota(t, r, "a", 1)
	for name, limit := range map[string]int{"a": 1, "": 1, "b\n": 1, "c": 0, "d": -1} {
		if _, err := r.Operator().AddQuota(name, limit); err == nil {
			t.Errorf("AddQuota(%q, %d) = nil", name, limit)
		}
	}
	for i := range 254 {
		addQuota(t, r, strconv.Itoa(i), 1)
	}
	if _, err := r.Operator().AddQuota("one more", 1); err == nil {
		t.Error("there are 256 quotas")
	}
}

// A quota and the registry's own limit hold also if many come at once.
func TestQuotaConcurrently(t *testing.T) {
	for _, all := range []int{1000, 50} {
		r := newRegistry(t, discard{}, liveness.Config{MaxDevices: all})
		stop := start(t, r)
		s := addSource(t, r, liveness.SourceConfig{Name: "edge"})
		q := addQuota(t, r, "port", 100)
		s.Pulse(time.Now())
		var workers sync.WaitGroup
		var opened atomic.Int64
		for worker := range 4 {
			workers.Go(func() {
				for i := range 200 {
					switch _, err := s.Open(new(liveness.Session), fmt.Sprint(worker, "-", i), liveness.Hello{Quota: q}, nil, s.Now()); {
					case err == nil:
						opened.Add(1)
					case !errors.Is(err, liveness.ErrQuota) && !errors.Is(err, liveness.ErrFull):
						t.Error(err)
					}
				}
			})
		}
		workers.Wait()
		if want := min(all, 100); int(opened.Load()) != want || q.Devices() != want || r.Stats().Devices != want {
			t.Errorf("%d opened, %d count, %d are there, want %d", opened.Load(), q.Devices(), r.Stats().Devices, want)
		}
		stop()
	}
}
