package delivery_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/holter-iot/holter/internal/delivery"
	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/liveness/cloudevent"
)

const (
	secret   = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	previous = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
)

// An event becomes a signed CloudEvent.
func TestWebhook(t *testing.T) {
	rc := newReceiver(t, nil)
	r := newRig(t, delivery.Config{Agent: "holter/test"})
	r.endpoint("ops", "webhook", rc.URL+"/hook", `{"secret":"`+secret+`","previous_secret":"`+previous+`","headers":{"Authorization":"Bearer x"}}`)
	r.append("dev-1", "dev-2", "dev-1")
	r.idle()
	got := rc.got()
	if len(got) != 3 {
		t.Fatalf("%d requests, want 3", len(got))
	}
	var ids []string
	for _, q := range got {
		for _, s := range []string{secret, previous} {
			w, err := standardwebhooks.NewWebhook(s)
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Verify([]byte(q.body), q.header); err != nil {
				t.Errorf("signature %q: %v", q.header.Get("webhook-signature"), err)
			}
		}
		var ev cloudevent.Event
		if err := json.Unmarshal([]byte(q.body), &ev); err != nil {
			t.Fatal(err)
		}
		if ev.SpecVersion != "1.0" || ev.Type != "io.holter.device.offline" || ev.Source != "/holter/node-1/line" || ev.Data.Reason != "silence" {
			t.Errorf("event %s", q.body)
		}
		if q.path != "/hook" || q.header.Get("Content-Type") != "application/cloudevents+json" || q.header.Get("User-Agent") != "holter/test" ||
			q.header.Get("Authorization") != "Bearer x" || q.header.Get("webhook-id") != ev.ID {
			t.Errorf("path %s, headers %v", q.path, q.header)
		}
		ids = append(ids, ev.ID)
	}
	if slices.Index(ids, "dev-1:1") > slices.Index(ids, "dev-1:2") {
		t.Errorf("order %v", ids)
	}
}

// A batch is an array.
func TestWebhookBatch(t *testing.T) {
	rc := newReceiver(t, nil)
	r := newRig(t, delivery.Config{})
	r.endpoint("ops", "webhook", rc.URL, `{"secret":"`+secret+`","batch":10}`)
	r.queue(func(q *jobs.Queue) { q.Paused = true })
	var devices []string
	for i := range 25 {
		devices = append(devices, fmt.Sprint("dev-", i+1))
	}
	r.append(devices...)
	r.check(r.engine.PauseQueue(t.Context(), jobs.DefaultQueue, false))
	r.idle()
	events := 0
	for _, q := range rc.got() {
		var batch []cloudevent.Event
		if err := json.Unmarshal([]byte(q.body), &batch); err != nil { // one alone is no array
			events++
			continue
		}
		events += len(batch)
		w, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Verify([]byte(q.body), q.header); err != nil || q.header.Get("Content-Type") != "application/cloudevents-batch+json" || len(batch) > 10 {
			t.Errorf("%d events as %s: %v", len(batch), q.header.Get("Content-Type"), err)
		}
	}
	if n := len(rc.got()); events != 25 || n > 5 {
		t.Errorf("%d events in %d requests, want 25 in some 3", events, n)
	}
}

// A job that fails holds up those with its key, and no others.
func TestFailureHoldsItsKey(t *testing.T) {
	var broken atomic.Bool
	broken.Store(true)
	k := &recorder{deliver: func(messages []sink.Message) []sink.Result {
		if messages[0].Key == "dev-1" && broken.Load() {
			return []sink.Result{{Err: errors.New("no")}}
		}
		return []sink.Result{{}}
	}}
	r := newRig(t, memory(k))
	r.queue(quick)
	r.endpoint("m", "memory", "", "")
	r.append("dev-1", "dev-2", "dev-1", "dev-3", "dev-1")
	r.until("the others are delivered", func() bool { return len(k.got()) == 2 })
	r.append("dev-1", "dev-2")
	r.until("the others are delivered", func() bool { return len(k.got()) == 3 })
	broken.Store(false)
	r.idle()
	var ones []string
	for _, id := range k.got() {
		if strings.HasPrefix(id, "dev-1:") {
			ones = append(ones, id)
		}
	}
	if want := []string{"dev-1:1", "dev-1:2", "dev-1:3", "dev-1:4"}; !slices.Equal(ones, want) {
		t.Errorf("%v, want %v", ones, want)
	}
}

