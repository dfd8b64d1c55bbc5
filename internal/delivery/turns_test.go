package delivery_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/delivery"
	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/jobs"
)

// untilClaimed waits until all jobs after a number are claimed, and those that are lie in memory.
func (r *rig) untilClaimed(after uint64) {
	r.tb.Helper()
	r.until("all are claimed", func() bool {
		views, err := r.engine.Jobs().List(r.tb.Context(), jobs.Filter{}, 2000, time.Now())
		r.check(err)
		claimed := 0
		for _, v := range views {
			switch {
			case v.State == jobs.StateClaimed:
				claimed++
			case v.ID > after:
				return false
			}
		}
		return r.engine.Stats().Queues[0].Held == claimed
	})
}

// Light jobs do not wait until a thousand heavy ones before them are done.
func TestLightBesideHeavy(t *testing.T) {
	const workers, heavy, light = 4, 1000, 8
	h := newHeld()
	r := newRig(t, memory(&h.recorder))
	r.queue(func(q *jobs.Queue) { q.Concurrency = workers })
	r.endpoint("m", "memory", "", "")
	t.Cleanup(func() { // what is being delivered ends
		n, err := r.engine.DeleteJobs(context.Background(), jobs.Filter{})
		if err != nil || n < heavy-2*light {
			t.Errorf("%d jobs were deleted, %v", n, err)
		}
		close(h.end)
	})
	specs := make([]jobs.Spec, heavy)
	for i := range specs {
		specs[i] = jobs.Spec{Lane: r.lane(jobs.DefaultQueue, "m"), Body: jobs.Body{Name: "heavy", Data: []byte("1"), Created: time.Now()}}
	}
	_, err := r.engine.Jobs().Enqueue(t.Context(), specs)
	r.check(err)
	for range workers {
		<-h.began
	}
	for i := range light {
		r.enqueue(delivery.Request{Endpoint: "m", Name: "light", Key: strconv.Itoa(i), Body: []byte("0")})
	}
	r.untilClaimed(heavy)
	begun := 0
	for range 2 * light { // at least every other one is light: of equally many, those that began first end first
		h.end <- sink.Result{}
		if m := <-h.began; string(m.Data) == "0" {
			begun++
		}
	}
	if begun != light {
		t.Errorf("%d light jobs are among the next %d, want %d", begun, 2*light, light)
	}
}

// A name with a weight of 3 has three turns for one of another name, and job routes give it that while
// its jobs are in memory.
func TestWeights(t *testing.T) {
	h := newHeld()
	r := newRig(t, memory(&h.recorder))
	r.queue(func(q *jobs.Queue) { q.Concurrency = 1 })
	r.endpoint("m", "memory", "", "")
	first := r.enqueue(delivery.Request{Endpoint: "m", Body: []byte("0")})
	<-h.began
	for range 8 {
		for _, name := range []string{"a", "b"} {
			r.enqueue(delivery.Request{Endpoint: "m", Name: name, Body: []byte(`"` + name + `"`)})
		}
	}
	r.untilClaimed(first)
	r.check(r.engine.PutJobRoute(t.Context(), jobs.JobRoute{Name: "a", Jobs: "a*", Weight: 3}))
	count := make(map[string]int)
	for range 8 {
		h.end <- sink.Result{}
		m := <-h.began
		count[string(m.Data)]++
	}
	if count[`"a"`] != 6 || count[`"b"`] != 2 {
		t.Errorf("of the next 8 deliveries %v were of each name, want 6 and 2", count)
	}
	close(h.end)
	r.idle()
}

