package delivery_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/holter-iot/holter/internal/delivery"
	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/jobs"
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
