package delivery_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/delivery"
	"github.com/holter-iot/holter/internal/delivery/sink/sinktest"
	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/internal/test/crashtest"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/liveness"
)

// childDatabase and childTarget make the test binary a program that appends events and delivers them, until it is killed.
const (
	childDatabase = "HOLTER_DELIVERY_TEST_DATABASE"
	childTarget   = "HOLTER_DELIVERY_TEST_TARGET"
	childLife     = "HOLTER_DELIVERY_TEST_LIFE" // which tells its requests from those that an earlier one had sent
)

// crashDevices is how many devices the child has.
const crashDevices = 40

// child is that program. It prints the offset of the latest event that was committed.
func child() {
	url := os.Getenv(childDatabase)
	if url == "" {
		return
	}
	ctx := context.Background()
	fail := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	db, err := sqldb.New(sqldb.Config{URL: url})
	fail(err)
	outbox := jobs.New(db)
	s, err := store.New(db, store.Config{Outbox: outbox})
	fail(err)
	fail(s.Open(ctx))
	registry, err := liveness.New(s, liveness.Config{})
	fail(err)
	_, err = s.Load(ctx, registry)
	fail(err)
	e, err := delivery.New(s, outbox, delivery.Config{Node: "node-1", Agent: os.Getenv(childLife), Private: sinktest.Loopback()})
	fail(err)
	fail(e.Load(ctx))
	if len(e.Settings().Endpoints) == 0 {
		fail(e.PutEndpoint(ctx, jobs.Endpoint{Name: "test", Kind: "webhook", Target: os.Getenv(childTarget)}))
	}
	fail(e.PutRoute(ctx, jobs.Route{Name: "all", Queue: 1, Endpoint: 1}))
	q := jobs.NewQueue(jobs.DefaultQueue)
	quick(&q)
	fail(e.PutQueue(ctx, q))
	go func() { fail(e.Run(ctx)) }()
	for {
		_, latest := s.Bounds()
		batch := make([]liveness.Event, crashDevices/2)
		for i := range batch {
			n := latest + uint64(i)
			num := uint32(n%crashDevices) + 1
			batch[i] = liveness.Event{
				Type: liveness.DeviceOnline, Subject: fmt.Sprint("dev-", num), Seq: n/crashDevices + 1, Time: time.Now(), Source: "line",
				Record: &keep.Record{Num: num, ID: fmt.Sprint("dev-", num), State: liveness.Online, Source: "line", Seq: n/crashDevices + 1},
			}
		}
		fail(s.Append(ctx, batch))
		_, latest = s.Bounds()
		_, err = fmt.Fprintln(os.Stdout, latest)
		fail(err)
		for outbox.Depths()[jobs.Lane{Queue: 1, Endpoint: 1}] > 2000 { // do not run away
			select {
			case <-time.After(time.Millisecond):
			case <-ctx.Done():
			}
		}
	}
}

// TestKilled kills a process that appends and delivers, at random instants, again and again. The receiver refuses one in ten. No event that
// was committed may be missed, each device's come in their order, and one comes twice only if a crash lies between.
func TestKilled(t *testing.T) {
	type came struct {
		id   string
		life string
	}
	var mu sync.Mutex // guards log
	var log []came
	rc := newReceiver(t, func(_ int, r request, w http.ResponseWriter) {
		if rand.IntN(10) == 0 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		mu.Lock()
		log = append(log, came{strings.ReplaceAll(r.header.Get("webhook-id"), "%2D", "-"), r.header.Get("User-Agent")})
		mu.Unlock()
		w.WriteHeader(http.StatusOK)
	})
	url := testdb.SQLite(t)
	committed := uint64(0)
	usual := 2
	if testenv.Checks() {
		usual = 5
	}
	kills := crashtest.Times(t, usual)
	for n := range kills {
		env := []string{childDatabase + "=" + url, childTarget + "=" + rc.URL, childLife + "=" + fmt.Sprint("life-", n)}
		crashtest.Run(t, env, 0, 700*time.Millisecond, func(text string) {
			var err error
			if committed, err = strconv.ParseUint(text, 10, 64); err != nil {
				t.Error(err)
			}
		})
	}
	r := &rig{tb: t, url: url, cfg: delivery.Config{Agent: "last-life"}}
	r.start()
	defer r.end()
	r.idle()
	_, latest := r.store.Bounds()
	if latest < committed {
		t.Errorf("the latest event is %d, and %d were committed", latest, committed)
	}
	if dead := r.dead(); len(dead) > 0 {
		t.Errorf("%d dead letters: %+v", len(dead), dead[0])
	}
	mu.Lock()
	defer mu.Unlock()
	first, last := make(map[string]string), make(map[string]string)
	next := make(map[string]uint64) // by device, the number to come
	doubled := 0
	for _, c := range log {
		id, seqText, _ := strings.Cut(c.id, ":")
		seq, err := strconv.ParseUint(seqText, 10, 64)
		if err != nil {
			t.Fatalf("webhook-id %q", c.id)
		}
		if _, again := first[c.id]; again {
			doubled++
			if last[c.id] == c.life {
				t.Errorf("%s came twice without a crash between", c.id)
			}
		} else {
			first[c.id] = c.life
			if next[id]++; seq != next[id] {
				t.Fatalf("%s came when %s:%d was to come", c.id, id, next[id])
			}
		}
		last[c.id] = c.life
	}
	if uint64(len(first)) != latest {
		t.Errorf("%d events were delivered, want all of %d", len(first), latest)
	}
	t.Logf("%d kills, %d events, %d of them delivered once more", kills, latest, doubled)
}
