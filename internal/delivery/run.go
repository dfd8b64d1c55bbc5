package delivery

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// Run delivers until ctx is done. Then it gives the deliveries in progress [Config.Grace] to end, and
// returns all other jobs to the database. Call it once, after [Engine.Load]. While the database fails,
// Run retries.
func (e *Engine) Run(ctx context.Context) error {
	hard, abort := context.WithCancel(context.WithoutCancel(ctx))
	defer abort()
	var queues errgroup.Group
	e.mu.Lock()
	if e.begin != nil || len(e.queues) == 0 {
		e.mu.Unlock()
		return errors.New("delivery: Run is called once, after Load")
	}
	e.begin = func(q *queue) func() {
		own, end := context.WithCancel(ctx)
		queues.Go(func() error {
			defer end()
			q.run(own, hard)
			return nil
		})
		return end
	}
	for _, q := range e.queues {
		e.startLocked(q)
	}
	e.mu.Unlock()
	queues.Go(func() error {
		e.outbox.run(ctx)
		return nil
	})
	queues.Go(func() error {
		e.watchOldest(ctx)
		return nil
	})
	e.jobs.Watch(e.wake)
	e.wakeAll()
	e.sweep(ctx)

	e.mu.Lock()
	e.begin = func(*queue) func() { return func() {} } // starts nothing any more
	e.mu.Unlock()
	timer := time.AfterFunc(e.config.Grace, abort)
	defer timer.Stop()
	err := queues.Wait()
	e.close()
	return err
}

// wakeAll wakes all lanes that have jobs.
func (e *Engine) wakeAll() { e.wake(slices.Collect(maps.Keys(e.jobs.Depths()))) }

// sweepEvery is how often old dead letters are deleted.
const sweepEvery = time.Minute

// sweep deletes what is too old, and looks after settings and lanes, until ctx is done.
func (e *Engine) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		n, err := e.jobs.Sweep(ctx, *e.retention.Load(), time.Now())
		if err != nil && ctx.Err() == nil {
			e.config.Logger.WarnContext(ctx, "cannot delete old dead letters", "error", err)
		}
		if n > 0 {
			e.config.Logger.InfoContext(ctx, "old dead letters were deleted", "number", n)
		}
		if n := e.outlived.Swap(0); n > 0 {
			e.config.Logger.WarnContext(ctx, "jobs became dead letters because their events are too old to be kept", "number", n)
		}
		if err := e.reloadStale(ctx); err != nil && ctx.Err() == nil {
			e.config.Logger.WarnContext(ctx, "cannot read queues, endpoints and routes, which may have changed", "error", err)
		}
		e.wakeAll()
	}
}

// reloadStale applies the stored settings if they may be newer than the applied ones.
func (e *Engine) reloadStale(ctx context.Context) error {
	e.admin.Lock()
	defer e.admin.Unlock()
	if !e.stale {
		return nil
	}
	return e.reload(ctx)
}

// close closes all sinks.
func (e *Engine) close() {
	e.mu.Lock()
	endpoints := e.endpoints
	e.endpoints = make(map[uint32]*endpoint)
	e.mu.Unlock()
	for _, p := range endpoints {
		e.retire(p)
	}
	e.retired.Wait()
	e.webhooks.Close()
}
