package delivery

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/jobs"
)

// errResults is returned for a sink that violates its contract.
var errResults = errors.New("delivery: the sink returned a wrong number of results")

// panicError is a panic of a sink.
type panicError struct{ value any }

func (e panicError) Error() string { return fmt.Sprintf("delivery: the sink panicked: %v", e.value) }

// start begins as many deliveries as the queue allows. They end with ctx.
func (q *queue) start(ctx context.Context) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.startLocked(ctx)
}

func (q *queue) startLocked(ctx context.Context) {
	for {
		l, batch := q.nextLocked(time.Now(), q.conf.Concurrency-q.running)
		if batch == nil {
			return
		}
		q.running++
		p := l.endpoint
		p.users.Add(1)
		q.delivering.Go(func() { q.work(ctx, l, p, batch) })
	}
}

// work delivers a batch to an endpoint, and then others, until no more may be delivered.
func (q *queue) work(ctx context.Context, l *lane, p *endpoint, batch []*item) {
	for {
		acks, after := q.engine.deliver(ctx, q, p, batch)
		p.users.Done()
		q.mu.Lock()
		now := time.Now()
		if after > 0 {
			l.hold = latest(l.hold, now.Add(after)) // a concurrent delivery may have been told more
		}
		for i, it := range batch {
			q.finishLocked(l, it, acks[i], now)
		}
		l.running--
		if l, batch = q.nextLocked(now, q.conf.Concurrency-(q.running-1)); batch == nil {
			q.running--
			q.mu.Unlock()
			q.signal()
			return
		}
		p = l.endpoint
		p.users.Add(1)
		q.mu.Unlock()
		q.signal()
	}
}

// deliver delivers a batch. It returns an ack for each job, and how long nothing should be sent to the
// endpoint.
func (e *Engine) deliver(ctx context.Context, q *queue, p *endpoint, batch []*item) (acks []*jobs.Ack, after time.Duration) {
	acks = make([]*jobs.Ack, len(batch))
	q.mu.Lock()
	policy, name := q.policy, q.conf.Name
	q.mu.Unlock()
	var messages []sink.Message
	var attempts []attempt
	var places []int // in the batch, by message
	now := time.Now()
	for i, it := range batch {
		m, a, ack := e.prepare(ctx, it, &policy, now)
		if acks[i] = ack; ack == nil {
			messages, attempts, places = append(messages, m), append(attempts, a), append(places, i)
		}
	}
	if len(messages) == 0 {
		p.unusedPermit()
		return acks, 0
	}
	breaker := p.breaker
	if p.Num == 0 { // its batch is 1
		if breaker = e.hosts.breaker(messages[0].URL); !breaker.TryAcquirePermit() {
			acks[places[0]] = &jobs.Ack{Outcome: jobs.Postpone, RunAt: now.Add(max(breaker.RemainingDelay(), time.Second)), Error: hostFails}
			return acks, 0
		}
	}
	began := time.Now()
	results := e.send(ctx, p, messages)
	aborted := ctx.Err() != nil
	p.record(breaker, results, began, aborted)
	now = time.Now()
	q.durations.add(now.Sub(began))
	for k, i := range places {
		r := &results[k]
		if r.Err != nil && aborted {
			acks[i] = &jobs.Ack{Outcome: jobs.Return}
			continue
		}
		batch[i].sent = true
		attempts[k].result = *r
		if p.Num != 0 { // jobs with a URL go to many places
			after = max(after, r.After)
		}
		ack := &jobs.Ack{Status: r.Status, Response: r.Response, Started: batch[i].taken}
		ack.Outcome, ack.RunAt, ack.Error = policy.decide(attempts[k], now, rand.Float64())
		if r.Gone && p.Num != 0 {
			e.disableGone(ctx, p, ack.Error)
		}
		if ack.Outcome == jobs.Done {
			q.latencies.add(now.Sub(attempts[k].created))
		}
		if ack.Outcome == jobs.Dead || ack.Outcome == jobs.Done {
			ack.Body = bodyOf(&messages[k], batch[i])
		}
		acks[i] = ack
		if ack.Outcome != jobs.Postpone { // which was no attempt
			e.config.Logger.DebugContext(ctx, "a delivery has ended", "job", batch[i].job.ID, "name", batch[i].job.Name, "queue", name, "endpoint", p.Name,
				"attempt", batch[i].job.Attempts+1, "took", now.Sub(began), "error", ack.Error)
		}
	}
	return acks, after
}

// send calls the sink with the endpoint's timeout.
func (e *Engine) send(ctx context.Context, p *endpoint, messages []sink.Message) (results []sink.Result) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	defer func() {
		if r := recover(); r != nil {
			e.config.Logger.ErrorContext(ctx, "a sink panicked", "endpoint", p.Name, "kind", p.Kind, "panic", r)
			results = sink.Repeat(len(messages), sink.Result{Err: panicError{r}})
		}
	}()
	results = p.sink.Deliver(ctx, messages)
	if len(results) != len(messages) {
		return sink.Repeat(len(messages), sink.Result{Err: errResults})
	}
	return results
}
