package cron

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holter-iot/holter/internal/delivery"
	"github.com/holter-iot/holter/internal/sqldb"
	"github.com/holter-iot/holter/liveness"
)

// Engine runs schedules. Make one with [New]. When the database is open and its devices are loaded, call
// [Engine.Restore] and then [Engine.Run].
type Engine struct {
	config    Config
	owner     string
	schedules *table
	delivery  *delivery.Engine
	registry  *liveness.Registry
	windows   windows
	stats     stats

	wake chan struct{} // capacity 1, never closed; receives when there is something to do
	runs sync.WaitGroup

	// The last times of what keep does, by this process's own clock, which is never set; owned by Run.
	swept, leased, purged time.Time

	mu     sync.Mutex // guards the fields below
	flight map[uint64]*Run
	busy   int // runs in flight, without maintenance windows
}

// New returns an engine. It delivers through d, and its reports and maintenance windows are about the
// devices of r. It starts nothing. Errors: invalid values of cfg.
func New(db *sqldb.DB, d *delivery.Engine, r *liveness.Registry, cfg Config) (*Engine, error) {
	if db == nil || d == nil || r == nil {
		return nil, errors.New("cron: New needs a database, deliveries and a registry")
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if cfg.Now == nil {
		cfg.Now = db.Clock
	}
	return &Engine{
		config: cfg, owner: cfg.owner(), schedules: newTable(db), delivery: d, registry: r, wake: make(chan struct{}, 1),
		flight: make(map[uint64]*Run), stats: stats{ended: make(map[State]uint64), late: make([]uint64, len(LateBounds())+1)},
	}, nil
}

// signal wakes Run.
func (e *Engine) signal() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Run runs due schedules until ctx is done. Then it lets commands end within [Config.Grace], and
// releases the other runs. Call it once. It retries when the database fails.
func (e *Engine) Run(ctx context.Context) error {
	hard, abort := context.WithCancel(context.WithoutCancel(ctx))
	defer abort()
	e.runs.Go(func() { e.watchWindows(ctx) })
	for failures := 0; ctx.Err() == nil; {
		pause, err := e.turn(ctx, hard)
		switch {
		case err == nil:
			failures = 0
			wait(ctx, pause, e.wake)
		case errors.Is(err, sqldb.ErrFenced) || errors.Is(err, sqldb.ErrNotOpen):
			e.config.Logger.ErrorContext(ctx, "no schedules are run any more", "error", err)
			<-ctx.Done()
		case ctx.Err() == nil:
			if failures++; failures == 1 {
				e.config.Logger.WarnContext(ctx, "schedules cannot be read or written; it is tried again and again", "error", err)
			}
			pauseAfter(ctx, failures)
		}
	}
	timer := time.AfterFunc(e.config.Grace, abort)
	defer timer.Stop()
	e.runs.Wait()
	return nil
}

// pauseAfter pauses, longer with each failure in a row.
func pauseAfter(ctx context.Context, failures int) {
	wait(ctx, min(25*time.Millisecond<<min(failures, 10), 5*time.Second), nil)
}

// wait waits for d, for wake, or for the end of ctx.
func wait(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
	}
}

const (
	// agendaMany is the maximum number of schedules in a transaction, windowsMany that of open
	// maintenance windows.
	agendaMany  = 100
	windowsMany = 1000
	purgeEvery  = time.Hour
)

// turn does everything that is due, and returns when to do so again if nothing happens before.
func (e *Engine) turn(ctx, hard context.Context) (pause time.Duration, err error) {
	now, err := e.config.Now(ctx)
	if err != nil {
		return 0, err
	}
	if err := e.keep(ctx, now); err != nil {
		return 0, err
	}
	todo, err := e.schedules.Agenda(ctx, now, agendaMany, bounded(), unbounded())
	if err != nil {
		return 0, err
	}
	if err := e.fire(ctx, todo.due, now); err != nil {
		return 0, err
	}
	// Also when something was due: there may be something each time.
	claimed, err := e.claim(ctx, hard, todo.ready, now)
	if err != nil || claimed > 0 || len(todo.due) > 0 {
		return 0, err
	}
	pause = min(e.config.Poll, e.config.Lease/3)
	if !todo.next.IsZero() {
		pause = min(pause, max(todo.next.Sub(now), 0))
	}
	return pause, nil
}

// unreadable is the pause of a schedule that cannot be interpreted any more, for instance because
// its time zone does not exist any longer.
const unreadable = time.Minute

// fire creates the due runs.
func (e *Engine) fire(ctx context.Context, due []Schedule, now time.Time) error {
	firings := make([]firing, len(due))
	for i := range due {
		var err error
		if firings[i], err = firingOf(&due[i], now); err != nil {
			e.config.Logger.ErrorContext(ctx, "a schedule cannot be understood", "schedule", due[i].Name, "error", err)
			firings[i] = firing{Schedule: due[i], Last: due[i].Last, Due: now.Add(unreadable)}
		}
	}
	fired, err := e.schedules.Fire(ctx, firings, now)
	for i := range fired {
		e.stats.add(Skipped, fired[i].Skipped)
	}
	return err
}

