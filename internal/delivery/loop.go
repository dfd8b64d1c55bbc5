package delivery

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"

	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/liveness"
)

const (
	// ackDelay is how long an outcome waits for others, to be acked together.
	ackDelay = 10 * time.Millisecond
	// ackMany is how many outcomes do not wait.
	ackMany = 256
	// maxItems is the maximum number of jobs of a queue in memory. A lane may have minClaim in any case.
	maxItems = 10_000
	// maxClaim and minClaim bound the number of jobs of one claim.
	maxClaim = 2000
	minClaim = 16
	// firstGap is the time between the first two claims of a lane that has no jobs; it doubles up to
	// Config.Poll.
	firstGap = 250 * time.Millisecond
	// patience bounds what is written after a context has ended.
	patience = 10 * time.Second
)

// plan is what run does next.
type plan struct {
	ack    []*item
	extend []*item
	claims []claim
	next   time.Time // when to plan again if nothing happens before
}

type claim struct {
	lane    *lane
	n       int
	without []uint16 // shares of which there is enough
}

// run claims and acks until ctx is done. Then it waits for the deliveries in progress, which end with
// hard, and returns the other jobs. While the database fails, it retries.
func (q *queue) run(ctx, hard context.Context) {
	for failures := 0; ctx.Err() == nil; {
		p := q.plan(time.Now())
		err := q.do(ctx, hard, &p)
		q.start(hard) // the breaker of an endpoint may be half-open by now
		switch {
		case err == nil:
			failures = 0
		case errors.Is(err, sqldb.ErrFenced) || errors.Is(err, sqldb.ErrNotOpen):
			q.engine.config.Logger.ErrorContext(ctx, "no jobs are delivered any more", "queue", q.name(), "error", err)
			<-ctx.Done()
		case ctx.Err() == nil:
			if failures++; failures == 1 {
				q.engine.config.Logger.WarnContext(ctx, "cannot claim or ack jobs; this is retried", "queue", q.name(), "error", err)
			}
			q.sleep(ctx, time.Now().Add(min(50*time.Millisecond<<min(failures, 10), 5*time.Second)), nil)
			continue
		}
		if len(p.ack)+len(p.claims) == 0 {
			q.sleep(ctx, p.next, q.wake)
		}
	}
	q.stop(ctx)
}

func (q *queue) name() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.conf.Name
}

func (q *queue) sleep(ctx context.Context, until time.Time, wake <-chan struct{}) {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-timer.C:
	}
}

func (q *queue) plan(now time.Time) plan {
	q.mu.Lock()
	defer q.mu.Unlock()
	p := plan{next: now.Add(q.engine.config.Poll)}
	before := func(at time.Time) {
		if at.Before(p.next) {
			p.next = at
		}
	}
	if n := len(q.finished); n > 0 {
		if n >= ackMany || n == len(q.items) || now.Sub(q.oldest) >= ackDelay || q.stopping {
			p.ack, q.finished = q.finished, nil
		} else {
			before(q.oldest.Add(ackDelay))
		}
	}
	p.extend = q.endingLocked(now)
	if len(q.items) > 0 {
		before(q.leases.Add(q.engine.config.Lease / 6))
	}
	if d := q.rateLocked(now); d > 0 && slices.ContainsFunc(q.order, func(l *lane) bool { return l.ready.ready > 0 }) {
		before(now.Add(d))
	}
	room, share := maxItems-len(q.items), q.shareLocked()
	for _, l := range q.order {
		c, at := q.wantLocked(l, now)
		before(at)
		if c.n = min(c.n, max(min(room, share-l.held), minClaim-l.held)); c.n > 0 {
			room -= c.n
			l.maybe, l.left = false, c.without
			p.claims = append(p.claims, c)
		}
	}
	return p
}

// shareLocked returns each active lane's part of maxItems: of those that have jobs in memory or may have
// some to claim.
func (q *queue) shareLocked() int {
	active := 0
	for _, l := range q.order {
		if l.held > 0 || l.maybe {
			active++
		}
	}
	return maxItems / max(active, 1)
}

// endingLocked returns the jobs whose leases are to be extended. It looks at them six times per lease.
func (q *queue) endingLocked(now time.Time) []*item {
	lease := q.engine.config.Lease
	if now.Sub(q.leases) < lease/6 {
		return nil
	}
	q.leases = now
	var ending []*item
	for _, it := range q.items {
		if it.ack == nil && it.leased.Sub(now) < lease*2/3 {
			ending = append(ending, it)
		}
	}
	return ending
}

// wantLocked returns how many jobs of a lane to claim, and when to ask again.
func (q *queue) wantLocked(l *lane, now time.Time) (c claim, at time.Time) {
	later := now.Add(q.engine.config.Poll)
	if q.conf.Paused || q.stopping || !l.endpoint.usable() {
		return c, later
	}
	if now.Before(l.hold) {
		return c, l.hold
	}
	if rest := l.endpoint.rest(); rest > 0 {
		return c, now.Add(rest)
	}
	target := min(max(2*q.conf.Concurrency*l.endpoint.batch, 2*q.speed.last, minClaim), maxClaim)
	if b := l.endpoint.breaker; b != nil && b.State() != circuitbreaker.ClosedState {
		target = minClaim // one is delivered, which is to be another one each time
	}
	isEnough := func(share uint16) bool { return l.stock[share] > target/2 }
	l.maybe = l.maybe || slices.ContainsFunc(l.left, func(share uint16) bool { return !isEnough(share) })
	if !l.maybe && now.Before(l.next) {
		return c, l.next
	}
	c.lane = l
	for _, share := range append(q.engine.jobs.Shares(l.id), 0) {
		if isEnough(share) {
			c.without = append(c.without, share)
		} else {
			c.n = max(c.n, target-l.stock[share])
		}
	}
	return c, later
}

