package delivery

import (
	"context"
	"errors"
	"maps"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/internal/commit"
	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/delivery/webhook"
	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/liveness"
)

// Events reads events, see package store.
type Events interface {
	// EventsAt returns the events at some offsets, as far as they are kept, by offset.
	EventsAt(ctx context.Context, offsets []uint64) ([]liveness.Event, error)
}

// Engine delivers jobs. Make one with [New], then call [Engine.Load] once the database is open and
// before events are appended, then [Engine.Run].
type Engine struct {
	config    Config
	events    Events
	jobs      *jobs.Store
	retention atomic.Pointer[jobs.Retention]
	kinds     map[string]sink.Kind
	webhooks  *webhook.Client
	guard     *sink.Guard
	lookup    lookupFunc

	enqueuing commit.Group[batch]
	outbox    *outbox
	hosts     hosts
	oldest    oldestJobs
	outlived  atomic.Int64 // jobs that became dead letters with their events since the last sweep

	admin sync.Mutex // held while settings are changed, but not while waiting for a delivery; taken before all others
	stale bool       // guarded by admin: the settings in the database may be newer than those below

	mu        sync.RWMutex // guards the fields below
	settings  jobs.Settings
	endpoints map[uint32]*endpoint // 0 is that of jobs with a URL
	queues    map[uint32]*queue
	running   map[uint32]func()   // ends a queue's goroutine
	begin     func(*queue) func() // starts it; nil before Run
	retired   sync.WaitGroup      // closes the sinks of replaced endpoints
}

// New returns an engine for jobs, which reads their events from events. It starts nothing. Errors:
// invalid values of cfg.
func New(events Events, j *jobs.Store, cfg Config) (*Engine, error) {
	if events == nil || j == nil {
		return nil, errors.New("delivery: New needs events and jobs")
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	guard := sink.NewGuard(cfg.Private)
	e := &Engine{
		config: cfg, events: events, jobs: j, webhooks: webhook.New(guard, cfg.Agent), guard: guard, lookup: net.DefaultResolver.LookupNetIP,
		endpoints: make(map[uint32]*endpoint), queues: make(map[uint32]*queue), running: make(map[uint32]func()),
	}
	e.outbox = newOutbox(e)
	e.enqueuing.Most, e.enqueuing.Patience, e.enqueuing.Write = maxTogether, patience, e.enqueue
	e.enqueuing.Weigh = func(b *batch) int { return len(b.specs) }
	e.kinds = map[string]sink.Kind{"webhook": e.webhooks.Kind}
	maps.Copy(e.kinds, cfg.Kinds)
	j.Describe(e.describe)
	j.Need(endsIncident)
	e.keep(&cfg)
	return e, nil
}

// SetKept replaces Keep and KeepAge of the Config, from now on. It may be called at any time. Errors: values
// that a Config may not have; then nothing has changed.
func (e *Engine) SetKept(keep int, age time.Duration) error {
	cfg := e.config
	cfg.Keep, cfg.KeepAge = keep, age
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	e.keep(&cfg)
	return nil
}

func (e *Engine) keep(cfg *Config) {
	e.retention.Store(cfg.retention())
	e.jobs.KeepEnded(cfg.Keep > 0)
}

// Jobs returns the jobs that the engine delivers.
func (e *Engine) Jobs() *jobs.Store { return e.jobs }

// Node returns [Config.Node].
func (e *Engine) Node() string { return e.config.Node }

// Load reads queues, endpoints and routes. From then on events become jobs.
func (e *Engine) Load(ctx context.Context) error {
	e.admin.Lock()
	defer e.admin.Unlock()
	return e.reload(ctx)
}

// reload applies the stored settings. The caller holds admin.
func (e *Engine) reload(ctx context.Context) error {
	e.stale = true
	settings, err := e.jobs.Load(ctx)
	if err != nil {
		return err
	}
	e.apply(settings)
	e.stale = false
	return nil
}

// apply gives queues and lanes their settings, and ends the queues that were deleted.
func (e *Engine) apply(settings jobs.Settings) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settings = settings
	replaced := e.applyEndpointsLocked(settings.Endpoints)
	exists := make(map[uint32]bool)
	for _, conf := range settings.Queues {
		exists[conf.Num] = true
		q := e.queues[conf.Num]
		if q == nil {
			q = newQueue(e, conf, &settings)
			e.queues[conf.Num] = q
		}
		q.mu.Lock()
		q.configureLocked(conf, &settings)
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
		e.wakeLocked(lane)
	}
	for num := range e.queues {
		if !exists[num] {
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

// applyEndpointsLocked makes endpoints of settings, and returns those that were replaced. The entry of
// a deleted endpoint stays, since a lane may still have it.
func (e *Engine) applyEndpointsLocked(settings []jobs.Endpoint) (replaced []*endpoint) {
	if e.endpoints[0] == nil {
		e.endpoints[0] = e.perMessage()
	}
	exists := map[uint32]bool{0: true}
	for _, conf := range settings {
		exists[conf.Num] = true
		old := e.endpoints[conf.Num]
		if old != nil && old.same(&conf) {
			continue
		}
		counts := &endpointCounts{}
		if old != nil {
			replaced = append(replaced, old)
			if old.Name == conf.Name { // else the number was given again
				counts = old.counts
			}
		}
		e.endpoints[conf.Num] = e.newEndpoint(conf, counts)
	}
	for num, p := range e.endpoints {
		if exists[num] {
			continue
		}
		if p.sink != nil {
			replaced = append(replaced, p)
		}
		e.endpoints[num] = &endpoint{Endpoint: jobs.Endpoint{Num: num}, err: errors.New("it was deleted"), counts: p.counts}
	}
	return replaced
}

// retire closes the sink of an endpoint when its last delivery has ended.
func (e *Engine) retire(p *endpoint) {
	p.users.Wait()
	if p.sink == nil {
		return
	}
	if err := p.sink.Close(); err != nil {
		e.config.Logger.Warn("cannot close an endpoint", "endpoint", p.Name, "error", err)
	}
}

// wake notes that lanes may have jobs to claim.
func (e *Engine) wake(lanes []jobs.Lane) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, lane := range lanes {
		e.wakeLocked(lane)
	}
}

func (e *Engine) wakeLocked(id jobs.Lane) {
	q, p := e.queues[id.Queue], e.endpoints[id.Endpoint]
	if q == nil || p == nil { // not applied yet; apply wakes all lanes that have jobs
		return
	}
	q.mu.Lock()
	q.laneLocked(id, p).maybe = true
	q.mu.Unlock()
	q.signal()
}

// startLocked starts the goroutine of a queue if the engine runs.
func (e *Engine) startLocked(q *queue) {
	if e.begin != nil && e.running[q.num] == nil {
		e.running[q.num] = e.begin(q)
	}
}