// After so many attempts, a job is a dead letter, and what comes behind it is delivered. It can be replayed.
func TestDeadLetter(t *testing.T) {
	var broken atomic.Bool
	broken.Store(true)
	rc := newReceiver(t, func(_ int, q request, w http.ResponseWriter) {
		if broken.Load() && strings.Contains(q.body, `"dev-1:1"`) {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write([]byte("no such table"))
		}
	})
	r := newRig(t, delivery.Config{})
	r.queue(quick)
	r.queue(func(q *jobs.Queue) { q.Attempts = 3 })
	r.endpoint("ops", "webhook", rc.URL, "")
	r.append("dev-1", "dev-1")
	r.idle()
	dead := r.dead()
	if len(dead) != 1 || dead[0].Message != "dev-1:1" || dead[0].Status != 500 || dead[0].Response != "no such table" || dead[0].Attempts != 3 ||
		!strings.Contains(dead[0].Error, "500 Internal Server Error") || !strings.Contains(string(dead[0].Data), `"specversion":"1.0"`) {
		t.Fatalf("dead letters %+v", dead)
	}
	broken.Store(false)
	if n, err := r.engine.Jobs().Replay(t.Context(), jobs.Filter{IDs: []uint64{dead[0].ID}}); err != nil || n != 1 {
		t.Fatalf("Replay = %d, %v", n, err)
	}
	r.idle()
	got := rc.got()
	if last := got[len(got)-1]; last.header.Get("webhook-id") != "dev-1:1" || last.header.Get("Content-Type") != "application/cloudevents+json" || last.body != got[0].body {
		t.Errorf("replayed %+v, want the first again", last)
	}
	if len(r.dead()) != 0 {
		t.Error("the dead letter is there still")
	}
}

// A job whose event is too old to be kept is a dead letter with all of it: replaying it delivers what the job would have.
func TestDeadLetterOutlivesItsEvent(t *testing.T) {
	rc := newReceiver(t, nil)
	r := &rig{tb: t, url: testdb.SQLite(t), keep: 2, seqs: make(map[string]uint64)}
	r.start()
	t.Cleanup(r.end)
	r.endpoint("ops", "webhook", rc.URL, "")
	r.check(r.engine.PauseQueue(t.Context(), jobs.DefaultQueue, true))
	events := r.events("dev-1")
	r.check(r.store.Append(t.Context(), events))
	want, err := json.Marshal(cloudevent.New(&events[0], "node-1"))
	r.check(err)
	for range 4 {
		r.append("dev-2")
	}
	r.prune(2)
	dead := r.dead()
	if len(dead) != 1 || dead[0].Message != "dev-1:1" || dead[0].Key != "dev-1" || string(dead[0].Data) != string(want) ||
		!strings.Contains(dead[0].Error, "too old to be kept") || r.engine.Stats().Queues[0].Dead != 1 {
		t.Fatalf("dead letters %+v, %+v", dead, r.engine.Stats())
	}
	if n, err := r.engine.Jobs().Replay(t.Context(), jobs.Filter{}); err != nil || n != 1 {
		t.Fatalf("Replay = %d, %v", n, err)
	}
	r.check(r.engine.PauseQueue(t.Context(), jobs.DefaultQueue, false))
	r.idle()
	for _, q := range rc.got() {
		if q.header.Get("webhook-id") == "dev-1:1" && q.header.Get("Content-Type") == cloudevent.ContentType && q.body == string(want) {
			return
		}
	}
	t.Errorf("what was replayed did not come: %+v", rc.got())
}

// What has nothing to deliver, as a dead letter of which only the lane was known, is no delivery.
func TestNothingToDeliver(t *testing.T) {
	rc := newReceiver(t, nil)
	r := newRig(t, delivery.Config{})
	r.endpoint("ops", "webhook", rc.URL, "")
	_, err := r.engine.Jobs().Enqueue(t.Context(), []jobs.Spec{{Lane: jobs.Lane{Queue: 1, Endpoint: 1}, Body: jobs.Body{Created: time.Now()}}})
	r.check(err)
	r.idle()
	if dead := r.dead(); len(dead) != 1 || !strings.Contains(dead[0].Error, "nothing to deliver") || len(rc.got()) != 0 {
		t.Errorf("dead letters %+v, requests %+v", dead, rc.got())
	}
}