// do carries out a plan, as far as the database allows.
func (q *queue) do(ctx, hard context.Context, p *plan) error {
	if err := q.ack(ctx, p.ack); err != nil {
		for _, c := range p.claims {
			q.claimAgain(c.lane)
		}
		return err
	}
	var errs []error
	if err := q.extend(ctx, p.extend); err != nil {
		errs = append(errs, err)
	}
	for _, c := range p.claims {
		if err := q.claim(ctx, hard, c); err != nil {
			q.claimAgain(c.lane)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (q *queue) claimAgain(l *lane) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l.maybe = true
}

// ack acks jobs with outcomes.
func (q *queue) ack(ctx context.Context, items []*item) error {
	if len(items) == 0 {
		return nil
	}
	acks := make([]jobs.Ack, len(items))
	q.mu.Lock()
	for i, it := range items {
		acks[i] = *it.ack
		acks[i].Job = it.job
		if it.ack.Outcome == jobs.Dead && it.sent {
			acks[i].Job.Attempts++
		}
	}
	q.mu.Unlock()
	released, err := q.engine.jobs.Ack(ctx, acks, time.Now())
	q.mu.Lock()
	defer q.mu.Unlock()
	if err != nil {
		if q.finished = append(items, q.finished...); q.oldest.IsZero() {
			q.oldest = time.Now()
		}
		return err
	}
	now := time.Now()
	for _, it := range items {
		delete(q.items, it.job.ID)
		if key := it.job.Key; it.blocks() {
			if q.blocked[key]--; q.blocked[key] == 0 {
				delete(q.blocked, key)
			}
		}
		l := q.lanes[it.job.Lane]
		switch outcome := it.ack.Outcome; {
		case released || outcome == jobs.Return:
			l.maybe = true
		case outcome == jobs.Retry || outcome == jobs.Postpone:
			l.next = earliest(l.next, now, it.ack.RunAt)
		}
	}
	q.speed.add(len(items), now)
	return nil
}

// extend extends the leases of jobs in memory.
func (q *queue) extend(ctx context.Context, items []*item) error {
	if len(items) == 0 {
		return nil
	}
	list := make([]jobs.Job, len(items))
	q.mu.Lock()
	for i, it := range items {
		list[i] = it.job
	}
	q.mu.Unlock()
	until := time.Now().Add(q.engine.config.Lease)
	if err := q.engine.jobs.Extend(ctx, list, until); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, it := range items {
		it.leased = until
	}
	return nil
}

// claim claims jobs of a lane, and begins to deliver them.
func (q *queue) claim(ctx, hard context.Context, c claim) error {
	now := time.Now()
	got, err := q.engine.jobs.Claim(ctx, c.lane.id, c.n, now, q.engine.config.Lease, c.without...)
	if err != nil {
		return err
	}
	events, err := q.engine.eventsOf(ctx, got.Jobs)
	if err != nil {
		q.engine.config.Logger.WarnContext(ctx, "cannot read the events of jobs; they are read one by one", "error", err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, job := range got.Jobs {
		it := &item{job: job, event: events[job.Event], leased: now.Add(q.engine.config.Lease)}
		q.addLocked(c.lane, it)
	}
	l := c.lane
	l.idle = min(max(2*l.idle, firstGap), q.engine.config.Poll)
	if len(got.Jobs) > 0 {
		l.idle = 0
	}
	l.maybe = l.maybe || got.More
	l.next = now.Add(max(l.idle, firstGap))
	if !got.Next.IsZero() {
		l.next = earliest(l.next, now, got.Next)
	}
	q.startLocked(hard)
	return nil
}

// earliest returns the earlier one of two instants, at as one of the monotonic clock: it does not come later
// if the wall clock is set back until then.
func earliest(next, now, at time.Time) time.Time {
	if at = now.Add(at.Sub(now)); at.Before(next) {
		return at
	}
	return next
}

// eventsOf reads the events of jobs, and returns them by offset.
func (e *Engine) eventsOf(ctx context.Context, list []jobs.Job) (map[uint64]*liveness.Event, error) {
	var offsets []uint64
	for i := range list {
		if list[i].Event != 0 {
			offsets = append(offsets, list[i].Event)
		}
	}
	if len(offsets) == 0 {
		return nil, nil
	}
	read, err := e.events.EventsAt(ctx, offsets)
	if err != nil {
		return nil, err
	}
	events := make(map[uint64]*liveness.Event, len(read))
	for i := range read {
		events[read[i].Offset] = &read[i]
	}
	return events, nil
}

// stop waits for the deliveries in progress and returns the other jobs.
func (q *queue) stop(ctx context.Context) {
	q.mu.Lock()
	q.stopping = true
	q.returnLocked()
	q.mu.Unlock()
	q.delivering.Wait() // ends with their context, at the latest
	q.mu.Lock()
	q.returnLocked()
	items := q.finished
	q.finished = nil
	q.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if err := q.ack(ctx, items); err != nil {
		q.engine.config.Logger.WarnContext(ctx, "cannot ack the last jobs; they are delivered again", "jobs", len(items), "error", err)
	}
}

// speed measures acked jobs per second.
type speed struct {
	last, count int
	since       time.Time
}

func (s *speed) add(n int, now time.Time) {
	if d := now.Sub(s.since); d >= time.Second {
		s.last, s.count, s.since = int(float64(s.count)/max(d.Seconds(), 1)), 0, now
	}
	s.count += n
	s.last = max(s.last, s.count)
}
