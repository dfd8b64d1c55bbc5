package queues

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// riverQueue is a client of River. Jobs that are done stay in its table for a day, as its default is.
type riverQueue struct {
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
	copies bool
}

// openRiver makes River's tables and a client.
func openRiver(ctx context.Context, url string, of subject, t *tally) (queue, error) {
	conf, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	conf.MaxConns = int32(of.conns)
	pool, err := pgxpool.NewWithConfig(ctx, conf)
	if err != nil {
		return nil, err
	}
	q := &riverQueue{pool: pool, copies: of.copies}
	if err := errors.Join(q.build(ctx, of, t), q.connect(ctx, of.conns)); err != nil {
		pool.Close()
		return nil, err
	}
	return q, nil
}

func (q *riverQueue) build(ctx context.Context, of subject, t *tally) error {
	driver := riverpgxv5.New(q.pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(_ context.Context, job *river.Job[payload]) error {
		t.begin(job.Args.N)
		return nil
	}))
	conf := &river.Config{
		Logger:  slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: of.workers}},
		Workers: workers,
	}
	if of.tuned {
		conf.FetchCooldown, conf.FetchPollInterval = 2*time.Millisecond, 20*time.Millisecond
	}
	q.client, err = river.NewClient(driver, conf)
	return err
}

// connect makes all connections, so that their making does not count.
func (q *riverQueue) connect(ctx context.Context, n int) error {
	all := make([]*pgxpool.Conn, 0, n)
	defer func() {
		for _, conn := range all {
			conn.Release()
		}
	}()
	for range n {
		conn, err := q.pool.Acquire(ctx)
		if err != nil {
			return err
		}
		all = append(all, conn)
	}
	return nil
}

func (q *riverQueue) enqueue(ctx context.Context, n int) error {
	_, err := q.client.Insert(ctx, payload{n}, nil)
	return err
}

func (q *riverQueue) bulk(ctx context.Context, from, n int) error {
	params := make([]river.InsertManyParams, n)
	for i := range params {
		params[i].Args = payload{from + i}
	}
	if q.copies {
		made, err := q.client.InsertManyFast(ctx, params)
		if err == nil && made != n {
			err = fmt.Errorf("%d jobs were made, want %d", made, n)
		}
		return err
	}
	_, err := q.client.InsertMany(ctx, params)
	return err
}

func (q *riverQueue) start(ctx context.Context) error { return q.client.Start(ctx) }

func (q *riverQueue) stop(ctx context.Context) error { return q.client.Stop(ctx) }

func (q *riverQueue) statements() statements {
	return statements{
		stored:  "SELECT count(*), count(DISTINCT args->>'n') FROM river_job",
		waiting: "SELECT count(*) FROM river_job WHERE state <> 'completed'",
		any:     "SELECT EXISTS (SELECT FROM river_job WHERE state IN ('available', 'running', 'retryable', 'scheduled', 'pending', 'discarded', 'cancelled'))",
	}
}

func (q *riverQueue) close() error {
	q.pool.Close()
	return nil
}

// riverVersion returns the version that this program was built with.
func riverVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "github.com/riverqueue/river" {
				return m.Version
			}
		}
	}
	return "of an unknown version"
}
