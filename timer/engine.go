package timer

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/ants/v2"

	"github.com/holter-iot/holter/dualmap"
)

var (
	// ErrFull is returned when an engine holds [Config.MaxTimers] timers, or a shard has no slot left.
	ErrFull = errors.New("timer: engine is full")
	// ErrClosed is returned by all that would arm a timer once the engine is closed.
	ErrClosed = errors.New("timer: engine is closed")
	// ErrGroups is returned by [Engine.Group] when the engine has 256 groups, that of the funcs among them.
	ErrGroups = errors.New("timer: too many groups")
)

// Unlimited as [Config.Workers] gives each task a goroutine of its own at once.
const Unlimited = -1

// Config says how an engine works. The zero Config is a good one.
type Config struct {
	// Clock is what deadlines are measured on. Default: System().
	Clock Clock
	// Shards is the number of shards, a power of two up to 1024. Default: 4 × GOMAXPROCS, rounded up to a power of two.
	Shards int
	// MaxTimers is the most timers that may be armed at a time; due ones count until a worker claims them. An arming beyond it
	// returns ErrFull at once. Default 0: bounded only by memory and by 2^24 timers of one group in a shard.
	MaxTimers int
	// Eager takes a cancelled timer's entry out of the heap at once, in O(log n), for four bytes more a timer.
	// Default: it is left to be swept.
	Eager bool
	// Workers is the most callbacks that run at a time. Default 0: 8 × GOMAXPROCS. Unlimited: no bound.
	Workers int
	// PoolOptions are passed to the ants pool that the workers belong to.
	PoolOptions []ants.Option
	// Queue is how many batches the ready queue is meant to hold. When callbacks are slower than expiries it holds more, at most
	// one entry for each armed timer, and Stats.Spilled counts them. Default: 1024.
	Queue int
	// OnPanic is told what a callback panicked with, on the worker's goroutine; several may call it at a time, it may block, and
	// must not panic. Default: panics are only counted.
	OnPanic func(recovered any)
}

// Engine holds timers. Its methods may be called concurrently, also by callbacks, except that a callback must not wait for
// Close. Make one with [Start].
type Engine struct {
	clock   Clock
	shards  []*shard
	groups  atomic.Pointer[[]*Group] // group 0 is that of the funcs
	max     int64
	live    atomic.Int64 // kept only if max is set
	eager   bool
	onPanic func(any)

	ready    *readyQueue
	pool     *ants.PoolWithFuncGeneric[task]
	rejected atomic.Uint64
	panics   atomic.Uint64
	discard  atomic.Bool // close without running what is due
	buffers  sync.Pool   // of *expiredBuffer, which handlers are given

	mu      sync.Mutex // guards the fields below and the making of groups; taken before a shard's
	closing bool
	stop    chan struct{}  // closed by Close
	clocks  sync.WaitGroup // the shards' goroutines
	done    chan struct{}  // closed when the last callback has returned
}

// Start returns a running engine; end it with [Engine.Close]. It starts a goroutine for each shard, one that feeds the pool,
// and those of the pool.
func Start(cfg Config) (*Engine, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	e := &Engine{
		clock:   cfg.Clock,
		max:     int64(cfg.MaxTimers),
		eager:   cfg.Eager,
		onPanic: cfg.OnPanic,
		ready:   newReadyQueue(cfg.Queue),
		stop:    make(chan struct{}),
		done:    make(chan struct{}),
		buffers: sync.Pool{New: func() any { return new(expiredBuffer) }},
	}
	if e.pool, err = ants.NewPoolWithFuncGeneric(cfg.Workers, e.run, cfg.PoolOptions...); err != nil {
		return nil, fmt.Errorf("timer: make pool: %w", err)
	}
	for i := range cfg.Shards {
		s := &shard{engine: e, index: i, wake: make(chan struct{}, 1)}
		if cfg.Eager {
			s.hints.moved = s.noteLocked
		}
		s.slabs.Store(new([]*dualmap.Map))
		e.shards = append(e.shards, s)
	}
	e.groups.Store(new([]*Group))
	if _, err := e.Group(nil); err != nil {
		return nil, err
	}
	for _, s := range e.shards {
		e.clocks.Go(s.watch)
	}
	go e.feed()
	return e, nil
}

