package playbook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holter-iot/holter/internal/commit"
	"github.com/holter-iot/holter/internal/delivery"
	"github.com/holter-iot/holter/internal/errkind"
	"github.com/holter-iot/holter/internal/jobs"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/liveness"
)

// EndpointKind is the kind of the endpoints that start runs. Their target is the name of a
// playbook. Register it in delivery.Config.Kinds with [Engine.Kind].
const EndpointKind = "playbook"

// EndpointPrefix begins the names of the endpoints and routes of playbooks. Nobody else may set these.
const EndpointPrefix = "playbook-"

// Queue is the name of the queue of the runs.
const Queue = "playbooks"

var (
	// ErrUnknown is wrapped by errors for a playbook, a device or a run that does not exist.
	ErrUnknown = errors.New("playbook: unknown")
	// ErrEnded is wrapped by the error for a run that has ended already.
	ErrEnded = errors.New("playbook: the run has ended")
)

// Fleet gives access to the devices. *liveness.Registry implements it.
type Fleet interface {
	Device(id string) (liveness.View, error)
	Peer(id string) (liveness.Peer, bool)
	Groups() []liveness.GroupView
	Sources() []*liveness.Source
}

// Config describes an engine.
type Config struct {
	Database *sqldb.DB    // required; has the runs; not open yet
	Store    *store.Store // required; has the events and the jobs
	Fleet    Fleet        // required
	// Playbooks are the playbooks that cannot be changed, beside those that are stored in the database.
	Playbooks []Playbook
	// Commands allows stored playbooks to run programs. Whoever may write playbooks can then run any
	// program as the user of this process. Default: false.
	Commands bool
	// Logger receives notes and the ends of runs. Default: nothing is logged.
	Logger *slog.Logger
	// Now reads the clock. Default: time.Now.
	Now func() time.Time
}

// Engine runs playbooks. Make one with [New], give [Engine.Kind] to a delivery.Engine, pass that to
// [Engine.Attach], and call [Engine.Open], [Engine.Load] and [Engine.Run]. All methods may be called concurrently.
type Engine struct {
	config Config
	runs   *table
	saver  commit.Group[runChange]
	outbox *delivery.Engine // set by Attach

	opened   atomic.Bool // the stored playbooks were read
	changing sync.Mutex  // held while playbooks are changed, also while the database is written; taken before mu

	mu      sync.Mutex // guards the fields below
	books   map[string]*book
	changed map[string]bool // playbooks that were changed: their open runs are still to be woken
	active  map[uint64]*run
	ended   map[Ended]uint64
}

// Ended counts the ended runs of a playbook by result.
type Ended struct {
	Playbook string
	State    RunState
}

// Stats returns the runs that ended since the process started, without canceled ones, and the
// number of runs in progress.
func (e *Engine) Stats() (ended map[Ended]uint64, active int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.ended), len(e.active)
}

