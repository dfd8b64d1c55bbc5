package delivery_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holter-iot/holter/delivery"
	"github.com/holter-iot/holter/delivery/sink"
	"github.com/holter-iot/holter/jobs"
)

// What the tests of github.com/fireworq/fireworq ask of its service and its dispatcher (service/service_test.go and
// dispatcher/dispatcher_test.go), told anew.

// bodies is a sink that keeps what it gets in its order.
func bodies() (k *recorder, got func() string) {
	var mu sync.Mutex // guards the list
	var list []string
	k = &recorder{deliver: func(messages []sink.Message) []sink.Result {
		mu.Lock()
		defer mu.Unlock()
		for _, m := range messages {
			list = append(list, string(m.Data))
		}
		return make([]sink.Result, len(messages))
	}}
	return k, func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(list, " ")
	}
}

// One worker delivers the jobs of a queue in their order (TestKick).
func TestFireworqOrder(t *testing.T) {
	k, got := bodies()
	r := newRig(t, memory(k))
	r.endpoint("m", "memory", "", "")
	r.queue(func(q *jobs.Queue) { q.Concurrency, q.Paused = 1, true })
	var want []string
	for i := range 15 {
		r.enqueue(delivery.Request{Endpoint: "m", Body: fmt.Append(nil, i)})
		want = append(want, strconv.Itoa(i))
	}
	r.check(r.engine.PauseQueue(t.Context(), jobs.DefaultQueue, false))
	r.idle()
	if got := got(); got != strings.Join(want, " ") {
		t.Errorf("delivered %s, want %s", got, strings.Join(want, " "))
	}
}

// So many jobs are delivered at a time as the queue has workers, all of them if it has more than there are jobs (TestWorkConcurrently
// and TestStats). Their number counts at once when it is changed; when it shrinks, what goes on ends first.
func TestFireworqWorkers(t *testing.T) {
	h := newHeld()
	r := newRig(t, memory(&h.recorder))
	r.endpoint("m", "memory", "", "")
	workers := func(n int) { r.queue(func(q *jobs.Queue) { q.Concurrency = n }) }
	workers(3)
	const all = 20
	for range all {
		r.enqueue(delivery.Request{Endpoint: "m"})
	}
	begun := 0
	want := func(when string, running int) {
		t.Helper()
		for ; begun < running; begun++ {
			<-h.began
		}
		r.until(fmt.Sprintf("%s: %d run", when, running), func() bool { return r.engine.Stats().Queues[0].Running == running })
		select {
		case m := <-h.began:
			t.Errorf("%s: %s is delivered beside %d others", when, m.ID, running)
		default:
		}
	}
	end := func(n int) {
		for range n {
			h.end <- sink.Result{}
		}
		begun -= n
	}
	want("three workers", 3)
	end(2)
	want("two have ended", 3)
	workers(6)
	want("more workers", 6)
	workers(2)
	end(4)
	want("fewer workers", 2)
	workers(all)
	want("more workers than jobs", all-6)
	r.until("6 jobs are delivered and acked", func() bool {
		st := r.engine.Stats().Queues[0]
		return st.Delivered == 6 && st.Jobs == all-6
	})
	close(h.end)
	r.idle()
}

// A queue whose rate is spent keeps its jobs, and an engine that ends delivers none of them (TestThrottling).
func TestFireworqThrottling(t *testing.T) {
	k, got := bodies()
	r := newRig(t, memory(k))
	r.endpoint("m", "memory", "", "")
	r.queue(func(q *jobs.Queue) { q.Rate, q.Concurrency = 0.001, 20 })
	for i := range 15 {
		r.enqueue(delivery.Request{Endpoint: "m", Body: fmt.Append(nil, i)})
	}
	r.until("one is delivered", func() bool { return r.engine.Stats().Queues[0].Delivered == 1 })
	r.end()
	if got := got(); got != "0" {
		t.Errorf("delivered %s, want 0 only", got)
	}
	r.start()
	if n := r.engine.Stats().Queues[0].Jobs; n != 14 {
		t.Errorf("%d jobs are left after a restart, want 14", n)
	}
	r.queue(func(q *jobs.Queue) { q.Rate = 0 })
	r.idle()
	if n := len(strings.Fields(got())); n != 15 {
		t.Errorf("%d deliveries, want 15", n)
	}
}

// A category without a route is refused, before its route is made and after it was deleted (TestRoutingMishit and TestPushFailure).
func TestFireworqRoutingMishit(t *testing.T) {
	k, got := bodies()
	r := newRig(t, memory(k))
	r.endpoint("m", "memory", "", "")
	r.check(r.engine.PutQueue(t.Context(), jobs.NewQueue("slow")))
	push := func(body string) error {
		_, err := r.engine.Enqueue(t.Context(), delivery.Request{Name: "report", Body: []byte(body)})
		return err
	}
	if err := push("1"); !errors.Is(err, jobs.ErrBad) {
		t.Errorf("Enqueue before the route = %v, want ErrBad", err)
	}
	to := r.lane("slow", "m")
	r.check(r.engine.PutJobRoute(t.Context(), jobs.JobRoute{Name: "reports", Jobs: "report", Queue: to.Queue, Endpoint: to.Endpoint, Weight: 1}))
	r.check(push("2"))
	r.idle()
	r.check(r.engine.DeleteJobRoute(t.Context(), "reports"))
	if err := push("3"); !errors.Is(err, jobs.ErrBad) {
		t.Errorf("Enqueue after the route = %v, want ErrBad", err)
	}
	r.idle()
	if st := r.engine.Stats(); got() != "2" || st.Queues[1].Delivered != 1 || st.Queues[0].Delivered != 0 {
		t.Errorf("delivered %s, stats %+v, want 2 by the queue of the route", got(), st.Queues)
	}
}