// 410 disables the endpoint; when somebody enables it, what waited is delivered.
func TestGone(t *testing.T) {
	var gone atomic.Bool
	gone.Store(true)
	rc := newReceiver(t, func(_ int, _ request, w http.ResponseWriter) {
		if gone.Load() {
			w.WriteHeader(http.StatusGone)
		}
	})
	r := newRig(t, delivery.Config{})
	r.queue(func(q *jobs.Queue) { q.Concurrency = 1 })
	r.endpoint("ops", "webhook", rc.URL, "")
	r.append("dev-1", "dev-2", "dev-3", "dev-4")
	r.until("the endpoint is disabled", func() bool {
		p, err := r.engine.Endpoint("ops")
		return err == nil && p.Disabled && strings.HasPrefix(p.Note, "410")
	})
	r.append("dev-5")
	if st := r.engine.Stats(); st.Dropped.Disabled != 1 || st.Endpoints[1].State != "disabled" {
		t.Errorf("Stats = %+v", st)
	}
	gone.Store(false)
	r.check(r.engine.EnableEndpoint(t.Context(), "ops", true, ""))
	r.idle()
	if n, dead := len(rc.got()), len(r.dead()); n != 5 || dead != 0 {
		t.Errorf("%d requests, %d dead letters, want 5 and none", n, dead)
	}
}

// While an endpoint fails, its jobs are left alone, and those of others are not.
func TestBreaker(t *testing.T) {
	bad := newReceiver(t, func(_ int, _ request, w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) })
	good := newReceiver(t, nil)
	r := newRig(t, delivery.Config{})
	r.queue(quick)
	r.endpoint("bad", "webhook", bad.URL, `{"break_over_ms":1}`) // the failures come at once
	r.endpoint("good", "webhook", good.URL, "")
	for i := range 100 {
		r.append(fmt.Sprint("dev-", i+1))
	}
	r.until("all are delivered to the good one", func() bool { return len(good.got()) == 100 })
	r.until("the breaker is open", func() bool { return r.engine.Stats().Endpoints[1].State == "open" })
	if n := len(bad.got()); n > 40 { // 32 at a time, 5 failures in a row
		t.Errorf("the bad one got %d requests", n)
	}
}

// A job that always fails, and is due again before each trial, does not keep an endpoint that works from the others, whatever its priority.
func TestTrialsTakeTurns(t *testing.T) {
	for _, priority := range []jobs.Priority{jobs.PriorityNormal, jobs.PriorityHigh} {
		t.Run(priority.String(), func(t *testing.T) {
			k := &recorder{deliver: func(messages []sink.Message) []sink.Result {
				if strings.Contains(string(messages[0].Data), "poison") {
					return []sink.Result{{Err: errors.New("no")}}
				}
				return []sink.Result{{}}
			}}
			r := newRig(t, memory(k))
			r.queue(func(q *jobs.Queue) { quick(q); q.Attempts = 10_000 })
			r.endpoint("m", "memory", "", `{"break_after":1,"break_over_ms":1,"break_for_ms":50}`)
			r.enqueue(delivery.Request{Endpoint: "m", Body: []byte(`"poison"`), Priority: priority})
			r.until("the breaker is open", func() bool { return r.engine.Stats().Endpoints[1].State == "open" })
			for range 5 {
				r.enqueue(delivery.Request{Endpoint: "m", Body: []byte(`"fine"`)})
			}
			r.until("the others are delivered", func() bool { return len(k.got()) == 5 })
		})
	}
}

// The log says at debug how long each delivery of a job took, by the job's name.
func TestDeliveriesInLog(t *testing.T) {
	k := &recorder{deliver: func(messages []sink.Message) []sink.Result {
		if strings.Contains(string(messages[0].Data), "bad") {
			return []sink.Result{{Err: errors.New("never"), Permanent: true}}
		}
		return []sink.Result{{}}
	}}
	var log bytes.Buffer
	cfg := memory(k)
	cfg.Logger = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r := newRig(t, cfg)
	r.endpoint("m", "memory", "", "")
	r.enqueue(delivery.Request{Endpoint: "m", Name: "mail.send", Body: []byte(`"fine"`)})
	r.enqueue(delivery.Request{Endpoint: "m", Name: "mail.list", Body: []byte(`"bad"`)})
	r.idle()
	r.end()
	got := make(map[string]string)
	for line := range strings.Lines(log.String()) {
		var entry struct {
			Msg, Name, Queue, Endpoint, Error string
			Took, Attempt                     *int
		}
		r.check(json.Unmarshal([]byte(line), &entry))
		if entry.Msg == "a delivery has ended" && entry.Took != nil && *entry.Attempt == 1 {
			got[entry.Name] = entry.Queue + " " + entry.Endpoint + " " + entry.Error
		}
	}
	if want := map[string]string{"mail.send": "default m ", "mail.list": "default m never"}; !maps.Equal(got, want) {
		t.Errorf("%q, want %q, in %s", got, want, &log)
	}
}