// Who sends a job names it: a job route gives it an endpoint and a queue, and moves those that wait.
func TestJobRouteOfRequest(t *testing.T) {
	h := newHeld()
	r := newRig(t, memory(&h.recorder))
	r.endpoint("m", "memory", "", "")
	slow := jobs.NewQueue("slow")
	slow.Paused = true
	r.check(r.engine.PutQueue(t.Context(), slow))
	r.queue(func(q *jobs.Queue) { q.Paused = true })
	_, err := r.engine.Enqueue(t.Context(), delivery.Request{Name: "report.pdf", Body: []byte("1")})
	if !errors.Is(err, jobs.ErrBad) {
		t.Fatalf("Enqueue without a route: %v, want ErrBad", err)
	}
	r.check(r.engine.PutJobRoute(t.Context(), jobs.JobRoute{Name: "reports", Jobs: "report.*", Endpoint: r.lane("slow", "m").Endpoint, Weight: 1}))
	r.enqueue(delivery.Request{Name: "report.pdf", Key: "k", Body: []byte("1")})
	if n, err := r.engine.MoveJobs(t.Context(), "report.*", "slow"); n != 1 || err != nil {
		t.Fatalf("MoveJobs = %d, %v", n, err)
	}
	route, err := r.engine.JobRoute("reports")
	r.check(err)
	route.Queue = r.lane("slow", "m").Queue
	r.check(r.engine.PutJobRoute(t.Context(), route))
	r.enqueue(delivery.Request{Name: "report.pdf", Key: "k", Body: []byte("2")})
	r.enqueue(delivery.Request{Name: "report.pdf", Endpoint: "m", Queue: jobs.DefaultQueue, Body: []byte("3")})
	if n := r.engine.Jobs().Depths(); n[r.lane("slow", "m")] != 2 || n[r.lane(jobs.DefaultQueue, "m")] != 1 {
		t.Errorf("the depths are %v", n)
	}
	if _, err := r.engine.MoveJobs(t.Context(), "*", "none"); !errors.Is(err, jobs.ErrUnknown) {
		t.Errorf("MoveJobs to an unknown queue: %v", err)
	}
	if _, err := r.engine.Enqueue(t.Context(), delivery.Request{Queue: "none", Endpoint: "m", Body: []byte("1")}); !errors.Is(err, jobs.ErrUnknown) {
		t.Errorf("Enqueue in an unknown queue: %v, want ErrUnknown", err)
	}
	if err := r.engine.DeleteQueue(t.Context(), "slow"); !errors.Is(err, jobs.ErrInUse) {
		t.Errorf("DeleteQueue: %v, want ErrInUse", err)
	}
	r.check(r.engine.PauseQueue(t.Context(), "slow", false))
	for _, want := range []string{"1", "2"} {
		if m := <-h.began; string(m.Data) != want {
			t.Errorf("%s came, want %s", m.Data, want)
		}
		h.end <- sink.Result{}
	}
	r.check(r.engine.DeleteJobRoute(t.Context(), "reports"))
	_, err = r.engine.DeleteJobs(t.Context(), jobs.Filter{})
	r.check(err)
	r.idle()
}

// A job of high priority is the next, one of low priority the last; and what is shown of a job tells
// when its delivery began, and what the receiver answered.
func TestPriorities(t *testing.T) {
	h := newHeld()
	r := newRig(t, memory(&h.recorder))
	r.queue(func(q *jobs.Queue) { q.Concurrency = 1 })
	r.endpoint("m", "memory", "", "")
	first := r.enqueue(delivery.Request{Endpoint: "m", Body: []byte("0")})
	<-h.began
	if at := r.engine.Started(first); at.IsZero() || time.Since(at) > time.Minute {
		t.Errorf("Started = %v while the job is being delivered", at)
	}
	for _, p := range []jobs.Priority{jobs.PriorityLow, jobs.PriorityNormal, jobs.PriorityHigh, jobs.PriorityLow, jobs.PriorityHigh} {
		r.enqueue(delivery.Request{Endpoint: "m", Priority: p, Body: []byte(strconv.Itoa(int(p)))})
	}
	r.untilClaimed(first)
	var order []string
	for range 5 {
		h.end <- sink.Result{Status: 202, Response: "taken"}
		m := <-h.began
		order = append(order, string(m.Data))
	}
	if want := []string{"1", "1", "0", "-1", "-1"}; !slices.Equal(order, want) {
		t.Errorf("the jobs were delivered in the order of their priorities %v, want %v", order, want)
	}
	close(h.end)
	r.idle()
	v, err := r.engine.Jobs().Get(t.Context(), first, time.Now())
	if err != nil || v.State != jobs.StateDone || v.Status != 202 || v.Response != "taken" || v.Started.IsZero() || v.Ended.Before(v.Started) {
		t.Errorf("the delivered job is shown as %+v, %v", v, err)
	}
	if !r.engine.Started(first).IsZero() {
		t.Error("Started of a job that ended is not zero")
	}
}
