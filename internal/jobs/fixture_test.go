package jobs_test

import (
	"context"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/liveness"
)

// base is an instant that the tests' events are after, without a monotonic reading.
var base = time.Unix(0, time.Now().Add(-24*time.Hour).UnixNano())

// config is that of a database, and of the store and the jobs in it.
type config struct {
	URL    string
	Wall   func() time.Time
	Keep   int
	Cache  int
	Outbox func(events []liveness.Event) []jobs.EventJob // nil: events make no jobs
	Faulty *faulty                                       // nil: no transaction fails
}

// rig is a database with events and jobs.
type rig struct {
	*store.Store

	db   *sqldb.DB
	jobs *jobs.Store
}

func (c config) rig() (*rig, error) {
	db, err := sqldb.New(sqldb.Config{URL: c.URL, Wall: c.Wall})
	if err != nil {
		return nil, err
	}
	r := &rig{db: db, jobs: jobs.New(db)}
	if c.Outbox != nil {
		r.jobs.RouteBy(c.Outbox)
	}
	outbox := store.Outbox(r.jobs)
	if c.Faulty != nil {
		c.Faulty.Outbox, outbox = r.jobs, c.Faulty
	}
	r.Store, err = store.New(db, store.Config{Outbox: outbox, Keep: c.Keep, Cache: c.Cache, Checkpoint: 5 * time.Millisecond})
	return r, err
}

// start opens a store and loads it into a registry that is not used.
func (r *rig) start(ctx context.Context) error {
	if err := r.Open(ctx); err != nil {
		return err
	}
	registry, err := liveness.New(r.Store, liveness.Config{})
	if err != nil {
		return err
	}
	if _, err := r.Load(ctx, registry); err != nil {
		return err
	}
	ended, end := context.WithCancel(ctx)
	end()
	return registry.Run(ended)
}

// open returns a rig that is open until the test ends.
func open(tb testing.TB, cfg config) *rig {
	tb.Helper()
	r, err := cfg.rig()
	if err != nil {
		tb.Fatal(err)
	}
	if err := r.start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := r.Close(); err != nil {
			tb.Errorf("Close: %v", err)
		}
	})
	return r
}

// eachDatabase runs a test on each kind of database.
func eachDatabase(t *testing.T, cfg config, test func(t *testing.T, r *rig)) {
	t.Helper()
	onDatabases(t, testdb.Databases(), cfg, test)
}

// anyDatabase runs a test of what does not depend on the kind of database, because its statements are those of tests that [eachDatabase]
// runs: on SQLite, and in make check on PostgreSQL.
func anyDatabase(t *testing.T, cfg config, test func(t *testing.T, r *rig)) {
	t.Helper()
	kinds := testdb.Databases()
	onDatabases(t, kinds[:min(2, len(kinds))], cfg, test)
}

func onDatabases(t *testing.T, kinds []testdb.Database, cfg config, test func(t *testing.T, r *rig)) {
	t.Helper()
	for _, db := range kinds {
		t.Run("db="+db.Name, func(t *testing.T) {
			cfg := cfg
			cfg.URL = db.URL(t)
			test(t, open(t, cfg))
		})
	}
}

// Exec runs a statement that the package does not know of.
func (r *rig) Exec(ctx context.Context, query string) error {
	return r.db.WriteShared(ctx, "test", func(ctx context.Context, tx sqldb.Tx) error {
		_, err := tx.Exec(ctx, query)
		return err
	})
}

// Scan scans the first row of a query.
func (r *rig) Scan(ctx context.Context, query string, dest ...any) error {
	return r.db.Read(ctx, "test", func(ctx context.Context, q sqldb.Reader) error { return q.QueryRowContext(ctx, query).Scan(dest...) })
}

// device returns an event of a device.
func device(num uint32, id string, seq uint64, typ liveness.Type) liveness.Event {
	at := base.Add(time.Duration(seq) * time.Second)
	return liveness.Event{
		Type: typ, Subject: id, Seq: seq, Epoch: 7, Time: at, Source: "gateway", Group: "site", LastSeen: at.Add(-time.Second), Timeout: 90 * time.Second,
		Record: &keep.Record{Num: num, ID: id, State: liveness.Online, Source: "gateway", Since: at, Seq: seq, Epoch: 7},
	}
}

// appendAll appends events.
func appendAll(tb testing.TB, r *rig, events ...liveness.Event) {
	tb.Helper()
	if err := r.Append(tb.Context(), events); err != nil {
		tb.Fatalf("Append: %v", err)
	}
}