// Retry-After holds.
func TestRetryAfter(t *testing.T) {
	var at atomic.Int64
	rc := newReceiver(t, func(n int, _ request, w http.ResponseWriter) {
		if n == 1 {
			at.Store(time.Now().UnixNano())
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		if d := time.Duration(time.Now().UnixNano() - at.Load()); d < time.Second {
			t.Errorf("request %d came %v after a Retry-After of a second", n, d)
		}
	})
	r := newRig(t, delivery.Config{})
	r.queue(func(q *jobs.Queue) { q.Backoff, q.Concurrency = time.Millisecond, 1 })
	r.endpoint("ops", "webhook", rc.URL, "")
	r.append("dev-1", "dev-2")
	r.idle()
	if n := len(rc.got()); n != 3 {
		t.Errorf("%d requests, want 3", n)
	}
}

// Of two deliveries at a time that are told not to come back before, the longer time counts.
func TestLongerRetryAfter(t *testing.T) {
	var asked atomic.Int64
	both, failed := make(chan struct{}), make(chan struct{})
	k := &recorder{deliver: func([]sink.Message) []sink.Result {
		n := asked.Add(1)
		if n == 2 {
			close(both)
		}
		<-both
		r := sink.Result{Err: errors.New("429"), After: time.Hour}
		if n != 1 {
			<-failed
			r.After = time.Millisecond
		}
		return []sink.Result{r}
	}}
	other := &recorder{}
	r := newRig(t, delivery.Config{Kinds: map[string]sink.Kind{"memory": k.kind, "other": other.kind}})
	r.queue(quick)
	r.endpoint("m", "memory", "", "")
	r.append("dev-1", "dev-2")
	r.until("one has failed", func() bool { return r.engine.Stats().Queues[0].Retried == 1 })
	close(failed)
	r.until("both have failed", func() bool { return r.engine.Stats().Queues[0].Retried == 2 })
	r.endpoint("o", "other", "", "")
	for i := range 30 { // the queue has gone round many times when these are delivered
		r.append(fmt.Sprint("dev-", i+3))
		r.until("the other endpoint has it", func() bool { return len(other.got()) == i+1 })
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("%d deliveries, want 2 within the hour", n)
	}
}

// What is in the database is delivered after a restart, and pausing keeps it there.
func TestRestartAndPause(t *testing.T) {
	k := &recorder{}
	r := newRig(t, memory(k))
	r.endpoint("m", "memory", "", "")
	r.check(r.engine.PauseQueue(t.Context(), jobs.DefaultQueue, true))
	r.append("dev-1", "dev-2", "dev-1")
	r.end()
	r.start()
	if st := r.engine.Stats(); st.Queues[0].Jobs != 3 || !st.Queues[0].Paused || len(k.got()) != 0 {
		t.Errorf("Stats = %+v, delivered %v", st, k.got())
	}
	r.check(r.engine.PauseQueue(t.Context(), jobs.DefaultQueue, false))
	r.idle()
	if got := k.got(); len(got) != 3 || slices.Index(got, "dev-1:1") > slices.Index(got, "dev-1:2") {
		t.Errorf("delivered %v", got)
	}
}

// A queue that is full takes no more, and says so.
func TestFull(t *testing.T) {
	r := newRig(t, memory(&recorder{}))
	r.endpoint("m", "memory", "", "")
	r.queue(func(q *jobs.Queue) { q.MaxJobs, q.Paused = 2, true })
	r.append("dev-1", "dev-2", "dev-3")
	if st := r.engine.Stats(); st.Dropped.Full != 1 || st.Queues[0].Jobs != 2 {
		t.Errorf("Stats = %+v", st)
	}
	_, err := r.engine.Enqueue(t.Context(), delivery.Request{URL: "https://example.org", Body: json.RawMessage("{}")})
	if !isErr(err, delivery.ErrFull) {
		t.Errorf("Enqueue = %v, want ErrFull", err)
	}
}

// Jobs that are enqueued together are all made or none, and those of others beside them are made anyway.
func TestEnqueueAll(t *testing.T) {
	rc := newReceiver(t, nil)
	r := newRig(t, delivery.Config{})
	r.check(r.engine.PutEndpoint(t.Context(), jobs.Endpoint{Name: "ops", Kind: "webhook", Target: rc.URL}))
	r.check(r.engine.PutJobRoute(t.Context(), jobs.JobRoute{Name: "n", Jobs: "named", Endpoint: 1, Weight: 1}))
	list := []delivery.Request{{Name: "named", Body: json.RawMessage("1")}, {URL: rc.URL + "/two", Body: json.RawMessage("2")}}
	ids, err := r.engine.EnqueueAll(t.Context(), list)
	r.check(err)
	if !slices.Equal(ids, []uint64{1, 2}) {
		t.Errorf("numbers %v, want 1 and 2", ids)
	}
	for _, n := range []int{0, delivery.MaxBulk + 1} {
		if _, err := r.engine.EnqueueAll(t.Context(), make([]delivery.Request, n)); !errors.Is(err, jobs.ErrBad) {
			t.Errorf("%d jobs: %v", n, err)
		}
	}
	// The job route is deleted while the requests are on their way.
	r.check(r.engine.Jobs().DeleteJobRoute(t.Context(), "n"))
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if _, err := r.engine.EnqueueAll(t.Context(), list[1:]); err != nil {
				t.Errorf("beside a job that cannot be made: %v", err)
			}
			_, err := r.engine.EnqueueAll(t.Context(), []delivery.Request{list[1], list[0]})
			if bad, ok := errors.AsType[*jobs.SpecError](err); !ok || bad.Index != 1 || !errors.Is(err, jobs.ErrBad) || !strings.HasPrefix(err.Error(), "jobs[1]: ") {
				t.Errorf("%d: %v, want one about the second job", i, err)
			}
			if _, err := r.engine.Enqueue(t.Context(), list[0]); err == nil || strings.HasPrefix(err.Error(), "jobs[") {
				t.Errorf("%d alone: %v", i, err)
			}
		})
	}
	all.Wait()
	if id := r.enqueue(delivery.Request{URL: rc.URL}); id != 23 {
		t.Errorf("the next job is %d, want 23: none of the refused ones was made", id)
	}
}

