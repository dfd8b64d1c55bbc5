package delivery

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/sqldb"
	"github.com/holter-iot/holter/store"
)

const (
	// gather is how long outcomes wait for others to be settled with, and gatherMany how many do not wait.
	gather     = 10 * time.Millisecond
	gatherMany = 256
	// maxItems bounds the jobs of a queue in memory, maxClaim those of one claim.
	maxItems = 10_000
	maxClaim = 2000
	minClaim = 16
	firstGap = 250 * time.Millisecond
	// patience bounds what is written when Run ends.
	patience = 10 * time.Second
)

// plan is what there is to do in the database.
type plan struct {
	settle []*item
	extend []*item
	claims []claim
	next   time.Time // when to plan again if nothing happens before
}

type claim struct {
	lane *lane
	n    int
}

// run claims and settles until ctx is done; then it waits for the deliveries that are going on, which end with hard, and gives the others back. A database that
// fails is tried again and again.
func (q *queue) run(ctx, hard context.Context) {
	for failures := 0; ctx.Err() == nil; {
		p := q.plan(time.Now())
		err := q.do(ctx, hard, &p)
		q.start(hard) // an endpoint may have rested long enough
		switch {
		case err == nil:
			failures = 0
		case errors.Is(err, sqldb.ErrFenced) || errors.Is(err, sqldb.ErrNotOpen):
			q.engine.config.Logger.ErrorContext(ctx, "no jobs are delivered any more", "queue", q.name(), "error", err)
			<-ctx.Done()
		case ctx.Err() == nil:
			if failures++; failures == 1 {
				q.engine.config.Logger.WarnContext(ctx, "jobs cannot be claimed or settled; it is tried again and again", "queue", q.name(), "error", err)
			}
			q.wait(ctx, time.Now().Add(min(50*time.Millisecond<<min(failures, 10), 5*time.Second)), nil)
			continue
		}
		if len(p.settle)+len(p.claims) == 0 {
			q.wait(ctx, p.next, q.wake)
		}
	}
	q.stop(ctx)
}

func (q *queue) name() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.conf.Name
}

func (q *queue) wait(ctx context.Context, until time.Time, wake <-chan struct{}) {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-timer.C:
	}
}

// plan says what to do now.
func (q *queue) plan(now time.Time) plan {
	q.mu.Lock()
	defer q.mu.Unlock()
	p := plan{next: now.Add(q.engine.config.Poll)}
	soon := func(at time.Time) {
		if at.Before(p.next) {
			p.next = at
		}
	}
	if n := len(q.finished); n > 0 {
		if n >= gatherMany || n == len(q.items) || now.Sub(q.oldest) >= gather || q.stopping {
			p.settle, q.finished = q.finished, nil
		} else {
			soon(q.oldest.Add(gather))
		}
	}
	p.extend = q.endingLocked(now)
	if len(q.items) > 0 {
		soon(q.looked.Add(q.engine.config.Lease / 6))
	}
	if d := q.rateLocked(now); d > 0 && slices.ContainsFunc(q.order, func(l *lane) bool { return len(l.ready) > 0 }) {
		soon(now.Add(d))
	}
	room := maxItems - len(q.items)
	for _, l := range q.order {
		n, at := q.wantLocked(l, now)
		soon(at)
		if n = min(n, room); n > 0 {
			room -= n
			l.maybe = false
			p.claims = append(p.claims, claim{l, n})
		}
	}
	return p
}

// endingLocked returns the jobs whose leases are to be extended. It looks through all of them now and then only.
func (q *queue) endingLocked(now time.Time) []*item {
	lease := q.engine.config.Lease
	if now.Sub(q.looked) < lease/6 {
		return nil
	}
	q.looked = now
	var ending []*item
	for _, it := range q.items {
		if it.outcome == nil && it.leased.Sub(now) < lease*2/3 {
			ending = append(ending, it)
		}
	}
	return ending
}

// wantLocked says how many jobs of a lane to claim, and when to ask again.
func (q *queue) wantLocked(l *lane, now time.Time) (n int, at time.Time) {
	later := now.Add(q.engine.config.Poll)
	if q.conf.Paused || q.stopping || !l.endpoint.usable() {
		return 0, later
	}
	if now.Before(l.hold) {
		return 0, l.hold
	}
	if rest := l.endpoint.rest(); rest > 0 {
		return 0, now.Add(rest)
	}
	if !l.maybe && now.Before(l.next) {
		return 0, l.next
	}
	target := min(max(2*q.conf.Concurrency*l.endpoint.batch, 2*q.speed.last, minClaim), maxClaim)
	if b := l.endpoint.breaker; b != nil && b.State() != circuitbreaker.ClosedState {
		target = 1
	}
	if l.items > target/2 {
		return 0, later
	}
	return target - l.items, later
}

