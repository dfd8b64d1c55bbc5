package delivery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holter-iot/holter/delivery/sink"
	"github.com/holter-iot/holter/delivery/webhook"
	"github.com/holter-iot/holter/internal/groupcommit"
	"github.com/holter-iot/holter/store"
)

// Engine delivers the jobs of a store. Make one with [New], call [Engine.Load] once the store is open and before it gets events, then [Engine.Run].
type Engine struct {
	config   Config
	store    *store.Store
	jobs     *store.Jobs
	router   *Router
	kinds    map[string]sink.Kind
	webhooks *webhook.Client

	enqueuing groupcommit.Group[enqueued]
	hosts     hosts
	outlived  atomic.Int64 // jobs that became dead letters with their events since sweep has said so

	admin sync.Mutex // held while settings are changed, and never while a delivery is waited for; taken before all others
	stale bool       // guarded by admin: what is in the database may be newer than what counts

	mu        sync.RWMutex // guards the fields below
	settings  store.Settings
	endpoints map[uint32]*endpoint // 0 is that of jobs with a URL of their own
	counts    map[uint32]*endpointCounts
	queues    map[uint32]*queue
	running   map[uint32]func() // ends a queue's goroutine
	begin     func(*queue) func()
	retired   sync.WaitGroup // of endpoints that are replaced
}

// New returns an engine for the jobs of a store whose outbox is router.Route. It starts nothing. Errors: values that cannot be.
func New(s *store.Store, router *Router, cfg Config) (*Engine, error) {
	if s == nil || router == nil {
		return nil, errors.New("delivery: New needs a store and its router")
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	e := &Engine{
		config: cfg, store: s, jobs: s.Jobs(), router: router, webhooks: webhook.New(sink.NewGuard(cfg.Private), cfg.Agent),
		endpoints: make(map[uint32]*endpoint), counts: make(map[uint32]*endpointCounts), queues: make(map[uint32]*queue), running: make(map[uint32]func()),
	}
	e.enqueuing.Most, e.enqueuing.Patience, e.enqueuing.Write = maxTogether, patience, e.enqueue
	e.kinds = map[string]sink.Kind{"webhook": e.webhooks.Kind}
	maps.Copy(e.kinds, cfg.Kinds)
	e.jobs.Describe(e.describe)
	return e, nil
}

// Jobs returns the jobs of the store: to list, remove, replay or discard them.
func (e *Engine) Jobs() *store.Jobs { return e.jobs }

// Node returns the name under which this process tells of events.
func (e *Engine) Node() string { return e.config.Node }

// Load reads queues, endpoints and routes: from now on events become jobs. The store must be open.
func (e *Engine) Load(ctx context.Context) error {
	e.admin.Lock()
	defer e.admin.Unlock()
	return e.reload(ctx)
}

// reload makes what is in the database count. Call it with admin held.
func (e *Engine) reload(ctx context.Context) error {
	e.stale = true
	settings, err := e.jobs.Settings(ctx)
	if err != nil {
		return fmt.Errorf("load queues, endpoints and routes: %w", err)
	}
	t := &table{depths: e.jobs.Depths, limits: make(map[uint32]int64)}
	for _, q := range settings.Queues {
		t.limits[q.Num] = q.MaxJobs
	}
	for _, r := range settings.Routes {
		to, err := compile(r)
		if err != nil {
			return fmt.Errorf("route %q: %w", r.Name, err)
		}
		i := slices.IndexFunc(settings.Endpoints, func(p store.Endpoint) bool { return p.Num == r.Endpoint })
		to.disabled = i < 0 || settings.Endpoints[i].Disabled
		if !r.Paused {
			t.routes = append(t.routes, to)
		}
	}
	e.apply(settings)
	e.router.table.Store(t)
	e.stale = false
	return nil
}

// apply gives queues and lanes their settings, and ends the queues that are gone.
func (e *Engine) apply(settings store.Settings) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settings = settings
	replaced := e.applyEndpointsLocked(settings.Endpoints)
	there := make(map[uint32]bool)
	for _, conf := range settings.Queues {
		there[conf.Num] = true
		q := e.queues[conf.Num]
		if q == nil {
			q = newQueue(e, conf)
			e.queues[conf.Num] = q
		}
		q.mu.Lock()
		q.configureLocked(conf)
		for _, l := range q.order {
			if p := e.endpoints[l.id.Endpoint]; p != l.endpoint {
				l.endpoint, l.hold = p, time.Time{}
			}
			l.maybe = true
		}
		q.mu.Unlock()
		e.startLocked(q)
		q.signal()
	}
	for lane := range e.jobs.Depths() {
		e.hintLocked(lane)
	}
	for num := range e.queues {
		if !there[num] {
			if end := e.running[num]; end != nil {
				end()
			}
			delete(e.queues, num)
			delete(e.running, num)
		}
	}
	for _, p := range replaced { // no lane has them any more
		e.retired.Go(func() { e.retire(p) })
	}
}

