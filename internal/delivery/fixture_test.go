package delivery_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/delivery"
	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/delivery/sink/sinktest"
	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/liveness"
)

// rig is a store and an engine that delivers its jobs.
type rig struct {
	tb       testing.TB
	url      string
	cfg      delivery.Config
	keep     int // events; 0 for the default
	store    *store.Store
	registry *liveness.Registry // that nobody runs
	engine   *delivery.Engine
	stop     func()
	seqs     map[string]uint64
}

// newRig returns one that runs until the test ends.
func newRig(tb testing.TB, cfg delivery.Config) *rig {
	tb.Helper()
	return newRigOn(tb, testdb.SQLite(tb), cfg)
}

// newRigOn is newRig for a database.
func newRigOn(tb testing.TB, url string, cfg delivery.Config) *rig {
	tb.Helper()
	r := &rig{tb: tb, url: url, cfg: cfg, seqs: make(map[string]uint64)}
	r.start()
	tb.Cleanup(func() { r.end() })
	return r
}

// start opens store and engine.
func (r *rig) start() {
	r.tb.Helper()
	if r.cfg.Node == "" {
		r.cfg.Node = "node-1"
	}
	if r.cfg.Private == nil {
		r.cfg.Private = sinktest.Loopback()
	}
	db, err := sqldb.New(sqldb.Config{URL: r.url})
	r.check(err)
	outbox := jobs.New(db)
	s, err := store.New(db, store.Config{Outbox: outbox, Keep: r.keep, Checkpoint: 5 * time.Millisecond})
	r.check(err)
	r.check(s.Open(r.tb.Context()))
	registry, err := liveness.New(s, liveness.Config{})
	r.check(err)
	_, err = s.Load(r.tb.Context(), registry)
	r.check(err)
	ended, end := context.WithCancel(context.Background())
	end()
	r.check(registry.Run(ended)) // nobody needs it any more
	e, err := delivery.New(s, outbox, r.cfg)
	r.check(err)
	e.LookUp(func(context.Context, string, string) ([]netip.Addr, error) {
		return nil, errors.New("no test asks DNS, which may take long to answer")
	})
	r.check(e.Load(r.tb.Context()))
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := e.Run(ctx); err != nil {
			r.tb.Errorf("Run: %v", err)
		}
	})
	r.store, r.registry, r.engine = s, registry, e
	r.stop = func() {
		cancel()
		running.Wait()
	}
}

// end stops engine and store.
func (r *rig) end() {
	if r.store == nil {
		return
	}
	r.stop()
	if err := r.store.Close(); err != nil {
		r.tb.Errorf("Close: %v", err)
	}
	r.store = nil
}

func (r *rig) check(err error) {
	r.tb.Helper()
	if err != nil {
		r.tb.Fatal(err)
	}
}

// endpoint makes an endpoint of a kind, and a route of all events to it.
func (r *rig) endpoint(name, kind, target, settings string) {
	r.tb.Helper()
	r.check(r.engine.PutEndpoint(r.tb.Context(), jobs.Endpoint{Name: name, Kind: kind, Target: target, Settings: json.RawMessage(settings)}))
	p, err := r.engine.Endpoint(name)
	r.check(err)
	r.check(r.engine.PutRoute(r.tb.Context(), jobs.Route{Name: "to-" + name, Queue: 1, Endpoint: p.Num}))
}

// queue changes the default queue.
func (r *rig) queue(change func(*jobs.Queue)) {
	r.tb.Helper()
	q, err := r.engine.Queue(jobs.DefaultQueue)
	r.check(err)
	change(&q)
	r.check(r.engine.PutQueue(r.tb.Context(), q))
}

// quick lets retries follow at once.
func quick(q *jobs.Queue) { q.Backoff, q.MaxBackoff = time.Millisecond, 5*time.Millisecond }

