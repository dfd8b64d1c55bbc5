package schedule

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/timer"
)

// Engine runs due schedules. Make one with [New], and add schedules before or during [Engine.Run].
// Its methods and those of the plans' handles may be called concurrently, also by runs. Only Run
// blocks.
type Engine struct {
	cfg   Config
	clock *clock
	ready *ready
	zones zones

	timers atomic.Pointer[timers] // nil before Run

	mu      sync.Mutex // guards the fields below; a handle's lock may be held when it is taken, never the other way round
	started bool
	closed  bool
	handles []*Handle // by index; nil where none is
	free    []uint32  // the indexes of those

	counters counters
}

// timers are the timers of a running engine's schedules.
type timers struct {
	engine *timer.Engine
	group  *timer.Group
}

// New returns an engine that does nothing yet.
func New(cfg Config) (*Engine, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Engine{cfg: cfg, clock: newClock(cfg.Now), ready: newReady(cfg.Workers)}, nil
}

// Run runs the engine until ctx ends, and then returns nil. Runs get ctx. When it ends, those that go on may end by themselves,
// which Run waits for, and those that wait are dropped. Run may be called once.
func (e *Engine) Run(ctx context.Context) error {
	if err := e.start(); err != nil {
		return err
	}
	var feeding sync.WaitGroup
	feeding.Go(func() { e.feed(ctx) })
	t, err := e.startTimers() //nolint:contextcheck // the timers end with Close, below
	if err == nil {
		e.clockSet(false) // arms all that was added before
		<-ctx.Done()
	}
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	if t != nil {
		_ = t.engine.Close(context.WithoutCancel(ctx)) // fails only when the context ends
	}
	e.ready.close()
	feeding.Wait()
	return err
}

func (e *Engine) start() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.started {
		return errors.New("schedule: Run was called before: it may be called once")
	}
	e.started = true
	return nil
}

func (e *Engine) startTimers() (*timers, error) {
	engine, err := timer.Start(timer.Config{Clock: e.clock.steady})
	if err != nil {
		return nil, fmt.Errorf("schedule: start the timers: %w", err)
	}
	t := &timers{engine: engine}
	if t.group, err = engine.Group(e.expired); err == nil {
		e.timers.Store(t)
		_, err = engine.RepeatFunc(time.Second, timer.FixedDelay, e.checkClock)
	}
	if err != nil {
		return t, fmt.Errorf("schedule: start the timers: %w", err)
	}
	return t, nil
}

// feed starts ready runs, each on a goroutine of its own. It returns when all runs have ended.
func (e *Engine) feed(ctx context.Context) {
	for h := e.ready.takeHandle(); h != nil; h = e.ready.takeHandle() {
		go func() {
			defer e.ready.done()
			h.run(ctx)
		}()
	}
	e.ready.runs.Wait()
}

// Resize changes the number of workers, from the next run on: runs that go on are not disturbed. It returns an error if workers is
// not 1 to 2^31 - 1 or [Unlimited].
func (e *Engine) Resize(workers int) error {
	if workers != Unlimited && (workers < 1 || workers > math.MaxInt32) {
		return fmt.Errorf("schedule: resize to %d workers: want 1 to %d or Unlimited", workers, math.MaxInt32)
	}
	e.ready.resize(workers)
	return nil
}

// add makes room for a handle.
func (e *Engine) add(h *Handle) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return ErrClosed
	}
	if len(e.free) > 0 {
		h.index = e.free[len(e.free)-1]
		e.free = e.free[:len(e.free)-1]
		e.handles[h.index] = h
		return nil
	}
	if len(e.handles) >= e.cfg.MaxSchedules {
		return ErrFull
	}
	h.index = uint32(len(e.handles))
	e.handles = append(e.handles, h)
	return nil
}

// remove forgets a handle that has ended.
func (e *Engine) remove(h *Handle) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.handles[h.index] == h {
		e.handles[h.index] = nil
		e.free = append(e.free, h.index)
	}
}

// all returns all handles, and nil where none is.
func (e *Engine) all() []*Handle {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.handles)
}

// expired is the timers' handler.
func (e *Engine) expired(expired []timer.Expired) {
	e.checkClock()
	due := make([]*Handle, len(expired))
	e.mu.Lock()
	for i, x := range expired {
		due[i] = e.handles[x.Data]
	}
	e.mu.Unlock()
	for i, h := range due {
		if h != nil && h.fire(expired[i].ID) {
			e.remove(h)
		}
	}
}
