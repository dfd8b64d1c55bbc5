package delivery

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/holter-iot/holter/delivery/sink"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/store"
)

// item is a job in memory, from its claim until it is settled.
type item struct {
	job     store.Job
	event   *liveness.Event // nil for a job with a body of its own
	leased  time.Time       // end of the lease
	sent    bool            // to its endpoint, whatever came of it
	outcome *store.Outcome  // nil while it is not known
}

// lane is a lane at work. The queue's mu guards its fields.
type lane struct {
	id       store.Lane
	endpoint *endpoint
	ready    []*item           // may be delivered: the first of their keys
	lines    map[int64][]*item // by key: one that is ready or being delivered, and those behind it
	items    int               // that have no outcome yet
	maybe    bool              // there may be jobs in the database that can be claimed
	next     time.Time         // when to look for some that nobody told of
	idle     time.Duration     // between two such looks
	hold     time.Time         // the endpoint wants nothing before
}

// queue is a queue at work: goroutines that deliver, and one that claims and settles.
type queue struct {
	engine *Engine
	num    uint32
	wake   chan struct{} // capacity 1: says that there is something to do; never closed

	mu       sync.Mutex // guards the fields below; never held during I/O; taken after Engine.mu
	conf     store.Queue
	policy   policy
	limiter  *rate.Limiter
	lanes    map[store.Lane]*lane
	order    []*lane // all lanes; the one whose turn it is, is at turn
	turn     int
	items    map[uint64]*item // claimed and not settled
	finished []*item          // of these, the ones with an outcome
	blocked  map[int64]int    // by key, how many of finished will wait; until they are settled, the database does not hold back those behind them
	oldest   time.Time        // when the first of finished was
	running  int              // goroutines that deliver
	stopping bool
	looked   time.Time // when leases were
	speed    speed

	delivering sync.WaitGroup
	settled    atomic.Uint64
	retried    atomic.Uint64
	dead       atomic.Uint64
}

func newQueue(e *Engine, conf store.Queue) *queue {
	q := &queue{
		engine: e, num: conf.Num, wake: make(chan struct{}, 1), lanes: make(map[store.Lane]*lane), items: make(map[uint64]*item),
		blocked: make(map[int64]int),
	}
	q.configureLocked(conf) // nobody else has it yet
	return q
}

// configureLocked makes settings count.
func (q *queue) configureLocked(conf store.Queue) {
	if q.limiter == nil || q.conf.Rate != conf.Rate {
		limit, burst := rate.Inf, 1
		if conf.Rate > 0 {
			limit, burst = rate.Limit(conf.Rate), max(1, int(math.Ceil(conf.Rate/10)))
		}
		q.limiter = rate.NewLimiter(limit, burst)
	}
	q.conf, q.policy = conf, policyOf(&conf)
	if conf.Paused {
		q.returnLocked()
	}
}

// laneLocked returns a lane, which is made if it is new.
func (q *queue) laneLocked(id store.Lane, p *endpoint) *lane {
	l := q.lanes[id]
	if l == nil {
		l = &lane{id: id, lines: make(map[int64][]*item), maybe: true}
		q.lanes[id] = l
		q.order = append(q.order, l)
	}
	l.endpoint = p
	return l
}

// signal wakes the goroutine that claims and settles.
func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// addLocked takes claimed jobs into memory. One that is there already was claimed again because its lease had ended.
func (q *queue) addLocked(l *lane, it *item) {
	if old := q.items[it.job.ID]; old != nil {
		old.job.Claim, old.leased = it.job.Claim, it.leased
		return
	}
	q.items[it.job.ID] = it
	l.items++
	if key := it.job.Key; key != 0 {
		if q.blocked[key] > 0 {
			q.outcomeLocked(l, it, &store.Outcome{Verdict: store.Return}, time.Now())
			return
		}
		line := append(l.lines[key], it)
		l.lines[key] = line
		if len(line) > 1 {
			return
		}
	}
	l.ready = append(l.ready, it)
}

