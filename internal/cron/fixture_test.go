package cron_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/cron"
	"github.com/holter-iot/holter/internal/delivery"
	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/liveness"
)

// start is what the clock of a rig shows at first.
var start = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// rig is an engine on a store, whose clock stands until it is set.
type rig struct {
	testing.TB

	url      string
	cfg      cron.Config
	clock    *atomic.Int64
	database *sqldb.DB
	store    *store.Store
	delivery *delivery.Engine
	registry *liveness.Registry
	source   *liveness.Source
	cron     *cron.Engine
	stop     func() // ends the engine, if it runs
	close    func() // ends all
}

// newRig returns one whose engine runs until the test ends.
func newRig(tb testing.TB, cfg cron.Config) *rig {
	tb.Helper()
	r := &rig{TB: tb, url: testdb.SQLite(tb), cfg: cfg, clock: new(atomic.Int64)}
	r.clock.Store(start.UnixNano())
	r.open()
	r.run()
	tb.Cleanup(func() { r.close() })
	return r
}

func (r *rig) check(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) now() time.Time { return time.Unix(0, r.clock.Load()) }

// set sets the clock to so long after the start.
func (r *rig) set(d time.Duration) { r.clock.Store(start.Add(d).UnixNano()) }

// open opens a store, and makes what there is on it. Deliveries do not run: jobs stay.
func (r *rig) open() {
	r.Helper()
	db, err := sqldb.New(sqldb.Config{URL: r.url})
	r.check(err)
	r.database = db
	outbox := jobs.New(db)
	r.store, err = store.New(db, store.Config{Outbox: outbox})
	r.check(err)
	r.check(r.store.Open(r.Context()))
	r.registry, err = liveness.New(r.store, liveness.Config{Outbox: 4096, Groups: []liveness.GroupConfig{{Name: "site-7", Match: "site-7/*"}}})
	r.check(err)
	_, err = r.store.Load(r.Context(), r.registry)
	r.check(err)
	r.source, err = r.registry.AddSource(liveness.SourceConfig{Name: "line"})
	r.check(err)
	r.source.Watermark(0, r.source.Pulse(time.Now()))
	r.delivery, err = delivery.New(r.store, outbox, delivery.Config{Node: "node-1"})
	r.check(err)
	r.check(r.delivery.Load(r.Context()))
	cfg := r.cfg
	cfg.Node, cfg.Commands = "node-1", true
	cfg.Now = func(context.Context) (time.Time, error) { return r.now(), nil }
	if cfg.Poll == 0 {
		cfg.Poll = 5 * time.Millisecond
	}
	r.cron, err = cron.New(r.database, r.delivery, r.registry, cfg)
	r.check(err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := r.registry.Run(ctx); err != nil {
			r.Errorf("registry: %v", err)
		}
	})
	r.stop = func() {}
	r.close = sync.OnceFunc(func() {
		r.stop()
		cancel()
		running.Wait()
		if err := r.store.Close(); err != nil {
			r.Errorf("Close: %v", err)
		}
	})
}

// run runs the engine.
func (r *rig) run() {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	e := r.cron
	running.Go(func() {
		if err := e.Run(ctx); err != nil {
			r.Errorf("Run: %v", err)
		}
	})
	r.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
}

// restart ends all in order, and begins anew.
func (r *rig) restart() {
	r.Helper()
	r.close()
	r.open()
	r.run()
}

// put makes or changes a schedule.
func (r *rig) put(name, kind, when, settings string, change func(*cron.Schedule)) {
	r.Helper()
	sc := cron.Schedule{Name: name, Kind: kind, Spec: when, Settings: json.RawMessage(settings)}
	if change != nil {
		change(&sc)
	}
	r.check(r.cron.Put(r.Context(), sc, false))
}

// until waits for something.
func (r *rig) until(what string, ok func() bool) {
	r.Helper()
	testwait.Until(r, what, ok, func() string { return fmt.Sprintf("runs %+v, %+v", r.history(""), r.cron.Stats()) })
}

// history returns the runs of a schedule, or of all, the earliest first.
func (r *rig) history(name string) []cron.Run {
	r.Helper()
	runs, err := r.cron.History(context.Background(), cron.RunFilter{Name: name}, 1000)
	r.check(err)
	for i, j := 0, len(runs)-1; i < j; i, j = i+1, j-1 {
		runs[i], runs[j] = runs[j], runs[i]
	}
	return runs
}

// ended waits until n runs of a schedule have ended, and returns them all.
func (r *rig) ended(name string, n int) (runs []cron.Run) {
	r.Helper()
	r.until("runs of "+name+" have ended", func() bool {
		runs = r.history(name)
		ended := 0
		for i := range runs {
			if !runs[i].Ended.IsZero() {
				ended++
			}
		}
		return ended >= n
	})
	return runs
}

// idle waits until the engine has nothing to do at this time.
func (r *rig) idle() {
	r.Helper()
	r.until("nothing is to be done", func() bool {
		a, err := cron.AgendaOf(r.Context(), r.cron.Table(), r.now(), 10, cron.Kinds())
		r.check(err)
		return len(a.Due) == 0 && !a.Ready[0] && r.cron.Stats().Running == 0 && !slices.ContainsFunc(r.history(""), r.goesOn)
	})
}

// goesOn reports whether a run is to begin as soon as another one has ended, or is claimed and about to begin.
func (r *rig) goesOn(run cron.Run) bool {
	return run.State == cron.Idle && !run.Ready.After(r.now()) || run.State == cron.Claimed
}

// bodies returns the bodies of the jobs that there are.
func (r *rig) bodies() (list []string) {
	r.Helper()
	views, err := r.delivery.Jobs().List(r.Context(), jobs.Filter{}, 1_000_000, time.Now())
	r.check(err)
	for i := range views {
		body, err := r.delivery.Jobs().Body(r.Context(), views[i].ID)
		r.check(err)
		list = append(list, string(body.Data))
	}
	return list
}

const hook = `{"url":"https://example.org/hook"}`
