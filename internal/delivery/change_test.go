package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/delivery"
	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/jobs"
)

// held is a recorder whose deliveries begin, and end when they are let, in the order in which they began.
type held struct {
	recorder

	began chan sink.Message
	end   chan sink.Result

	mu   sync.Mutex    // guards last
	last chan struct{} // closed when the delivery that began last has ended
}

func newHeld() *held {
	h := &held{began: make(chan sink.Message, 100), end: make(chan sink.Result), last: make(chan struct{})}
	close(h.last)
	h.deliver = func(messages []sink.Message) []sink.Result {
		ended := make(chan struct{})
		defer close(ended)
		h.mu.Lock()
		before := h.last
		h.last = ended
		h.began <- messages[0]
		h.mu.Unlock()
		<-before
		return []sink.Result{<-h.end}
	}
	return h
}

func (r *rig) enqueue(q delivery.Request) uint64 {
	r.tb.Helper()
	if q.Body == nil {
		q.Body = []byte("{}")
	}
	n, err := r.engine.Enqueue(r.tb.Context(), q)
	r.check(err)
	return n
}

// A delivery that goes on keeps nobody from changing anything, not even when it disables its endpoint.
func TestChangesDoNotWait(t *testing.T) {
	h := newHeld()
	r := newRig(t, memory(&h.recorder))
	r.check(r.engine.PutQueue(t.Context(), jobs.NewQueue("slow")))
	r.endpoint("m", "memory", "", "")
	r.enqueue(delivery.Request{Queue: "slow", Endpoint: "m"})
	<-h.began
	n, err := r.engine.DeleteJobs(t.Context(), jobs.Filter{})
	r.check(err)
	if n != 1 {
		t.Errorf("%d jobs were removed, want 1", n)
	}
	r.check(r.engine.DeleteQueue(t.Context(), "slow"))
	h.end <- sink.Result{Err: errors.New("gone"), Gone: true}
	r.until("its endpoint is disabled", func() bool {
		p, err := r.engine.Endpoint("m")
		return err == nil && p.Disabled
	})
	r.queue(quick)
}

// What was written counts, even if who asked for it does not wait for the answer.
func TestChangeOfWhoIsGone(t *testing.T) {
	r := newRig(t, delivery.Config{})
	q := jobs.NewQueue("z")
	for i := range 100 {
		q.MaxJobs = int64(i + 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*20*time.Microsecond)
		_ = r.engine.PutQueue(ctx, q) // in time or not
		cancel()
	}
	settings, err := r.engine.Jobs().Load(t.Context())
	r.check(err)
	if kept, counts := fmt.Sprint(settings), fmt.Sprint(r.engine.Settings()); kept != counts {
		t.Errorf("kept is %s, what counts is %s", kept, counts)
	}
}

// A job that was deleted is not delivered, even if it was in memory already: behind another one, or waiting for a place.
func TestDeleted(t *testing.T) {
	h := newHeld()
	r := newRig(t, memory(&h.recorder))
	r.queue(func(q *jobs.Queue) { q.Concurrency = 1 })
	r.endpoint("m", "memory", "", "")
	for range 4 {
		r.append("dev-1", "dev-2")
	}
	first := <-h.began
	n, err := r.engine.DeleteJobs(t.Context(), jobs.Filter{})
	r.check(err)
	if n != 8 {
		t.Errorf("%d jobs were removed, want 8", n)
	}
	h.end <- sink.Result{}
	r.append("dev-3")
	if m := <-h.began; m.Key != "dev-3" {
		t.Errorf("%s came after %s", m.ID, first.ID)
	}
	h.end <- sink.Result{}
	r.idle()
}

