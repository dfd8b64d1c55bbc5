package delivery_test

import (
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/delivery"
	"github.com/holter-iot/holter/internal/jobs"
)

// The age of the oldest job counts from its event, or from when it was to run, whatever keeps it from
// being delivered.
func TestOldest(t *testing.T) {
	k := &recorder{}
	r := newRig(t, memory(k))
	r.endpoint("ops", "memory", "", "")
	now := time.Now()
	wantAge := func(what string, want time.Duration) {
		t.Helper()
		r.check(r.engine.FindOldest(t.Context(), now))
		q := r.engine.Stats().Queues[0]
		if age := q.Age(now); !q.OldestKnown || age < want || age > want+10*time.Second {
			t.Errorf("%s: the oldest job is %v old, want %v: %+v", what, age, want, q)
		}
	}
	wantAge("no jobs", 0)
	r.check(r.engine.PauseQueue(t.Context(), jobs.DefaultQueue, true))
	_, err := r.engine.Enqueue(t.Context(), delivery.Request{Endpoint: "ops", Body: []byte(`1`), RunAt: now.Add(time.Hour)})
	r.check(err)
	wantAge("it is to run later", 0)
	events := r.events("dev-1", "dev-2")
	events[0].Time = now.Add(-30 * time.Minute)
	r.check(r.store.Append(t.Context(), events))
	wantAge("an event", 30*time.Minute)
	_, err = r.engine.Enqueue(t.Context(), delivery.Request{Endpoint: "ops", Body: []byte(`2`)})
	r.check(err)
	wantAge("a job after it", 30*time.Minute)
	now = now.Add(2 * time.Hour)
	wantAge("all may run", 2*time.Hour+30*time.Minute)
	r.end()
	r.start()
	r.until("the oldest job is known after a restart", func() bool { return r.engine.Stats().Queues[0].OldestKnown })
	wantAge("a restart", 2*time.Hour+30*time.Minute)
	r.check(r.engine.PauseQueue(t.Context(), jobs.DefaultQueue, false))
	r.until("three were delivered", func() bool { return len(k.got()) == 3 && r.engine.Stats().Queues[0].Jobs == 1 })
	wantAge("the one that is to run later is left", time.Hour)
	n, err := r.engine.Jobs().Delete(t.Context(), jobs.Filter{})
	if r.check(err); n != 1 {
		t.Errorf("%d jobs were deleted, want 1", n)
	}
	if q := r.engine.Stats().Queues[0]; !q.Oldest.IsZero() || !q.OldestKnown {
		t.Errorf("a queue without jobs: %+v", q)
	}
}