// bounded are the kinds whose runs need a worker; unbounded are the others.
func bounded() []string   { return []string{kindWebhook, kindCommand, kindReport} }
func unbounded() []string { return []string{kindMaintenance} }

// claim claims runs as far as there are workers, and starts them.
func (e *Engine) claim(ctx, hard context.Context, ready []bool, now time.Time) (n int, err error) {
	e.mu.Lock()
	rooms := []int{min(e.config.Workers-e.busy, agendaMany), windowsMany - (len(e.flight) - e.busy)}
	e.mu.Unlock()
	for i, kinds := range [][]string{bounded(), unbounded()} {
		if !ready[i] || rooms[i] <= 0 {
			continue
		}
		claimed, err := e.schedules.Claim(ctx, kinds, rooms[i], e.owner, now, e.config.Lease)
		if err != nil {
			return n, err
		}
		n += len(claimed)
		for k := range claimed {
			e.launch(ctx, hard, &claimed[k])
		}
	}
	return n, nil
}

// launch starts a claimed run.
func (e *Engine) launch(ctx, hard context.Context, run *claimedRun) {
	kept := run.Run
	e.mu.Lock()
	e.flight[run.ID] = &kept
	if run.Kind != kindMaintenance {
		e.busy++
	}
	e.mu.Unlock()
	e.runs.Go(func() {
		defer e.signal()
		defer func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			delete(e.flight, run.ID)
			if run.Kind != kindMaintenance {
				e.busy--
			}
		}()
		e.work(ctx, hard, run)
	})
}

// keep extends the leases of this process's runs, and repairs what other processes left.
func (e *Engine) keep(ctx context.Context, now time.Time) error {
	mono := time.Now()
	if mono.Sub(e.leased) >= e.config.Lease/3 {
		if err := e.schedules.Extend(ctx, e.inFlight(), now.Add(e.config.Lease)); err != nil {
			return err
		}
		e.leased = mono
	}
	if mono.Sub(e.swept) < e.config.Lease/3 {
		return nil
	}
	if err := errors.Join(e.sweep(ctx, now), e.heal(ctx, now)); err != nil {
		return err
	}
	if mono.Sub(e.purged) >= purgeEvery {
		if _, err := e.schedules.Forget(ctx, e.config.History, now); err != nil {
			return err
		}
		e.purged = mono
	}
	e.swept = mono
	return nil
}

// inFlight returns the runs of this process.
func (e *Engine) inFlight() (runs []Run) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, run := range e.flight {
		runs = append(runs, *run)
	}
	return runs
}

// maxAttempts is the number of starts after which a run fails whose process always died before its
// end.
const maxAttempts = 10

// sweep repairs the runs of processes that died.
func (e *Engine) sweep(ctx context.Context, now time.Time) error {
	left, err := e.schedules.Abandoned(ctx, e.owner, e.config.prefix(), now, now.Add(2*e.config.Lease))
	if err != nil {
		return err
	}
	for i := range left {
		run := &left[i]
		if e.flies(run.ID) { // the clock was set forward: its lease is extended before long
			continue
		}
		out := abandoned(run)
		ok, err := e.schedules.Finish(ctx, run, out, now)
		if err != nil {
			return err
		}
		if ok {
			e.stats.add(out.State, 1)
			e.config.Logger.WarnContext(ctx, "a run was left by a process that is gone", "schedule", run.Name, "run", run.ID, "owner", run.Owner, "state", out.State)
		}
	}
	return nil
}

func (e *Engine) flies(id uint64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.flight[id] != nil
}

// abandoned returns the outcome of a run whose owner is gone.
func abandoned(run *Run) outcome {
	switch {
	case run.State == Claimed: // it was not begun
		return outcome{State: Idle}
	case run.Once:
		return outcome{State: Lost, Error: run.Owner + " had begun it and is gone; whether it was done is not known"}
	case run.Attempt >= maxAttempts && run.Kind != kindMaintenance:
		return outcome{State: Failed, Error: "it was begun again and again, and each time the process ended before it did"}
	}
	return outcome{State: Idle, Error: run.Owner + " had begun it and is gone"}
}

// wrongClock is by how much a clock must have been ahead for what was handled then not to count.
const wrongClock = 24 * time.Hour

// heal resets schedules that a clock which was far ahead has moved into the future.
func (e *Engine) heal(ctx context.Context, now time.Time) error {
	ahead, err := e.schedules.Ahead(ctx, now.Add(wrongClock))
	if err != nil {
		return err
	}
	for i := range ahead {
		sc := &ahead[i]
		s, err := compile(sc)
		if err != nil {
			continue
		}
		e.config.Logger.WarnContext(ctx, "the clock was set back; a schedule goes on from now", "schedule", sc.Name, "handled_until", sc.Last)
		f := firing{Schedule: *sc, Last: now}
		if !sc.Paused {
			f.Due = s.Next(now)
		}
		if _, err := e.schedules.Fire(ctx, []firing{f}, now); err != nil {
			return err
		}
	}
	return nil
}