// Anyone may enqueue.
func TestEnqueue(t *testing.T) {
	rc := newReceiver(t, nil)
	r := newRig(t, delivery.Config{})
	body := json.RawMessage(`{"do":"` + strings.Repeat("it", 10_000) + `"}`)
	one, err := r.engine.Enqueue(t.Context(), delivery.Request{URL: rc.URL + "/work", Body: body, Unique: "u1", Key: "k"})
	r.check(err)
	two, err := r.engine.Enqueue(t.Context(), delivery.Request{URL: rc.URL + "/work", Body: body, Unique: "u1"})
	r.check(err)
	late, err := r.engine.Enqueue(t.Context(), delivery.Request{URL: rc.URL + "/late", Body: json.RawMessage("1"), RunAt: time.Now().Add(400 * time.Millisecond)})
	r.check(err)
	if one != two || one == late {
		t.Errorf("numbers %d, %d, %d", one, two, late)
	}
	r.idle()
	got := rc.got()
	if len(got) != 2 || got[0].path != "/work" || got[0].body != string(body) || got[1].path != "/late" ||
		got[0].header.Get("Content-Type") != "application/json" || got[0].header.Get("webhook-id") != fmt.Sprint("job:", one) {
		t.Errorf("%d requests: %.300v", len(got), got)
	}
}

// An endpoint whose sink panics or breaks its contract does no harm.
func TestBadSink(t *testing.T) {
	var n atomic.Int64
	k := &recorder{deliver: func([]sink.Message) []sink.Result {
		switch n.Add(1) {
		case 1:
			panic("oops")
		case 2:
			return make([]sink.Result, 7)
		}
		return make([]sink.Result, 1)
	}}
	r := newRig(t, memory(k))
	r.queue(quick)
	r.endpoint("m", "memory", "", "")
	r.append("dev-1")
	r.idle()
	if got := k.got(); len(got) != 1 {
		t.Errorf("delivered %v", got)
	}
}

// One bad event in a batch makes one dead letter.
func TestWebhookBadEvent(t *testing.T) {
	rc := newReceiver(t, func(_ int, r request, w http.ResponseWriter) {
		if strings.Contains(r.body, `"dev-3:1"`) {
			w.WriteHeader(http.StatusUnprocessableEntity)
		}
	})
	r := newRig(t, delivery.Config{})
	r.endpoint("ops", "webhook", rc.URL, `{"batch":100}`)
	r.check(r.engine.PauseQueue(t.Context(), jobs.DefaultQueue, true))
	r.append("dev-1", "dev-2", "dev-3", "dev-4", "dev-5", "dev-3")
	r.check(r.engine.PauseQueue(t.Context(), jobs.DefaultQueue, false))
	r.idle()
	if dead := r.dead(); len(dead) != 1 || dead[0].Message != "dev-3:1" {
		t.Errorf("dead letters %+v, want that of dev-3:1", dead)
	}
	if st := r.engine.Stats().Endpoints[1]; st.Delivered != 5 {
		t.Errorf("%d delivered, want 5", st.Delivered)
	}
}
