package delivery_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/delivery"
	"github.com/holter-iot/holter/internal/jobs"
)

// witness is what several receivers took, in the order in which they took it.
type witness struct {
	tb testing.TB

	mu  sync.Mutex
	log []taken
}

type taken struct{ where, id string }

// receiver returns one that answers 500 while it is broken.
func (w *witness) receiver(where string, broken *atomic.Bool) *receiver {
	w.tb.Helper()
	return newReceiver(w.tb, func(_ int, r request, answer http.ResponseWriter) {
		if broken.Load() {
			answer.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.mu.Lock()
		w.log = append(w.log, taken{where, strings.ReplaceAll(r.header.Get("webhook-id"), "%2D", "-")})
		w.mu.Unlock()
		answer.WriteHeader(http.StatusNoContent)
	})
}

func (w *witness) got() []taken {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.log)
}

// inOrder checks that the events of each device came in their order, each once, and returns how
// many of each place.
func (w *witness) inOrder(first map[string]uint64) map[string]int {
	w.tb.Helper()
	next, places := make(map[string]uint64), make(map[string]int)
	for _, c := range w.got() {
		id, text, _ := strings.Cut(c.id, ":")
		seq, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			w.tb.Fatalf("webhook-id %q", c.id)
		}
		if next[id] == 0 {
			next[id] = max(first[id], 1)
		}
		if seq != next[id] {
			w.tb.Errorf("%s came to %s when %s:%d was to come", c.id, c.where, id, next[id])
		}
		next[id] = seq + 1
		places[c.where]++
	}
	return places
}

// route makes a route of all events, or moves it.
func (r *rig) route(name, queue, endpoint string) {
	r.tb.Helper()
	to := r.lane(queue, endpoint)
	r.check(r.engine.PutRoute(r.tb.Context(), jobs.Route{Name: name, Queue: to.Queue, Endpoint: to.Endpoint}))
}

// lead is route for the one that is moved.
func (r *rig) lead(queue, endpoint string) {
	r.tb.Helper()
	r.route("all", queue, endpoint)
}

func (r *rig) lane(queue, endpoint string) jobs.Lane {
	r.tb.Helper()
	q, err := r.engine.Queue(queue)
	r.check(err)
	p, err := r.engine.Endpoint(endpoint)
	r.check(err)
	return jobs.Lane{Queue: q.Num, Endpoint: p.Num}
}

// states counts the jobs of a queue by state.
func (r *rig) states(queue string) map[jobs.State]int {
	r.tb.Helper()
	q, err := r.engine.Queue(queue)
	r.check(err)
	views, err := r.engine.Jobs().List(r.tb.Context(), jobs.Filter{}, 10_000, time.Now())
	r.check(err)
	states := make(map[jobs.State]int)
	for _, v := range views {
		if v.Lane.Queue == q.Num {
			states[v.State]++
		}
	}
	return states
}

// moving is a rig with two receivers, old and new, and a second queue; a route leads to the old
// one, which is broken.
func moving(t *testing.T, cfg delivery.Config) (*rig, *witness, *atomic.Bool) {
	t.Helper()
	w, broken, whole := &witness{tb: t}, &atomic.Bool{}, &atomic.Bool{}
	broken.Store(true)
	r := newRig(t, cfg)
	r.queue(quick)
	slow := jobs.NewQueue("slow")
	quick(&slow)
	r.check(r.engine.PutQueue(t.Context(), slow))
	for name, rc := range map[string]*receiver{"old": w.receiver("old", broken), "new": w.receiver("new", whole)} {
		r.check(r.engine.PutEndpoint(t.Context(), jobs.Endpoint{Name: name, Kind: "webhook", Target: rc.URL}))
	}
	r.lead(jobs.DefaultQueue, "old")
	return r, w, broken
}

// fleet returns the names of some devices.
func fleet(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprint("dev-", i+1)
	}
	return ids
}

// A route that is moved while its jobs wait keeps the order of each device, as all receivers
// together see it. Who has no such jobs does not wait.
func TestMovedRoute(t *testing.T) {
	for _, c := range []struct{ name, queue, endpoint string }{
		{"to another endpoint", jobs.DefaultQueue, "new"},
		{"to another queue", "slow", "old"},
		{"to both", "slow", "new"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, w, broken := moving(t, delivery.Config{})
			devices := fleet(50)
			for range 3 {
				r.append(devices...)
			}
			r.until("the old receiver has failed", func() bool { return r.engine.Stats().Queues[0].Retried > 0 })
			r.lead(c.queue, c.endpoint)
			for range 3 {
				r.append(append(devices, "dev-1000")...)
			}
			if c.endpoint == "new" {
				r.until("who has no old jobs is told of", func() bool { return len(w.got()) >= 3 })
				r.until("all others wait", func() bool { return r.states(c.queue)[jobs.StateBlocked] >= 3*len(devices) })
			}
			r.lead(jobs.DefaultQueue, "old") // and back again
			r.append(devices...)
			broken.Store(false)
			r.check(r.retryNow())
			r.idle()
			places := w.inOrder(nil)
			if n := len(w.got()); n != 7*len(devices)+3 {
				t.Errorf("%d events came, want %d", n, 7*len(devices)+3)
			}
			if c.endpoint == "new" && places["new"] != 3*len(devices)+3 {
				t.Errorf("the new receiver got %d, want %d", places["new"], 3*len(devices)+3)
			}
		})
	}
}

// retryNow lets all that waits be tried at once.
func (r *rig) retryNow() error {
	var lanes []jobs.Lane
	for lane := range r.engine.Jobs().Depths() {
		lanes = append(lanes, lane)
	}
	_, err := r.engine.RetryNow(r.tb.Context(), lanes)
	return err
}
