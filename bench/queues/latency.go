package queues

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holter-iot/holter/bench/internal/run"
)

// warm is how long jobs are enqueued before they count.
const warm = time.Second

// latency enqueues jobs at a constant rate, however long each takes, and measures from when each was due.
func (p *player) latency(ctx context.Context) (found result, err error) {
	skip := p.jobs(warm)
	if p.quick {
		skip /= 10
	}
	n := skip + p.jobs(p.length)
	t := newTally(n, true)
	return found, p.with(ctx, t, func() error {
		if err := p.queue.start(ctx); err != nil {
			return err
		}
		var plan arrivals
		err := found.used(func() (int, error) {
			plan = newArrivals(n, p.load)
			return n, plan.send(ctx, p.queue)
		})
		if err == nil {
			err = wait(ctx, t.all)
		}
		if err == nil {
			err = p.done(ctx)
		}
		if err := p.end(ctx, t, err); err != nil {
			return err
		}
		begun := make([]time.Duration, n)
		for i := range begun {
			begun[i] = t.started.Add(time.Duration(t.began[i].Load())).Sub(plan.due(i))
		}
		begun = begun[skip:]
		slices.Sort(begun)
		found.P50, found.P99, found.Max = quantile(begun, 50), quantile(begun, 99), begun[len(begun)-1]
		found.Stored, found.Sent = plan.p99(plan.stored[skip:]), plan.p99(plan.sent[skip:])
		return nil
	})
}

// jobs returns how many jobs come in a while.
func (p *player) jobs(d time.Duration) int { return int(d.Seconds() * float64(p.load)) }

// arrivals are jobs that are due to be enqueued, one after the other. Times count from when a job is due.
type arrivals struct {
	start  time.Time
	rate   int            // per second
	sent   []atomic.Int64 // when its call began
	stored []atomic.Int64 // when its call ended
}

func newArrivals(n, rate int) arrivals {
	return arrivals{start: time.Now(), rate: rate, sent: make([]atomic.Int64, n), stored: make([]atomic.Int64, n)}
}

func (a *arrivals) due(i int) time.Time {
	return a.start.Add(time.Duration(i) * time.Second / time.Duration(a.rate))
}

// send enqueues all jobs when they are due, each in a goroutine of its own.
func (a *arrivals) send(outer context.Context, q queue) error {
	calling, ctx := errgroup.WithContext(outer)
	for i := range a.sent {
		if run.Wait(ctx, time.Until(a.due(i))) != nil {
			break // the error is that of a call, or of the caller's context
		}
		calling.Go(func() error {
			a.sent[i].Store(int64(time.Since(a.due(i))))
			err := q.enqueue(ctx, i)
			a.stored[i].Store(int64(time.Since(a.due(i))))
			return err
		})
	}
	return errors.Join(calling.Wait(), context.Cause(outer))
}

func (a *arrivals) p99(times []atomic.Int64) time.Duration {
	all := make([]time.Duration, len(times))
	for i := range times {
		all[i] = time.Duration(times[i].Load())
	}
	slices.Sort(all)
	return quantile(all, 99)
}

// quantile returns one of sorted times, in percent.
func quantile(sorted []time.Duration, percent int) time.Duration {
	return sorted[min(len(sorted)*percent/100, len(sorted)-1)]
}