// do does what was planned. After an error it is planned anew.
func (q *queue) do(ctx, hard context.Context, p *plan) error {
	if err := q.settle(ctx, p.settle); err != nil {
		for _, c := range p.claims {
			q.retry(c.lane)
		}
		return err
	}
	var errs []error
	if err := q.extend(ctx, p.extend); err != nil {
		errs = append(errs, err)
	}
	for _, c := range p.claims {
		if err := q.claim(ctx, hard, c); err != nil {
			q.retry(c.lane)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (q *queue) retry(l *lane) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l.maybe = true
}

// settle writes down what became of jobs.
func (q *queue) settle(ctx context.Context, items []*item) error {
	if len(items) == 0 {
		return nil
	}
	outcomes := make([]store.Outcome, len(items))
	q.mu.Lock()
	for i, it := range items {
		outcomes[i] = *it.outcome
		outcomes[i].Job = it.job
		if it.outcome.Verdict == store.Dead && it.sent {
			outcomes[i].Job.Attempts++
		}
	}
	q.mu.Unlock()
	released, err := q.engine.jobs.Settle(ctx, outcomes, time.Now())
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
		if key := it.job.Key; waits(it) {
			if q.blocked[key]--; q.blocked[key] == 0 {
				delete(q.blocked, key)
			}
		}
		l := q.lanes[it.job.Lane]
		switch v := it.outcome.Verdict; {
		case released || v == store.Return:
			l.maybe = true
		case (v == store.Retry || v == store.Postpone) && it.outcome.RunAt.Before(l.next):
			l.next = it.outcome.RunAt
		}
	}
	q.speed.add(len(items), now)
	return nil
}

// extend extends the leases of what is worked on or waits for it.
func (q *queue) extend(ctx context.Context, items []*item) error {
	if len(items) == 0 {
		return nil
	}
	jobs := make([]store.Job, len(items))
	q.mu.Lock()
	for i, it := range items {
		jobs[i] = it.job
	}
	q.mu.Unlock()
	until := time.Now().Add(q.engine.config.Lease)
	if err := q.engine.jobs.Extend(ctx, jobs, until); err != nil {
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
	got, err := q.engine.jobs.Claim(ctx, c.lane.id, c.n, now, q.engine.config.Lease)
	if err != nil {
		return err
	}
	events, err := q.engine.events(ctx, got.Jobs)
	if err != nil {
		q.engine.config.Logger.WarnContext(ctx, "events of jobs cannot be read; it is tried again one by one", "error", err)
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
	if !got.Next.IsZero() && got.Next.Before(l.next) {
		l.next = got.Next
	}
	q.startLocked(hard)
	return nil
}

// events reads the events that jobs tell of.
func (e *Engine) events(ctx context.Context, jobs []store.Job) (map[uint64]*liveness.Event, error) {
	var offsets []uint64
	for i := range jobs {
		if jobs[i].Event != 0 {
			offsets = append(offsets, jobs[i].Event)
		}
	}
	if len(offsets) == 0 {
		return nil, nil
	}
	read, err := e.store.EventsAt(ctx, offsets)
	if err != nil {
		return nil, err
	}
	events := make(map[uint64]*liveness.Event, len(read))
	for i := range read {
		events[read[i].Offset] = &read[i]
	}
	return events, nil
}

// stop lets deliveries end, for a while, and gives back what was not begun.
func (q *queue) stop(ctx context.Context) {
	q.mu.Lock()
	q.stopping = true
	q.returnLocked()
	q.mu.Unlock()
	q.delivering.Wait() // it ends with the context of the deliveries, at the latest
	q.mu.Lock()
	q.returnLocked()
	items := q.finished
	q.finished = nil
	q.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if err := q.settle(ctx, items); err != nil {
		q.engine.config.Logger.WarnContext(ctx, "what became of the last jobs could not be stored; they are delivered again", "jobs", len(items), "error", err)
	}
}

// speed counts what was done in the last whole second.
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
