package delivery_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/delivery"
	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/internal/test/testdb"
)

// Endpoints that hang leave deliveries of their queue to the others.
func TestHangingEndpointsBesideFast(t *testing.T) {
	for _, tt := range []struct{ deliveries, hanging int }{{2, 1}, {3, 1}, {32, 1}, {32, 2}} {
		t.Run(fmt.Sprintf("deliveries=%d/hanging=%d", tt.deliveries, tt.hanging), func(t *testing.T) {
			end := make(chan struct{})
			hanging, fast := &recorder{}, &recorder{}
			hanging.deliver = func(messages []sink.Message) []sink.Result {
				<-end
				return make([]sink.Result, len(messages))
			}
			cfg := memory(hanging)
			cfg.Kinds["fast"] = memory(fast).Kinds["memory"]
			r := newRig(t, cfg)
			defer close(end)
			r.queue(func(q *jobs.Queue) { q.Concurrency = tt.deliveries })
			r.check(r.engine.PauseQueue(t.Context(), jobs.DefaultQueue, true))
			for i := range tt.hanging {
				r.endpoint(fmt.Sprint("hanging-", i), "memory", "", "")
			}
			r.endpoint("fast", "fast", "", "")
			for i := range 100 {
				r.append(fmt.Sprint("dev-", i+1))
			}
			r.check(r.engine.PauseQueue(t.Context(), jobs.DefaultQueue, false))
			r.until("the fast endpoint has all", func() bool { return len(fast.got()) == 100 })
		})
	}
}

// A slow endpoint, however many jobs it has under however many names, keeps no other endpoint of its queue
// from its jobs.
func TestSlowEndpointBesideFast(t *testing.T) {
	const names, each = 12, 1000
	slow, fast := newHeld(), &recorder{}
	slow.deliver = func(messages []sink.Message) []sink.Result {
		slow.began <- messages[0]
		return sink.Repeat(len(messages), <-slow.end)
	}
	cfg := memory(&slow.recorder)
	cfg.Kinds["fast"] = memory(fast).Kinds["memory"]
	kinds := testdb.Databases()
	r := newRigOn(t, kinds[len(kinds)-1].URL(t), cfg) // in make check not SQLite, which is slow with the race detector
	r.queue(func(q *jobs.Queue) { q.Concurrency = 4 })
	r.endpoint("slow", "memory", "", `{"batch":300}`)
	r.endpoint("fast", "fast", "", "")
	t.Cleanup(func() { // what is being delivered ends
		_, err := r.engine.DeleteJobs(context.Background(), jobs.Filter{})
		if err != nil {
			t.Error(err)
		}
		close(slow.end)
	})
	var specs []jobs.Spec
	for i := range names * each {
		specs = append(specs, jobs.Spec{
			Lane: r.lane(jobs.DefaultQueue, "slow"), Body: jobs.Body{Name: fmt.Sprint("n", i%names), Data: []byte("1"), Created: time.Now()},
		})
	}
	_, err := r.engine.Jobs().Enqueue(t.Context(), specs)
	r.check(err)
	for range 4 {
		<-slow.began
	}
	r.until("memory is full of the slow one's jobs", func() bool { return r.engine.Stats().Queues[0].Held >= 10_000 })
	for range 5 {
		r.enqueue(delivery.Request{Endpoint: "fast", Body: []byte("2")})
	}
	r.until("the fast one's jobs are in memory, too", func() bool { return r.engine.Stats().Queues[0].Held >= 10_005 })
	slow.end <- sink.Result{} // from here on one delivery is left to the other endpoint
	r.until("the fast one has all of its jobs", func() bool { return len(fast.got()) == 5 })
}
