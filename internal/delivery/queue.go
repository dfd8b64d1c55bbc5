package delivery

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/liveness"
)

// item is a job in memory, from its claim to its ack.
type item struct {
	job    jobs.Job
	event  *liveness.Event // nil for a job with a body
	leased time.Time       // end of the lease
	taken  time.Time       // when its delivery began; zero before
	sent   bool            // to its endpoint, with whatever result
	ack    *jobs.Ack       // nil while the outcome is not known; without the job
}

// lane has the jobs of a lane that are in memory. The queue's mu guards its fields.
type lane struct {
	id       jobs.Lane
	endpoint *endpoint
	ready    turns             // may be delivered: the first of their keys
	lines    map[int64][]*item // by key: one that is ready or being delivered, then those after it
	stock    map[uint16]int    // those without an outcome, by the share that they were claimed from
	held     int               // all of stock
	running  int               // deliveries in progress
	left     []uint16          // shares that the last claim left out, because there was enough of them
	maybe    bool              // the database may have jobs to claim
	next     time.Time         // when to claim even if nothing woke the lane
	idle     time.Duration     // between two such claims
	hold     time.Time         // until when the endpoint wants nothing
}

// queue has the jobs of a queue that are in memory. One goroutine claims and acks (run); others
// deliver.
type queue struct {
	engine *Engine
	num    uint32
	wake   chan struct{} // capacity 1, since one signal says it all; never closed

	mu       sync.Mutex // guards the fields below; never held during I/O; taken after Engine.mu
	conf     jobs.Queue
	settings *jobs.Settings // with the weights of names; its contents do not change
	policy   policy
	limiter  *rate.Limiter
	lanes    map[jobs.Lane]*lane
	order    []*lane // all lanes
	turn     int     // index of the lane whose turn it is
	items    map[uint64]*item
	finished []*item       // those of items that have an outcome
	blocked  map[int64]int // by key: how many of finished stay in the database, which blocks those after them only when they are acked
	oldest   time.Time     // when the first of finished came
	running  int           // goroutines that deliver
	stopping bool
	leases   time.Time // when the leases were looked at
	speed    speed

	delivering sync.WaitGroup
	delivered  atomic.Uint64
	retried    atomic.Uint64
	dead       atomic.Uint64
	durations  *histogram // of deliveries
	latencies  *histogram // of jobs
}

func newQueue(e *Engine, conf jobs.Queue, settings *jobs.Settings) *queue {
	q := &queue{
		engine: e, num: conf.Num, wake: make(chan struct{}, 1), lanes: make(map[jobs.Lane]*lane), items: make(map[uint64]*item),
		blocked: make(map[int64]int), durations: newDurations(), latencies: newLatencies(),
	}
	q.configureLocked(conf, settings) // no other goroutine has it yet
	return q
}

// configureLocked applies settings.
func (q *queue) configureLocked(conf jobs.Queue, settings *jobs.Settings) {
	if q.limiter == nil || q.conf.Rate != conf.Rate {
		limit, burst := rate.Inf, 1
		if conf.Rate > 0 {
			limit, burst = rate.Limit(conf.Rate), max(1, int(math.Ceil(conf.Rate/10)))
		}
		q.limiter = rate.NewLimiter(limit, burst)
	}
	q.conf, q.policy, q.settings = conf, policyOf(&conf), settings
	for _, l := range q.order {
		l.ready.reweigh()
	}
	if conf.Paused {
		q.returnLocked()
	}
}

// laneLocked returns a lane, and makes it if it is new.
func (q *queue) laneLocked(id jobs.Lane, p *endpoint) *lane {
	l := q.lanes[id]
	if l == nil {
		l = &lane{id: id, lines: make(map[int64][]*item), stock: make(map[uint16]int), maybe: true, ready: turns{weigh: q.weightLocked, round: make(map[jobs.Priority]float64)}}
		q.lanes[id] = l
		q.order = append(q.order, l)
	}
	l.endpoint = p
	return l
}

// weightLocked returns the weight of a name.
func (q *queue) weightLocked(name string) int {
	if r, ok := q.settings.JobRoute(name); ok {
		return r.Weight
	}
	return 1
}

// signal wakes the goroutine that claims and acks.
func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// addLocked adds a claimed job. One that is in memory already was claimed again because its lease had
// ended.
func (q *queue) addLocked(l *lane, it *item) {
	if old := q.items[it.job.ID]; old != nil {
		old.job.Claim, old.leased = it.job.Claim, it.leased
		return
	}
	q.items[it.job.ID] = it
	l.stock[it.job.Share]++
	l.held++
	if key := it.job.Key; key != 0 {
		if q.blocked[key] > 0 {
			q.ackLocked(l, it, &jobs.Ack{Outcome: jobs.Return}, time.Now())
			return
		}
		line := append(l.lines[key], it)
		l.lines[key] = line
		if len(line) > 1 {
			return
		}
	}
	l.ready.add(it)
}