// start begins as many deliveries as there may be. They end with ctx.
func (q *queue) start(ctx context.Context) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.startLocked(ctx)
}

func (q *queue) startLocked(ctx context.Context) {
	for q.running < q.conf.Concurrency {
		l, batch := q.nextLocked(time.Now())
		if batch == nil {
			return
		}
		q.running++
		p := l.endpoint
		p.users.Add(1)
		q.delivering.Go(func() { q.work(ctx, l, p, batch) })
	}
}

// nextLocked takes what is to be delivered next: of one lane, which take turns.
func (q *queue) nextLocked(now time.Time) (*lane, []*item) {
	if q.conf.Paused || q.stopping || q.rateLocked(now) > 0 {
		return nil, nil
	}
	for i := range q.order {
		l := q.order[(q.turn+i)%len(q.order)]
		p := l.endpoint
		if len(l.ready) == 0 || !p.usable() || now.Before(l.hold) || p.breaker != nil && !p.breaker.TryAcquirePermit() {
			continue
		}
		q.turn = (q.turn + i + 1) % len(q.order)
		n := min(p.batch, len(l.ready))
		batch := l.ready[:n:n]
		if l.ready = l.ready[n:]; len(l.ready) == 0 {
			l.ready = nil
		}
		q.limiter.AllowN(now, 1)
		return l, batch
	}
	return nil, nil
}

// rateLocked returns for how long no delivery may begin by the queue's rate.
func (q *queue) rateLocked(now time.Time) time.Duration {
	if q.conf.Rate == 0 {
		return 0
	}
	missing := 1 - q.limiter.TokensAt(now)
	if missing <= 0 {
		return 0
	}
	return time.Duration(missing/q.conf.Rate*float64(time.Second)) + time.Microsecond // it may be rounded
}

// hasten forgets what the endpoint of a lane has asked for, and that it failed.
func (q *queue) hasten(id store.Lane) {
	q.mu.Lock()
	if l := q.lanes[id]; l != nil {
		l.hold, l.maybe = time.Time{}, true
		if b := l.endpoint.breaker; b != nil {
			b.Close()
		}
	}
	q.mu.Unlock()
	q.signal()
}