// Jobs that fail for good, at once or after their tries, are in the list of failures with what was answered to each, can be found and
// deleted there one by one, and hold up no others (TestFailureLogging and TestStats). Tries are those of the queue here, and a status of
// HTTP says what a field of the answer says there.
func TestFireworqFailures(t *testing.T) {
	rc := newReceiver(t, func(_ int, q request, w http.ResponseWriter) {
		switch q.body {
		case `"failure"`:
			w.WriteHeader(http.StatusInternalServerError)
		case `"permanent-failure"`:
			w.WriteHeader(http.StatusUnprocessableEntity)
		}
		_, _ = w.Write([]byte("answer to " + q.body))
	})
	r := newRig(t, delivery.Config{})
	r.queue(quick)
	r.queue(func(q *jobs.Queue) { q.Attempts, q.Concurrency = 3, 1 })
	want := make(map[uint64]string)
	tries := map[string]int{"success": 1, "failure": 3, "permanent-failure": 1}
	requests := 0
	for _, body := range []string{"failure", "success", "permanent-failure", "success", "failure"} {
		id := r.enqueue(delivery.Request{URL: rc.URL, Body: []byte(`"` + body + `"`)})
		if requests += tries[body]; body != "success" {
			want[id] = body
		}
	}
	r.idle()
	if st := r.engine.Stats().Queues[0]; st.Delivered != 2 || st.Dead != 3 || st.Retried != 4 || len(rc.got()) != requests {
		t.Errorf("stats %+v, %d requests, want 2 delivered, 3 dead, 4 tried again, and %d", st, len(rc.got()), requests)
	}
	dead := r.dead()
	if len(dead) != len(want) || !slices.IsSortedFunc(dead, func(a, b jobs.DeadLetter) int { return int(a.ID) - int(b.ID) }) {
		t.Fatalf("dead letters %+v, want %d by number", dead, len(want))
	}
	list := r.engine.Jobs()
	var messages []string
	for i := range dead {
		body := strings.Trim(string(dead[i].Data), `"`)
		messages = append(messages, dead[i].Message)
		if dead[i].Attempts != tries[body] || dead[i].Response != `answer to "`+body+`"` || dead[i].URL != rc.URL {
			t.Errorf("dead letter %+v, want one after %d attempts with its answer", dead[i], tries[body])
		}
		filter := jobs.Filter{IDs: []uint64{dead[i].ID}}
		found, err := list.Dead(t.Context(), filter, 10)
		if err != nil || len(found) != 1 || found[0].Message != dead[i].Message {
			t.Errorf("Dead(%d) = %+v, %v", dead[i].ID, found, err)
		}
		if n, err := list.DeleteDead(t.Context(), filter); n != 1 || err != nil {
			t.Errorf("DeleteDead(%d) = %d, %v", dead[i].ID, n, err)
		}
		if found, err := list.Dead(t.Context(), filter, 10); err != nil || len(found) != 0 {
			t.Errorf("Dead(%d) of a deleted one = %+v, %v", dead[i].ID, found, err)
		}
	}
	for id, body := range want {
		if !slices.Contains(messages, fmt.Sprint("job:", id)) {
			t.Errorf("job %d, a %s, is not among the dead letters %v", id, body, messages)
		}
	}
}

// A queue can be deleted when it is empty, and only then; jobs that name it afterwards are refused, until it is made again with the
// settings of a new one (TestAddJobQueue and TestDeleteJobQueue).
func TestFireworqDeleteQueue(t *testing.T) {
	k, got := bodies()
	r := newRig(t, memory(k))
	r.endpoint("m", "memory", "", "")
	slow := jobs.NewQueue("slow")
	slow.Paused, slow.Concurrency = true, 7
	r.check(r.engine.PutQueue(t.Context(), slow))
	id := r.enqueue(delivery.Request{Queue: "slow", Endpoint: "m", RunAt: time.Now().Add(time.Hour)})
	if err := r.engine.DeleteQueue(t.Context(), "slow"); !errors.Is(err, jobs.ErrInUse) {
		t.Errorf("DeleteQueue with a job = %v, want ErrInUse", err)
	}
	if n, err := r.engine.DeleteJobs(t.Context(), jobs.Filter{IDs: []uint64{id}}); n != 1 || err != nil {
		t.Errorf("DeleteJobs = %d, %v", n, err)
	}
	r.check(r.engine.DeleteQueue(t.Context(), "slow"))
	if _, err := r.engine.Queue("slow"); !errors.Is(err, jobs.ErrUnknown) {
		t.Errorf("Queue = %v, want ErrUnknown", err)
	}
	if _, err := r.engine.Enqueue(t.Context(), delivery.Request{Queue: "slow", Endpoint: "m", Body: []byte("1")}); !errors.Is(err, jobs.ErrUnknown) {
		t.Errorf("Enqueue = %v, want ErrUnknown", err)
	}
	r.check(r.engine.PutQueue(t.Context(), jobs.NewQueue("slow")))
	if q, err := r.engine.Queue("slow"); err != nil || q.Paused || q.Concurrency != jobs.NewQueue("slow").Concurrency {
		t.Errorf("Queue = %+v, %v, want a new one", q, err)
	}
	r.enqueue(delivery.Request{Queue: "slow", Endpoint: "m", Body: []byte("2")})
	r.idle()
	if got := got(); got != "2" {
		t.Errorf("delivered %s, want 2", got)
	}
}