// fitsLocked reports whether a lane may begin one more delivery, of so many that are free. From its second
// on it leaves some to the other lanes: a quarter of as many as it has itself then, and one at least. So an
// endpoint that hangs does not hold all deliveries of a queue, and of 32 two such do not either.
func (q *queue) fitsLocked(l *lane, free int) bool {
	return l.running == 0 || free-1 >= max((l.running+1)/4, 1) ||
		!slices.ContainsFunc(q.order, func(other *lane) bool { return other != l && other.endpoint.usable() })
}

// nextLocked takes the jobs of the next delivery from the lane whose turn it is, if some deliveries are
// free; nil if there are none. The breaker has given a permit for it.
func (q *queue) nextLocked(now time.Time, free int) (*lane, []*item) {
	if free <= 0 || q.conf.Paused || q.stopping || q.rateLocked(now) > 0 {
		return nil, nil
	}
	for i := range q.order {
		l := q.order[(q.turn+i)%len(q.order)]
		p := l.endpoint
		if l.ready.ready == 0 || !p.usable() || now.Before(l.hold) || p.alone && l.running > 0 || !q.fitsLocked(l, free) ||
			p.breaker != nil && !p.breaker.TryAcquirePermit() {
			continue
		}
		q.turn = (q.turn + i + 1) % len(q.order)
		q.limiter.AllowN(now, 1)
		l.running++
		var batch []*item
		if p.breaker != nil && p.breaker.IsHalfOpen() {
			batch = []*item{l.ready.trial()}
		} else {
			batch = l.ready.next(p.batch)
		}
		for _, it := range batch {
			it.taken = now
		}
		return l, batch
	}
	return nil, nil
}

// rateLocked returns how long the rate of the queue allows no delivery to begin.
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

// resetLane forgets that the endpoint of a lane failed, and how long it wanted nothing.
func (q *queue) resetLane(id jobs.Lane) {
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

// finishLocked notes the outcome of a delivered job. If the job leaves the database, the next one with
// its key may be delivered; otherwise those after it are blocked.
func (q *queue) finishLocked(l *lane, it *item, ack *jobs.Ack, now time.Time) {
	l.ready.ended(it)
	q.ackLocked(l, it, ack, now)
	key := it.job.Key
	if key == 0 {
		return
	}
	line := l.lines[key][1:]
	switch {
	case len(line) == 0:
		delete(l.lines, key)
	case ack.Outcome == jobs.Done || ack.Outcome == jobs.Dead:
		l.lines[key] = line
		l.ready.add(line[0])
	default:
		delete(l.lines, key)
		for _, other := range line {
			q.ackLocked(l, other, &jobs.Ack{Outcome: jobs.Block}, now)
		}
	}
}

// ackLocked notes an outcome, which is acked later.
func (q *queue) ackLocked(l *lane, it *item, ack *jobs.Ack, now time.Time) {
	it.ack = ack
	l.held--
	if l.stock[it.job.Share]--; l.stock[it.job.Share] == 0 {
		delete(l.stock, it.job.Share)
	}
	if len(q.finished) == 0 {
		q.oldest = now
	}
	q.finished = append(q.finished, it)
	if it.blocks() {
		q.blocked[it.job.Key]++
	}
	switch ack.Outcome {
	case jobs.Done:
		q.delivered.Add(1)
	case jobs.Dead:
		q.dead.Add(1)
	case jobs.Retry:
		q.retried.Add(1)
	default:
	}
}

// blocks reports whether a job with an outcome blocks those after it that have its key.
func (it *item) blocks() bool {
	return it.job.Key != 0 && it.ack.Outcome != jobs.Done && it.ack.Outcome != jobs.Dead
}

// returnLocked returns to the database what is not being delivered.
func (q *queue) returnLocked() {
	now := time.Now()
	for _, l := range q.order {
		ready := l.ready.clear()
		first := make(map[int64]bool, len(ready)) // keys whose first job is not being delivered
		for _, it := range ready {
			if first[it.job.Key] = true; it.job.Key == 0 {
				q.ackLocked(l, it, &jobs.Ack{Outcome: jobs.Return}, now)
			}
		}
		for key, line := range l.lines {
			if first[key] {
				delete(l.lines, key)
			} else {
				l.lines[key], line = line[:1:1], line[1:]
			}
			for _, it := range line {
				q.ackLocked(l, it, &jobs.Ack{Outcome: jobs.Return}, now)
			}
		}
		l.maybe = true
	}
}