func (c Config) withDefaults() (Config, error) {
	procs := runtime.GOMAXPROCS(0)
	if c.Clock == nil {
		c.Clock = System()
	}
	if c.Shards == 0 {
		c.Shards = min(1<<bits.Len(uint(4*procs-1)), maxShards)
	}
	if c.Workers == 0 {
		c.Workers = 8 * procs
	}
	if c.Queue == 0 {
		c.Queue = 1024
	}
	var errs []error
	if c.Shards < 1 || c.Shards > maxShards || c.Shards&(c.Shards-1) != 0 {
		errs = append(errs, fmt.Errorf("timer: Shards is %d, want a power of two from 1 to %d", c.Shards, maxShards))
	}
	if c.MaxTimers < 0 {
		errs = append(errs, fmt.Errorf("timer: MaxTimers is %d, want 0 or more", c.MaxTimers))
	}
	if c.Workers < Unlimited {
		errs = append(errs, fmt.Errorf("timer: Workers is %d, want a number above 0, 0 or Unlimited", c.Workers))
	}
	if c.Queue < 0 {
		errs = append(errs, fmt.Errorf("timer: Queue is %d, want 0 or more", c.Queue))
	}
	return c, errors.Join(errs...)
}

// noteLocked keeps the place of a hint with its slot.
func (s *shard) noteLocked(h hint, at int) {
	s.mapLocked(h.ref()).SetPosition(h.ref().slot(), uint32(at))
}

// Now reads the engine's clock.
func (e *Engine) Now() time.Duration { return e.clock.Now() }

// Resize changes the number of workers; Unlimited lifts the bound only if the engine was started without one. Callbacks that
// run are not disturbed.
func (e *Engine) Resize(workers int) { e.pool.Tune(workers) }

// slab returns the map that an id points into, or nil.
func (e *Engine) slab(id ID) *dualmap.Map {
	if id.shard() >= len(e.shards) {
		return nil
	}
	slabs := *e.shards[id.shard()].slabs.Load()
	if int(id.ref().group()) >= len(slabs) {
		return nil
	}
	return slabs[id.ref().group()]
}

func (e *Engine) load(id ID) (tick, bool) {
	m := e.slab(id)
	if m == nil {
		return 0, false
	}
	return m.Load(id.original())
}

// Touch moves a timer's deadline to one period after now, an instant on the engine's clock that the caller knows, unless the
// deadline is that late already: a heartbeat never shortens a life. It says whether the timer was armed; if not, its callback has
// started or is about to, or it was cancelled. It takes no lock, allocates nothing, and does not read the clock.
func (e *Engine) Touch(id ID, now time.Duration) bool {
	m := e.slab(id)
	if m == nil {
		return false
	}
	o := id.original()
	for {
		old, ok := m.Load(o)
		if !ok {
			return false
		}
		next := tickCeil(now) + unpackPeriod(m.Param(o.Slot))
		if next <= old {
			return true
		}
		if m.CompareAndSwap(o, old, min(next, maxTick)) {
			return true
		}
	}
}

// TouchTo moves a timer's deadline to an instant on the engine's clock, later or earlier, and says whether the timer was armed.
// It takes no lock unless the deadline becomes an earlier one. An instant beyond MaxDeadline is taken as MaxDeadline.
func (e *Engine) TouchTo(id ID, deadline time.Duration) bool {
	m := e.slab(id)
	if m == nil {
		return false
	}
	o, next := id.original(), min(tickCeil(deadline), maxTick)
	for {
		old, ok := m.Load(o)
		if !ok {
			return false
		}
		if m.CompareAndSwap(o, old, next) {
			if next < old {
				e.shards[id.shard()].advance(id)
			}
			return true
		}
	}
}