// work delivers until nothing is left to do. The endpoint is that of the first batch.
func (q *queue) work(ctx context.Context, l *lane, p *endpoint, batch []*item) {
	for {
		outcomes, after := q.engine.deliver(ctx, q, p, batch)
		p.users.Done()
		q.mu.Lock()
		now := time.Now()
		if after > 0 {
			l.hold = later(l.hold, now.Add(after)) // another delivery, at the same time, may have been told more
		}
		for i, it := range batch {
			q.finishLocked(l, it, outcomes[i], now)
		}
		if l, batch = nil, nil; q.running <= q.conf.Concurrency {
			l, batch = q.nextLocked(now)
		}
		if batch == nil {
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

// finishLocked notes what became of a job that was delivered or not. The next one with its key may follow if it is out of the way;
// otherwise those behind it stay behind it.
func (q *queue) finishLocked(l *lane, it *item, o *store.Outcome, now time.Time) {
	q.outcomeLocked(l, it, o, now)
	key := it.job.Key
	if key == 0 {
		return
	}
	line := l.lines[key][1:]
	switch {
	case len(line) == 0:
		delete(l.lines, key)
	case o.Verdict == store.Done || o.Verdict == store.Dead:
		l.lines[key] = line
		l.ready = append(l.ready, line[0])
	default:
		delete(l.lines, key)
		for _, other := range line {
			q.outcomeLocked(l, other, &store.Outcome{Verdict: store.Behind}, now)
		}
	}
}

func (q *queue) outcomeLocked(l *lane, it *item, o *store.Outcome, now time.Time) {
	it.outcome = o
	l.items--
	if len(q.finished) == 0 {
		q.oldest = now
	}
	q.finished = append(q.finished, it)
	if waits(it) {
		q.blocked[it.job.Key]++
	}
	switch o.Verdict {
	case store.Done:
		q.settled.Add(1)
	case store.Dead:
		q.dead.Add(1)
	case store.Retry:
		q.retried.Add(1)
	default:
	}
}

// waits says whether a job with a key will be in the database still when it is settled.
func waits(it *item) bool {
	return it.job.Key != 0 && it.outcome.Verdict != store.Done && it.outcome.Verdict != store.Dead
}

// returnLocked gives back what is in memory and not being delivered.
func (q *queue) returnLocked() {
	now := time.Now()
	for _, l := range q.order {
		first := make(map[int64]bool, len(l.ready)) // keys whose first job is not being delivered
		ready := l.ready
		l.ready = nil
		for _, it := range ready {
			if first[it.job.Key] = true; it.job.Key == 0 {
				q.outcomeLocked(l, it, &store.Outcome{Verdict: store.Return}, now)
			}
		}
		for key, line := range l.lines {
			if first[key] {
				delete(l.lines, key)
			} else {
				l.lines[key], line = line[:1:1], line[1:]
			}
			for _, it := range line {
				q.outcomeLocked(l, it, &store.Outcome{Verdict: store.Return}, now)
			}
		}
		l.maybe = true
	}
}

// deliver delivers a batch, and returns what became of each, and for how long nothing should be sent to the endpoint.
func (e *Engine) deliver(ctx context.Context, q *queue, p *endpoint, batch []*item) (outcomes []*store.Outcome, after time.Duration) {
	outcomes = make([]*store.Outcome, len(batch))
	q.mu.Lock()
	policy := q.policy
	q.mu.Unlock()
	var messages []sink.Message
	var attempts []attempt
	var places []int
	now := time.Now()
	for i, it := range batch {
		m, a, o := e.prepare(ctx, it, &policy, now)
		if outcomes[i] = o; o == nil {
			messages, attempts, places = append(messages, m), append(attempts, a), append(places, i)
		}
	}
	if len(messages) == 0 {
		p.skip()
		return outcomes, 0
	}
	breaker := p.breaker
	if p.Num == 0 { // messages is one
		if breaker = e.hosts.breaker(messages[0].URL); !breaker.TryAcquirePermit() {
			outcomes[places[0]] = &store.Outcome{Verdict: store.Postpone, RunAt: now.Add(max(breaker.RemainingDelay(), time.Second)), Error: restingText}
			return outcomes, 0
		}
	}
	results := e.send(ctx, p, messages)
	ended := ctx.Err() != nil
	p.record(breaker, results, ended)
	now = time.Now()
	for k, i := range places {
		r := &results[k]
		if r.Err != nil && ended { // that was us
			outcomes[i] = &store.Outcome{Verdict: store.Return}
			continue
		}
		batch[i].sent = true
		attempts[k].result = *r
		if p.Num != 0 { // it is one place
			after = max(after, r.After)
		}
		o := &store.Outcome{Status: r.Status, Response: r.Response}
		o.Verdict, o.RunAt, o.Error = policy.judge(attempts[k], now, rand.Float64())
		if r.Gone && p.Num != 0 {
			e.gone(ctx, p, o.Error)
		}
		if o.Verdict == store.Dead {
			o.Body = bodyOf(&messages[k], batch[i])
		}
		outcomes[i] = o
	}
	return outcomes, after
}

// bodyOf returns what a dead letter keeps.
func bodyOf(m *sink.Message, it *item) store.JobBody {
	b := store.JobBody{Message: m.ID, Key: m.Key, URL: m.URL, ContentType: m.ContentType, Data: m.Data}
	if it.job.Body != nil {
		b.Created, b.Deadline = it.job.Body.Created, it.job.Body.Deadline
	} else if it.event != nil {
		b.Created = it.event.Time
	}
	return b
}

// send lets the sink deliver, within the endpoint's time.
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
