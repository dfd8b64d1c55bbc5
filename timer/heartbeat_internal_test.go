package timer

import (
	"sync"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/test/testwait"
)

// A heartbeat allocates nothing, leaves the heap alone and takes no lock: all locks of the engine are held while each timer is touched.
func TestTouchIsOneAtomicUpdate(t *testing.T) {
	clock := new(Manual)
	e, err := Start(Config{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	g, err := e.Group(func([]Expired) {})
	if err != nil {
		t.Fatal(err)
	}
	const timers = 10_000
	ids, now := make([]ID, timers), time.Duration(0)
	for i := range ids {
		if ids[i], err = g.Arm(now, time.Minute, 0); err != nil {
			t.Fatal(err)
		}
	}
	touch := func() (touched int) {
		now += Resolution
		for _, id := range ids {
			if e.Touch(id, now) {
				touched++
			}
		}
		return touched
	}
	if n := testing.AllocsPerRun(5, func() { touch() }); n != 0 {
		t.Errorf("%v allocations for %d heartbeats, want none", n, timers)
	}
	before := e.Stats()
	locks := []*sync.Mutex{&e.mu}
	for _, s := range e.shards {
		locks = append(locks, &s.mu)
	}
	locks = append(locks, &e.ready.mu, &e.channels.mu, &clock.mu)
	held := make(chan int, 1) // for the one value; never closed
	func() {
		for _, mu := range locks {
			mu.Lock()
			defer mu.Unlock()
		}
		go func() { held <- touch() }()
		testwait.Until(t, "heartbeats while all locks are held", func() bool { return len(held) > 0 })
	}()
	if touched := <-held; touched != timers {
		t.Errorf("%d of %d timers were touched", touched, timers)
	}
	if after := e.Stats(); after != before {
		t.Errorf("heartbeats changed more than the deadlines: %+v, before %+v", after, before)
	}
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