// New returns an engine and starts nothing. The error joins an [Error] for each mistake in a
// playbook.
func New(cfg Config) (*Engine, error) {
	if cfg.Database == nil || cfg.Store == nil || cfg.Fleet == nil {
		return nil, errors.New("playbook: New needs a database, a store and a fleet")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	books, err := compileAll(cfg.Playbooks)
	e := &Engine{
		config: cfg, books: books, runs: &table{cfg.Database}, changed: make(map[string]bool), active: make(map[uint64]*run), ended: make(map[Ended]uint64),
	}
	e.saver.Most, e.saver.Patience, e.saver.Write = maxTogether, patience, e.runs.Save
	cfg.Database.Own(sqldb.Owner{TakeOver: e.runs.takeOver})
	return e, err
}

// Playbooks returns all playbooks, by name.
func (e *Engine) Playbooks() []Playbook {
	var list []Playbook
	for _, b := range e.shelf() {
		list = append(list, b.Playbook)
	}
	slices.SortFunc(list, func(a, b Playbook) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// Playbook returns a playbook by name. Errors: ErrUnknown.
func (e *Engine) Playbook(name string) (Playbook, error) {
	if b := e.book(name); b != nil {
		return b.Playbook, nil
	}
	return Playbook{}, errkind.Errorf(ErrUnknown, "there is no playbook %.80q", name)
}

// List returns up to limit runs, the latest first.
func (e *Engine) List(ctx context.Context, filter RunFilter, limit int) ([]Run, error) {
	return e.runs.List(ctx, filter, limit)
}

// Paused reports whether events start no runs of a playbook, because its route is paused or its
// endpoint is disabled.
func (e *Engine) Paused(name string) bool {
	r, err := e.outbox.Route(EndpointPrefix + name)
	if err == nil && r.Paused {
		return true
	}
	p, err := e.outbox.Endpoint(EndpointPrefix + name)
	return err == nil && p.Disabled
}

// Mermaid returns the steps of a playbook as a flowchart; see dag.Drawing.Mermaid. Errors: those of
// [Check], but for programs that do not exist.
func Mermaid(p Playbook) (string, error) {
	b, err := compile(p)
	if err != nil && !onlyCommands(err) {
		return "", err
	}
	return b.steps.Drawing().Mermaid(), nil
}

// Attach sets the delivery engine whose jobs the runs are. It must have [Engine.Kind]. Call it
// first.
func (e *Engine) Attach(outbox *delivery.Engine) { e.outbox = outbox }

// Load creates the queue, endpoints and routes of the playbooks, and deletes the routes of
// playbooks that do not exist any more. Call it after [Engine.Open] and the delivery engine's Load, and
// before its Run.
func (e *Engine) Load(ctx context.Context) error {
	if !e.opened.Load() {
		return errors.New("playbook: Load needs Open before it")
	}
	e.changing.Lock()
	defer e.changing.Unlock()
	if err := e.makeQueue(ctx); err != nil {
		return err
	}
	for _, r := range e.outbox.Settings().Routes {
		if name, ours := strings.CutPrefix(r.Name, EndpointPrefix); ours && name != "" && e.book(name) == nil {
			if err := e.outbox.DeleteRoute(ctx, r.Name); err != nil {
				return fmt.Errorf("delete the route of playbook %q: %w", name, err)
			}
		}
	}
	for _, p := range e.Playbooks() {
		if err := e.install(ctx, &p); err != nil {
			return fmt.Errorf("route events to playbook %q: %w", p.Name, err)
		}
		e.warn(ctx, &p)
	}
	return nil
}

// makeQueue creates the queue of the runs, if there are playbooks.
func (e *Engine) makeQueue(ctx context.Context) error {
	if _, err := e.outbox.Queue(Queue); !errors.Is(err, jobs.ErrUnknown) || len(e.shelf()) == 0 {
		return nil
	}
	q := jobs.NewQueue(Queue)
	q.Concurrency, q.MaxAge = 64, 365*24*time.Hour
	if err := e.outbox.PutQueue(ctx, q); err != nil {
		return fmt.Errorf("make the queue of playbooks: %w", err)
	}
	return nil
}

// Warnings returns an error for each step that would fail now, because its endpoint or queue does not
// exist. They may be created later.
func (e *Engine) Warnings(p *Playbook) (list []*Error) {
	for _, s := range slices.Concat(p.Steps, p.Recovered) {
		d, ok := s.Do.(Deliver)
		if !ok || d.Endpoint == "" && d.URL == "" {
			continue
		}
		err := d.checkKind(e.outbox)
		if err == nil {
			err = e.outbox.Check(delivery.Request{Queue: d.Queue, Endpoint: d.Endpoint, URL: d.URL, Body: []byte("{}")})
		}
		if err != nil {
			list = append(list, &Error{Playbook: p.Name, Step: s.Name, Key: d.Kind(), Err: err})
		}
	}
	return list
}

// warn logs steps that would fail.
func (e *Engine) warn(ctx context.Context, p *Playbook) {
	for _, w := range e.Warnings(p) {
		e.config.Logger.WarnContext(ctx, "a playbook step would fail now", "playbook", p.Name, "step", w.Step, "error", w.Err)
	}
}

// install creates the endpoint and the route of a playbook, or changes them.
func (e *Engine) install(ctx context.Context, p *Playbook) error {
	name := EndpointPrefix + p.Name
	old, err := e.outbox.Endpoint(name)
	switch {
	case err != nil || old.Kind != EndpointKind || old.Target != p.Name:
		err = e.outbox.PutEndpoint(ctx, jobs.Endpoint{Name: name, Kind: EndpointKind, Target: p.Name, Settings: segment()})
	case old.Disabled && old.Note == gone:
		err = e.outbox.EnableEndpoint(ctx, name, true, "")
	}
	if err != nil {
		return err
	}
	return e.route(ctx, name, p.On)
}

// route creates the route that leads to the endpoint of a playbook, or deletes it if no events start
// runs.
func (e *Engine) route(ctx context.Context, name string, on *Trigger) error {
	if on == nil {
		err := e.outbox.DeleteRoute(ctx, name)
		if errors.Is(err, jobs.ErrUnknown) {
			return nil
		}
		return err
	}
	endpoint, err := e.outbox.Endpoint(name)
	if err != nil {
		return err
	}
	queue, err := e.outbox.Queue(Queue)
	if err != nil {
		return err
	}
	r := on.route()
	r.Name, r.Queue, r.Endpoint = name, queue.Num, endpoint.Num
	if old, err := e.outbox.Route(name); err == nil {
		r.Paused = old.Paused // it may have been paused
	}
	return e.outbox.PutRoute(ctx, r)
}

// route returns the route that chooses the same events.
func (t *Trigger) route() jobs.Route {
	return jobs.Route{Types: t.Types, Reasons: t.Reasons, Group: t.Group, Device: t.Device, Suppressed: t.All}
}

// Start starts a run of a playbook for a device without an event. It returns the number of the run,
// which is that of its job. Errors: ErrUnknown.
func (e *Engine) Start(ctx context.Context, name, device string) (uint64, error) {
	if _, err := e.Playbook(name); err != nil {
		return 0, err
	}
	if _, err := e.config.Fleet.Device(device); err != nil {
		return 0, errkind.Errorf(ErrUnknown, "there is no device %.80q", device)
	}
	return e.outbox.Enqueue(ctx, delivery.Request{Queue: Queue, Endpoint: EndpointPrefix + name, Key: device, Body: []byte("{}")})
}

func (e *Engine) activeRun(id uint64) *run {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.active[id]
}

// Run wakes waiting runs whose subject has recovered or whose playbook was changed, and deletes old runs, until ctx is done. Then
// it returns nil. It retries when the database fails.
func (e *Engine) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return e.watch(ctx) })
	group.Go(func() error { return e.sweep(ctx) })
	return group.Wait()
}

const (
	// maxTogether is the largest number of changes in a transaction, and patience the longest time
	// that one may take.
	maxTogether = 500
	patience    = 30 * time.Second
)

const (
	sweepEvery = time.Minute
	// keep is the number of ended runs that are kept, and keepFor the time for which they are.
	keep    = 100_000
	keepFor = 30 * 24 * time.Hour
)

func (e *Engine) sweep(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if _, err := e.runs.Sweep(ctx, keep, keepFor, e.config.Now()); err != nil && ctx.Err() == nil {
			e.config.Logger.WarnContext(ctx, "cannot delete old playbook runs", "error", err)
		}
	}
}