// events returns the next event of each device.
func (r *rig) events(devices ...string) []liveness.Event {
	events := make([]liveness.Event, len(devices))
	for i, id := range devices {
		r.seqs[id]++
		now := time.Now()
		events[i] = liveness.Event{
			Type: liveness.DeviceOffline, Reason: liveness.Silence, Subject: id, Seq: r.seqs[id], Time: now, Source: "line", Group: "site",
			LastSeen: now.Add(-time.Minute), Timeout: time.Minute,
			Record: &keep.Record{Num: r.num(id), ID: id, State: liveness.Offline, Source: "line", Since: now, Seq: r.seqs[id]},
		}
	}
	return events
}

// num returns a device's number.
func (r *rig) num(id string) uint32 {
	n := uint32(0)
	if _, err := fmt.Sscanf(id, "dev-%d", &n); err != nil {
		r.tb.Fatalf("%q is no device of this test", id)
	}
	return n
}

// append stores the next event of each device.
func (r *rig) append(devices ...string) {
	r.tb.Helper()
	r.check(r.store.Append(r.tb.Context(), r.events(devices...)))
}

// prune removes old events until one is the oldest.
func (r *rig) prune(oldest uint64) {
	r.tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := r.store.Run(ctx, r.registry); err != nil {
			r.tb.Errorf("Run: %v", err)
		}
	})
	defer running.Wait()
	defer cancel()
	r.until("old events are removed", func() bool {
		first, _ := r.store.Bounds()
		return first >= oldest
	})
}

// idle waits until no jobs are left.
func (r *rig) idle() {
	r.tb.Helper()
	r.until("no jobs are left", func() bool { return len(r.engine.Jobs().Depths()) == 0 })
}

// until waits for something.
func (r *rig) until(what string, ok func() bool) {
	r.tb.Helper()
	testwait.Until(r.tb, what, ok, func() string { return fmt.Sprintf("%+v", r.engine.Stats()) })
}

// dead returns all dead letters.
func (r *rig) dead() []jobs.DeadLetter {
	r.tb.Helper()
	dead, err := r.engine.Jobs().Dead(r.tb.Context(), jobs.Filter{}, 1000)
	r.check(err)
	return dead
}

// request is a request that a receiver got.
type request struct {
	header http.Header
	path   string
	body   string
}

// receiver is a server that keeps what it gets.
type receiver struct {
	*httptest.Server

	mu       sync.Mutex
	requests []request
	answer   func(n int, r request, w http.ResponseWriter) // n counts from 1; nil: 204
}

func newReceiver(tb testing.TB, answer func(n int, r request, w http.ResponseWriter)) *receiver {
	tb.Helper()
	rc := &receiver{answer: answer}
	rc.Server = httptest.NewServer(rc)
	tb.Cleanup(rc.Close)
	return rc
}

func (rc *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	got := request{r.Header, r.URL.Path, string(body)}
	rc.mu.Lock()
	rc.requests = append(rc.requests, got)
	n := len(rc.requests)
	rc.mu.Unlock()
	if rc.answer != nil {
		rc.answer(n, got, w)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// got returns what came until now.
func (rc *receiver) got() []request {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	return append([]request(nil), rc.requests...)
}

// recorder is a kind of sink that keeps what it gets, in memory.
type recorder struct {
	mu      sync.Mutex
	ids     []string
	deliver func(messages []sink.Message) []sink.Result // nil: success
}

// recording is the sink of an endpoint.
type recording struct {
	sink.Settings
	*recorder
}

func (k *recorder) kind(_ string, settings json.RawMessage) (sink.Sink, error) {
	s := &recording{recorder: k}
	return s, sink.Decode(settings, s)
}

func (k *recorder) Deliver(_ context.Context, messages []sink.Message) []sink.Result {
	results := make([]sink.Result, len(messages))
	if k.deliver != nil {
		results = k.deliver(messages)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range messages {
		if len(results) == len(messages) && results[i].Err == nil {
			k.ids = append(k.ids, messages[i].ID)
		}
	}
	return results
}

func (k *recorder) Close() error { return nil }

func (k *recorder) got() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]string(nil), k.ids...)
}

// memory is the configuration with the kind memory, which is a recorder.
func memory(k *recorder) delivery.Config {
	return delivery.Config{Kinds: map[string]sink.Kind{"memory": k.kind}}
}
