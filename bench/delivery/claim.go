package delivery

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/testdb"
	"github.com/holter-iot/holter/jobs"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/sqldb"
	"github.com/holter-iot/holter/store"
)

// claimPrefix is followed by the name of a database.
const claimPrefix = "claim/"

// database makes an empty database, and returns its URL.
type database struct {
	name string
	open func(t *testStandIn) string
}

// databases are those that are measured. The servers write each commit to the disk before they confirm it, as they do by default.
func databases() []database {
	return []database{
		{"SQLite", func(t *testStandIn) string { return "sqlite:" + filepath.Join(t.dir, "holter.db") }},
		{"PostgreSQL", func(t *testStandIn) string { return testdb.NewPostgres(t, true).Database(t) }},
		{"MariaDB", func(t *testStandIn) string { return testdb.NewMariaDB(t, true).Database(t) }},
	}
}

// claimNames are the measurements of claims.
func claimNames() (names []string) {
	for _, d := range databases() {
		names = append(names, claimPrefix+d.name)
	}
	return names
}

// claimSize is how many jobs are claimed, and settled, at a time.
const claimSize = 500

// claimTurn is how many jobs the store and the bare database claim and settle in turn.
const claimTurn = 20_000

// claims is how fast jobs were claimed and settled.
type claims struct {
	Jobs  int           // of each
	Store time.Duration // with the store
	Bare  time.Duration // with the bare database
	// CPU is that of this process for the store, and BareCPU for the bare database. It is complete with SQLite, and lacks a server's.
	CPU, BareCPU time.Duration
}

// testStandIn takes the place of the test that testdb's servers belong to.
type testStandIn struct {
	testing.TB // nil

	cleanups []func()
	dir      string
}

// broken is what Fatal panics with.
type broken struct{ error }

func (*testStandIn) Helper() {}

func (t *testStandIn) Cleanup(f func()) { t.cleanups = append(t.cleanups, f) }

func (t *testStandIn) Fatal(args ...any) { panic(broken{errors.New(fmt.Sprint(args...))}) }

func (t *testStandIn) Fatalf(format string, args ...any) { panic(broken{fmt.Errorf(format, args...)}) }

func (t *testStandIn) Skipf(format string, args ...any) { t.Fatalf(format, args...) }

func (t *testStandIn) end() {
	for _, f := range slices.Backward(t.cleanups) {
		f()
	}
}

// lane is the lane of the jobs of the store.
func lane() jobs.Lane { return jobs.Lane{Queue: 1, Endpoint: 1} }

// claim claims and settles jobs, in turns with the store and with statements of its own, on the same table of the same database.
func (s *workspace) claim(ctx context.Context, open func(*testStandIn) string) (result claims, err error) {
	t := &testStandIn{dir: s.dir}
	defer t.end()
	defer func() {
		switch p := recover().(type) {
		case nil:
		case broken:
			err = p
		default:
			panic(p)
		}
	}()
	url := open(t)
	st, queue, err := openStore(ctx, url)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	raw, err := openBare(url)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, raw.close()) }()
	for turn := uint64(1); result.Jobs < s.n; turn++ {
		n := min(claimTurn, s.n-result.Jobs)
		if err := errors.Join(fill(ctx, st, n, turn), raw.fill(ctx, n)); err != nil {
			return result, err
		}
		first, second := func() error { return result.withStore(ctx, queue, n) }, func() error { return result.withBare(ctx, raw, n) }
		if turn%2 == 0 {
			first, second = second, first
		}
		if err := first(); err != nil {
			return result, err
		}
		if err := second(); err != nil {
			return result, err
		}
		result.Jobs += n
	}
	return result, nil
}

// openStore opens a store in which each event becomes a job.
func openStore(ctx context.Context, url string) (*store.Store, *jobs.Store, error) {
	db, err := sqldb.New(sqldb.Config{URL: url})
	if err != nil {
		return nil, nil, err
	}
	queue := jobs.New(db)
	st, err := store.New(db, store.Config{Outbox: queue})
	if err != nil {
		return nil, nil, err
	}
	if err := st.Open(ctx); err != nil {
		return nil, nil, err
	}
	registry, err := liveness.New(st, liveness.Config{})
	if err != nil {
		return nil, nil, err
	}
	if _, err := st.Load(ctx, registry); err != nil {
		return nil, nil, err
	}
	err = errors.Join(
		queue.PutEndpoint(ctx, jobs.Endpoint{Name: "test"}),
		queue.PutRoute(ctx, jobs.Route{Name: "all", Queue: lane().Queue, Endpoint: lane().Endpoint}),
	)
	if err == nil {
		_, err = queue.Load(ctx)
	}
	return st, queue, err
}

func (r *claims) withStore(ctx context.Context, queue *jobs.Store, n int) error {
	begin, used := time.Now(), cpuTime()
	for done := 0; done < n; {
		got, err := queue.Claim(ctx, lane(), claimSize, time.Now(), time.Minute)
		if err != nil {
			return err
		}
		outcomes := make([]jobs.Ack, len(got.Jobs))
		for i := range outcomes {
			outcomes[i].Job = got.Jobs[i]
		}
		if _, err := queue.Ack(ctx, outcomes, time.Now()); err != nil {
			return err
		}
		if done += len(outcomes); len(outcomes) == 0 {
			return fmt.Errorf("%d jobs could be claimed, want %d", done, n)
		}
	}
	r.Store += time.Since(begin)
	r.CPU += cpuTime() - used
	return nil
}

func (r *claims) withBare(ctx context.Context, b *bare, n int) error {
	begin, used := time.Now(), cpuTime()
	for done := 0; done < n; {
		took, err := b.claimAndSettle(ctx, claimSize)
		if err != nil {
			return err
		}
		if done += took; took == 0 {
			return fmt.Errorf("%d rows could be claimed, want %d", done, n)
		}
	}
	r.Bare += time.Since(begin)
	r.BareCPU += cpuTime() - used
	return nil
}
