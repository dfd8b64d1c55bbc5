package queues

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/holter-iot/holter/bench/internal/cores"
	"github.com/holter-iot/holter/bench/internal/run"
)

const (
	callers     = 32 // that enqueue jobs one by one
	bulkCallers = 4  // that enqueue jobs in bulk
	// patience is how long jobs may take.
	patience = 5 * time.Minute
)

// result is what a measurement has found. Each has those fields that it needs.
type result struct {
	Jobs    int
	Elapsed time.Duration
	CPU     time.Duration // of the process that is measured
	Busy    time.Duration // of all cores, so with the server's

	P50, P99, Max time.Duration // from when a job was due to be enqueued until it was begun
	Stored, Sent  time.Duration // p99 until it was stored, and until the call began

	Filled time.Duration // the time to enqueue the backlog
	Size   int           // bytes of the database with it, more than before
}

// player makes one measurement.
type player struct {
	subject subject
	url     string
	load    int
	length  time.Duration
	quick   bool

	queue queue
	conn  *pgx.Conn // for what is asked beside
}

// with opens the queue for the jobs of a tally, calls do and closes it.
func (p *player) with(ctx context.Context, t *tally, do func() error) (err error) {
	if p.conn, err = pgx.Connect(ctx, p.url); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.conn.Close(ctx)) }()
	if p.queue, err = p.subject.open(ctx, p.url, p.subject, t); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.queue.close()) }()
	return do()
}

// used calls do, which returns how many jobs it took, and notes what they took.
func (r *result) used(do func() (int, error)) error {
	pid := os.Getpid()
	cpu, err1 := cores.CPUTime(pid)
	busy, err2 := cores.BusyTime()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	begin := time.Now()
	n, err := do()
	if err != nil {
		return err
	}
	r.Jobs, r.Elapsed = n, time.Since(begin)
	cpuThen, err1 := cores.CPUTime(pid)
	busyThen, err2 := cores.BusyTime()
	r.CPU, r.Busy = cpuThen-cpu, busyThen-busy
	return errors.Join(err1, err2)
}

// one enqueues jobs one by one. Nobody works them.
func (p *player) one(ctx context.Context) (found result, err error) {
	return p.enqueueing(ctx, callers, 1, p.length, func(ctx context.Context, from, _ int) error { return p.queue.enqueue(ctx, from) })
}

// bulk enqueues jobs in bulk. Nobody works them.
func (p *player) bulk(ctx context.Context) (found result, err error) {
	return p.enqueueing(ctx, bulkCallers, bulkSize, p.length, func(ctx context.Context, from, n int) error { return p.queue.bulk(ctx, from, n) })
}

// enqueueing calls store with so many callers for a while, and checks what was stored.
func (p *player) enqueueing(ctx context.Context, callers, size int, length time.Duration,
	store func(ctx context.Context, from, n int) error,
) (found result, err error) {
	return found, p.with(ctx, newTally(0, false), func() error {
		err := found.used(func() (int, error) {
			var made atomic.Int64
			calling, ctx := errgroup.WithContext(ctx)
			for begin := time.Now(); callers > 0; callers-- {
				calling.Go(func() error {
					for time.Since(begin) < length {
						if err := store(ctx, int(made.Add(int64(size)))-size, size); err != nil {
							return err
						}
					}
					return nil
				})
			}
			err := calling.Wait()
			return int(made.Load()), err
		})
		if err != nil {
			return err
		}
		return p.checkStored(ctx, found.Jobs)
	})
}

// checkStored returns an error unless n jobs are stored, once each.
func (p *player) checkStored(ctx context.Context, n int) error {
	var stored, different int
	err := query(ctx, p.conn, p.queue.statements().stored, &stored, &different)
	if err == nil && (stored != n || different != n) {
		err = fmt.Errorf("%d jobs are stored, %d of them different, want %d", stored, different, n)
	}
	return err
}

// fill enqueues n jobs in bulk, and prepares the server for the queries to come.
func (p *player) fill(ctx context.Context, n int) error {
	var made atomic.Int64
	calling, filling := errgroup.WithContext(ctx)
	for range bulkCallers {
		calling.Go(func() error {
			for {
				from := int(made.Add(bulkSize)) - bulkSize
				if from >= n {
					return nil
				}
				if err := p.queue.bulk(filling, from, min(bulkSize, n-from)); err != nil {
					return err
				}
			}
		})
	}
	if err := calling.Wait(); err != nil {
		return err
	}
	return p.checkStored(ctx, n)
}

// settle lets the server do what it would do some time after many rows came.
func (p *player) settle(ctx context.Context) error {
	return errors.Join(query(ctx, p.conn, "VACUUM ANALYZE"), query(ctx, p.conn, "CHECKPOINT"))
}

// work works jobs that are there, until all are done.
func (p *player) work(ctx context.Context) (found result, err error) {
	if p.subject.slow {
		p.load /= 10
	}
	t := newTally(p.load, false)
	return found, p.with(ctx, t, func() error {
		if err := errors.Join(p.fill(ctx, p.load), p.settle(ctx)); err != nil {
			return err
		}
		err := found.used(func() (int, error) {
			if err := p.queue.start(ctx); err != nil {
				return 0, err
			}
			return p.load, errors.Join(wait(ctx, t.all), p.done(ctx))
		})
		return p.end(ctx, t, err)
	})
}

// done waits until the database has no job that is not done.
func (p *player) done(ctx context.Context) error {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		left := true
		if err := query(ctx, p.conn, p.queue.statements().any, &left); err != nil || !left {
			return err
		}
		if err := run.Wait(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
	return errors.New("jobs that were begun are not done")
}

// end stops the queue, and checks that each job was worked once, or is left.
func (p *player) end(ctx context.Context, t *tally, err error) error {
	if err := errors.Join(err, p.queue.stop(ctx)); err != nil {
		return err
	}
	var left int
	if err := query(ctx, p.conn, p.queue.statements().waiting, &left); err != nil {
		return err
	}
	return t.check(left)
}

// backlog enqueues very many jobs, and works them for a while.
func (p *player) backlog(ctx context.Context) (found result, err error) {
	t := newTally(p.load, false)
	return found, p.with(ctx, t, func() error {
		const size = "SELECT pg_database_size(current_database())"
		var before int
		if err := query(ctx, p.conn, size, &before); err != nil {
			return err
		}
		begin := time.Now()
		if err := p.fill(ctx, p.load); err != nil {
			return err
		}
		found.Filled = time.Since(begin)
		if err := errors.Join(query(ctx, p.conn, size, &found.Size), p.settle(ctx), p.queue.start(ctx)); err != nil {
			return err
		}
		found.Size -= before
		err := wait(ctx, t.first)
		if err == nil {
			err = found.used(func() (int, error) { return t.during(ctx, p.length) })
		}
		return p.end(ctx, t, err)
	})
}

// during returns how many jobs are begun in a while, or until all are.
func (t *tally) during(ctx context.Context, length time.Duration) (int, error) {
	before := t.count.Load()
	select {
	case <-time.After(length):
	case <-t.all:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	return int(t.count.Load() - before), nil
}

// wait waits for a channel to be closed.
func wait(ctx context.Context, closed <-chan struct{}) error {
	select {
	case <-closed:
		return nil
	case <-time.After(patience):
		return errors.New("jobs are not begun")
	case <-ctx.Done():
		return ctx.Err()
	}
}