// applyEndpointsLocked makes endpoints of settings, and returns those that others have replaced. One with jobs is never taken away.
func (e *Engine) applyEndpointsLocked(settings []store.Endpoint) (replaced []*endpoint) {
	there := map[uint32]bool{0: true}
	if e.endpoints[0] == nil {
		e.endpoints[0] = e.adhoc(e.countsLocked(0))
	}
	for _, conf := range settings {
		there[conf.Num] = true
		old := e.endpoints[conf.Num]
		if old != nil && old.same(&conf) {
			continue
		}
		if old != nil {
			replaced = append(replaced, old)
			if old.Name != conf.Name { // the number was given again
				delete(e.counts, conf.Num)
			}
		}
		e.endpoints[conf.Num] = e.newEndpoint(conf, e.countsLocked(conf.Num))
	}
	for num, p := range e.endpoints {
		if there[num] {
			continue
		}
		if p.sink != nil {
			replaced = append(replaced, p)
		}
		e.endpoints[num] = &endpoint{Endpoint: store.Endpoint{Num: num}, err: errors.New("it was deleted"), counts: e.countsLocked(num)}
	}
	return replaced
}

func (e *Engine) countsLocked(num uint32) *endpointCounts {
	if e.counts[num] == nil {
		e.counts[num] = &endpointCounts{}
	}
	return e.counts[num]
}

// retire closes the sink of an endpoint once nobody delivers to it any more.
func (e *Engine) retire(p *endpoint) {
	p.users.Wait()
	if p.sink == nil {
		return
	}
	if err := p.sink.Close(); err != nil {
		e.config.Logger.Warn("an endpoint could not be closed", "endpoint", p.Name, "error", err)
	}
}

// hint notes that lanes have got jobs.
func (e *Engine) hint(lanes []store.Lane) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, lane := range lanes {
		e.hintLocked(lane)
	}
}

func (e *Engine) hintLocked(id store.Lane) {
	q := e.queues[id.Queue]
	p := e.endpoints[id.Endpoint]
	if q == nil || p == nil { // deleted a moment ago; found again when it is there
		return
	}
	q.mu.Lock()
	q.laneLocked(id, p).maybe = true
	q.mu.Unlock()
	q.signal()
}

// startLocked starts the goroutine of a queue, while the engine runs.
func (e *Engine) startLocked(q *queue) {
	if e.begin != nil && e.running[q.num] == nil {
		e.running[q.num] = e.begin(q)
	}
}

// sweepEvery is how often old dead letters are looked for.
const sweepEvery = time.Minute

// Run delivers until ctx is done. Then it lets the deliveries that are going on end, for [Config.Grace], and gives the other jobs back. It
// may be called once, after [Engine.Load]; a database that fails is waited for.
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
	e.jobs.Watch(e.hint)
	e.look()
	e.sweep(ctx)

	e.mu.Lock()
	e.begin = func(*queue) func() { return func() {} } // no more of them
	e.mu.Unlock()
	timer := time.AfterFunc(e.config.Grace, abort)
	defer timer.Stop()
	err := queues.Wait()
	e.close()
	return err
}

// look notes the lanes that have jobs from before.
func (e *Engine) look() {
	for lane := range e.jobs.Depths() {
		e.hint([]store.Lane{lane})
	}
}

// sweep removes what is too old, again and again, until ctx is done.
func (e *Engine) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		n, err := e.jobs.Sweep(ctx, e.config.retention(), time.Now())
		if err != nil && ctx.Err() == nil {
			e.config.Logger.WarnContext(ctx, "old dead letters cannot be removed", "error", err)
		}
		if n > 0 {
			e.config.Logger.InfoContext(ctx, "old dead letters were removed", "number", n)
		}
		if n := e.outlived.Swap(0); n > 0 {
			e.config.Logger.WarnContext(ctx, "jobs became dead letters because their events are too old to be kept", "number", n)
		}
		if err := e.refresh(ctx); err != nil && ctx.Err() == nil {
			e.config.Logger.WarnContext(ctx, "queues, endpoints and routes may have been changed, and cannot be read", "error", err)
		}
		e.look()
	}
}

// refresh makes what is in the database count if that may be something else.
func (e *Engine) refresh(ctx context.Context) error {
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