// Places that jobs with URLs go to do not hold each other up.
func TestHosts(t *testing.T) {
	var asked atomic.Int64
	busy := newReceiver(t, func(n int, _ request, w http.ResponseWriter) {
		asked.Store(int64(n))
		<-time.After(300 * time.Millisecond) // so that five failures take more than a second
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	good := newReceiver(t, nil)
	r := newRig(t, delivery.Config{})
	r.queue(func(q *jobs.Queue) { q.Concurrency = 1 })
	for range 20 {
		r.enqueue(delivery.Request{URL: busy.URL})
	}
	r.until("one has failed", func() bool { return asked.Load() > 0 })
	r.enqueue(delivery.Request{URL: good.URL})
	r.until("the other is delivered", func() bool { return len(good.got()) == 1 })
	r.until("the rest is left alone", func() bool {
		views, err := r.engine.Jobs().List(t.Context(), jobs.Filter{}, 100, time.Now())
		r.check(err)
		return !slices.ContainsFunc(views, func(v jobs.View) bool { return v.State != jobs.StateWaiting })
	})
	if n := len(busy.got()); n != 5 {
		t.Errorf("a host that fails was asked %d times, want 5", n)
	}
}

// A job waits for its turn by the queue's rate as it waits for anything: it can be paused, and the rate be changed.
func TestRate(t *testing.T) {
	k := &recorder{}
	r := newRig(t, memory(k))
	r.queue(func(q *jobs.Queue) { q.Rate = 0.001 })
	r.endpoint("m", "memory", "", "")
	r.append("dev-1", "dev-2", "dev-3")
	r.until("one is delivered", func() bool { return len(k.got()) == 1 })
	r.check(r.engine.PauseQueue(t.Context(), jobs.DefaultQueue, true))
	r.queue(func(q *jobs.Queue) { q.Rate = 1000 })
	r.until("the others are given back", func() bool { return r.engine.Stats().Queues[0].Held == 0 })
	if n := len(k.got()); n != 1 {
		t.Errorf("%d were delivered while the queue was paused", n-1)
	}
	r.check(r.engine.PauseQueue(t.Context(), jobs.DefaultQueue, false))
	r.idle()
}

// A job that is retried now waits neither for the time that its receiver asked for, nor for the breaker of its endpoint.
func TestRetryNow(t *testing.T) {
	var broken atomic.Bool
	broken.Store(true)
	k := &recorder{}
	k.deliver = func([]sink.Message) []sink.Result {
		if broken.Load() {
			return []sink.Result{{Err: errors.New("no"), After: time.Hour}}
		}
		return []sink.Result{{}}
	}
	r := newRig(t, memory(k))
	r.endpoint("m", "memory", "", "")
	r.append("dev-1")
	r.until("it has failed", func() bool { return r.engine.Stats().Queues[0].Retried == 1 && r.engine.Stats().Queues[0].Held == 0 })
	broken.Store(false)
	n, err := r.engine.RetryNow(t.Context(), []jobs.Lane{{Queue: 1, Endpoint: 1}})
	r.check(err)
	if n != 1 {
		t.Errorf("%d are retried now, want 1", n)
	}
	r.idle()
}

// A delivery that the end of the engine has cut off is no attempt.
func TestCutOff(t *testing.T) {
	began := make(chan bool, 1)
	over := make(chan struct{})
	rc := newReceiver(t, func(n int, _ request, _ http.ResponseWriter) {
		if n == 1 {
			began <- true
			<-over
		}
	})
	r := newRig(t, delivery.Config{Grace: time.Millisecond})
	r.queue(func(q *jobs.Queue) { q.Attempts = 1 })
	r.endpoint("ops", "webhook", rc.URL, "")
	r.append("dev-1")
	<-began
	r.end()
	close(over)
	r.start()
	r.idle()
	if n, dead := len(rc.got()), r.dead(); n != 2 || len(dead) != 0 {
		t.Errorf("%d requests, dead letters %+v, want 2 and none", n, dead)
	}
}

// What an event was is known of a dead letter, too, when it is replayed.
func TestReplayedEvent(t *testing.T) {
	var broken atomic.Bool
	broken.Store(true)
	told := make(chan sink.Message, 2)
	k := &recorder{}
	k.deliver = func(messages []sink.Message) []sink.Result {
		if broken.Load() {
			return []sink.Result{{Err: errors.New("no"), Permanent: true}}
		}
		told <- messages[0]
		return []sink.Result{{}}
	}
	r := newRig(t, memory(k))
	r.endpoint("m", "memory", "", "")
	r.append("dev-1")
	r.idle()
	broken.Store(false)
	_, err := r.engine.Jobs().Replay(t.Context(), jobs.Filter{})
	r.check(err)
	m := <-told
	if m.ID != "dev-1:1" || m.Event == nil || m.Event.ID() != m.ID || m.Event.Group != "site" || m.Event.Offset != 1 || !strings.HasPrefix(string(m.Data), "{") {
		t.Errorf("replayed %+v, the event %+v", m, m.Event)
	}
}