// Reset gives a timer a new period, from now on, and says whether the timer was armed. A repeating timer goes on with that
// period.
func (e *Engine) Reset(id ID, now, period time.Duration) bool {
	if e.slab(id) == nil {
		return false
	}
	return e.shards[id.shard()].reset(id, now, period)
}

func (s *shard) reset(id ID, now, period time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	r, o := id.ref(), id.original()
	m := s.mapLocked(r)
	next := min(tickCeil(add(now, period)), maxTick)
	for {
		old, ok := m.Load(o)
		if !ok {
			return false
		}
		param := packPeriod(period)
		if m.Param(o.Slot)&paramExtra != 0 {
			param |= paramExtra
		}
		if !m.CompareAndSwap(o, old, next) {
			continue
		}
		m.SetParam(o.Slot, param)
		if x := s.extras[r]; param&paramExtra != 0 && x.repeats() {
			x.period, x.next = max(period, 1), add(now, period)
		}
		if next < old {
			s.advanceLocked(id)
		}
		return true
	}
}

// Cancel ends a timer and says whether it won: if true, the callback of its deadline never starts. For a repeating timer, a run
// that a worker has claimed already may still start.
func (e *Engine) Cancel(id ID) bool {
	if e.slab(id) == nil {
		return false
	}
	return e.shards[id.shard()].cancel(id)
}

// Deadline returns the instant on the engine's clock at which a timer expires, and whether it is armed.
func (e *Engine) Deadline(id ID) (time.Duration, bool) {
	t, ok := e.load(id)
	return instant(t), ok
}

// Remaining returns the time from now, an instant on the engine's clock, until a timer expires, negative if it is overdue, and
// whether it is armed.
func (e *Engine) Remaining(id ID, now time.Duration) (time.Duration, bool) {
	at, ok := e.Deadline(id)
	return at - now, ok
}

// Len returns the number of armed timers. It takes each shard's lock for a moment.
func (e *Engine) Len() int { return e.Stats().Armed }

// arm starts a timer in a shard picked at random.
func (e *Engine) arm(g *Group, at time.Duration, period time.Duration, data uint64, x *extra, f func()) (ID, error) {
	deadline := tickCeil(at)
	if deadline > maxTick {
		return 0, ErrTooFar
	}
	if e.max > 0 && e.live.Add(1) > e.max {
		e.live.Add(-1)
		e.rejected.Add(1)
		return 0, ErrFull
	}
	s := e.shards[int(rand.Uint32())&(len(e.shards)-1)]
	id, err := s.arm(g.index, deadline, packPeriod(period), data, x, f)
	if err != nil {
		e.release()
		if errors.Is(err, ErrFull) {
			e.rejected.Add(1)
		}
	}
	return id, err
}

// release makes room for another timer.
func (e *Engine) release() {
	if e.max > 0 {
		e.live.Add(-1)
	}
}

// Close ends the engine. Timers that are not due are dropped; callbacks that are due run. Close waits for them until ctx is done,
// then it discards those that have not started, and returns why ctx ended; callbacks that run are left to end by themselves.
// Pass a context that is done to discard at once. Whatever is called afterwards, or meanwhile, finds the engine closed.
// Close may be called more than once, and waits each time.
func (e *Engine) Close(ctx context.Context) error {
	if ctx.Err() != nil {
		e.discard.Store(true)
	}
	e.shut()
	select {
	case <-e.done:
		return nil
	case <-ctx.Done():
		e.discard.Store(true)
		return fmt.Errorf("timer: close: %w", context.Cause(ctx))
	}
}

func (e *Engine) shut() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing {
		return
	}
	e.closing = true
	close(e.stop)
	e.clocks.Wait()
	for _, s := range e.shards {
		s.close()
	}
	e.ready.end()
}

// close hides the timers from Touch, and refuses new ones.
func (s *shard) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.slabs.Store(new([]*dualmap.Map))
	s.hints = hintHeap{}
	for _, x := range s.extras {
		if x.stop != nil {
			defer x.stop()
		}
	}
}
