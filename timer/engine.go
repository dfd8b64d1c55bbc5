package timer

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/ants/v2"

	"github.com/holter-iot/holter/dualmap"
)

// Engine holds timers. Its methods may be called concurrently, also by callbacks, except that a
// callback must not wait for Close. Make one with [Start].
type Engine struct {
	scale   scale
	clock   Clock
	wall    *wall
	shards  []*shard
	groups  atomic.Pointer[[]*Group] // group 0 is that of the funcs
	max     int64
	live    atomic.Int64 // kept only if max is set
	eager   bool
	onPanic func(any)
	memory  dualmap.Memory // or nil

	ready       *readyQueue
	gate        *gate
	pool        *ants.PoolWithFuncGeneric[task]
	nonblocking bool // a task for which no worker is free is refused, and offered again
	rejected    atomic.Uint64
	panics      atomic.Uint64
	channels    channels
	discard     atomic.Bool // close without running what is due

	mu        sync.Mutex // guards the fields below and the making of groups; taken before a shard's
	closing   bool
	following bool           // the wall clock
	stop      chan struct{}  // closed by Close
	clocks    sync.WaitGroup // the shards' goroutines, and that which looks at the wall clock
	done      chan struct{}  // closed when the last callback has returned and the pool is gone
}

// Start returns a running engine; end it with [Engine.Close]. It starts a goroutine for each shard,
// one that feeds the pool, and those of the pool.
func Start(cfg Config) (*Engine, error) {
	e, err := newEngine(cfg)
	if err != nil {
		return nil, err
	}
	for _, s := range e.shards {
		e.clocks.Go(s.watch)
	}
	go e.feed()
	return e, nil
}

// newEngine returns an engine. Of its goroutines only those of the pool are started.
func newEngine(cfg Config) (*Engine, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	e := &Engine{
		scale:   scale(bits.TrailingZeros64(uint64(cfg.Precision))),
		clock:   cfg.Clock,
		wall:    &wall{now: cfg.Wall, clock: cfg.Clock},
		max:     int64(cfg.MaxTimers),
		eager:   cfg.Eager,
		onPanic: cfg.OnPanic,
		memory:  cfg.Memory,
		ready:   newReadyQueue(cfg.Queue),
		gate:    newGate(cfg.Workers),
		stop:    make(chan struct{}),
		done:    make(chan struct{}),
	}
	if err = e.makePool(cfg); err != nil {
		return nil, err
	}
	now := e.scale.floor(e.clock.Now())
	for i := range cfg.Shards {
		e.shards = append(e.shards, newShard(e, i, now))
	}
	e.groups.Store(new([]*Group))
	_, err = e.addGroup(nil) // that of the funcs
	return e, err
}

// makePool makes the pool, without a bound unless it is preallocated: the gate is the bound.
func (e *Engine) makePool(cfg Config) (err error) {
	var options ants.Options
	for _, set := range cfg.PoolOptions {
		set(&options)
	}
	e.nonblocking = options.Nonblocking
	size := Unlimited
	if options.PreAlloc {
		size = cfg.Workers
	}
	options.Nonblocking = true
	if e.pool, err = ants.NewPoolWithFuncGeneric(size, e.run, ants.WithOptions(options)); err != nil {
		return fmt.Errorf("timer: make pool: %w", err)
	}
	return nil
}

// Now reads the engine's clock.
func (e *Engine) Now() time.Duration { return e.clock.Now() }

// Resize changes the most callbacks that run at a time to a number from 1 to 2^31 - 1, or to
// Unlimited; 0 is Unlimited, too. Callbacks that run, or that a worker is about to call, are not
// disturbed; no other starts until fewer than that run. It does not wait. It returns an error if
// workers is none of these. [Stats.Workers] shows the number.
func (e *Engine) Resize(workers int) error {
	if workers < Unlimited || workers > math.MaxInt32 {
		return fmt.Errorf("timer: resize to %d workers: want 1 to %d, or 0 or Unlimited for no bound", workers, math.MaxInt32)
	}
	if workers == 0 {
		workers = Unlimited
	}
	e.gate.resize(workers)
	return nil
}

// slab returns the map that an id points into, or nil.
func (e *Engine) slab(id ID) *dualmap.Map {
	if id.shard() >= len(e.shards) {
		return nil
	}
	return e.shards[id.shard()].slabs[id.ref().group()].Load()
}

func (e *Engine) load(id ID) (tick, bool) {
	m := e.slab(id)
	if m == nil {
		return 0, false
	}
	return m.Load(id.original())
}

// Touch moves a timer's deadline to one period after now, an instant on the engine's clock, unless
// the deadline is that late already: a heartbeat never shortens a life. It reports whether the
// timer was armed; if not, its callback has started or is about to, or it was cancelled. It takes
// no lock, allocates nothing, and does not read the clock.
//
// Like a deadline, the period is rounded up to a multiple of Resolution; one of more than a day and
// a half to some two seconds.
func (e *Engine) Touch(id ID, now time.Duration) bool {
	m := e.slab(id)
	if m == nil {
		return false
	}
	c, ok := m.Cell(id.original())
	if !ok {
		return false
	}
	from := e.scale.ceil(now)
	for {
		old, ok := c.Load()
		if !ok {
			return false
		}
		next := from + unpackPeriod(c.Param())
		if next > old {
			if c.CompareAndSwap(old, min(next, maxTick)) {
				return true
			}
		} else if again, armed := c.Load(); armed && again == old {
			return true // and the period was its own: it did not end meanwhile
		}
	}
}

// Prefetch reads a timer, so that it lies in the cache soon, and changes nothing. Touch of a timer
// that is in no cache waits for memory, and its locked instruction lets no later touch begin to. Of
// many timers, prefetch some, then touch each of these: they wait together, see [Engine.TouchBatch].
// 64 at a time fit into the nearest cache. Timers that the last cache holds may gain nothing. An ID of
// no timer, or of one that has ended, does no harm.
func (e *Engine) Prefetch(id ID) {
	if m := e.slab(id); m != nil {
		if c, ok := m.Cell(id.original()); ok {
			c.Prefetch()
		}
	}
}

// touchAhead is how many timers TouchBatch prefetches before it touches them.
const touchAhead = 64

// TouchBatch is Touch of each of many timers, which are prefetched. It appends to ended the indexes of
// those for which Touch returns false, and returns the result. It takes no lock, and allocates only
// where ended grows. Each touch is atomic, the batch is not.
func (e *Engine) TouchBatch(ids []ID, now time.Duration, ended []int) []int {
	for first := 0; first < len(ids); first += touchAhead {
		some := ids[first:min(first+touchAhead, len(ids))]
		for _, id := range some {
			e.Prefetch(id)
		}
		for i, id := range some {
			if !e.Touch(id, now) {
				ended = append(ended, first+i)
			}
		}
	}
	return ended
}

// TouchTo moves a timer's deadline to an instant on the engine's clock, later or earlier, and
// reports whether the timer was armed. It takes no lock unless the deadline becomes an earlier one, or
// the timer is a repeating one, one of AtTime or bound.
// An instant beyond MaxDeadline is taken as MaxDeadline.
func (e *Engine) TouchTo(id ID, deadline time.Duration) bool {
	m := e.slab(id)
	if m == nil {
		return false
	}
	o, next := id.original(), min(e.scale.ceil(deadline), maxTick)
	if _, ok := m.Load(o); ok && m.Param(o.Slot)&paramExtra != 0 {
		e.shards[id.shard()].leaveWall(id)
	}
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

// Reset gives a timer a new period, from now on, and reports whether the timer was armed. A
// repeating timer goes on with that period; one that is not positive makes it expire once more, at
// once. A deadline beyond MaxDeadline is taken as MaxDeadline.
func (e *Engine) Reset(id ID, now, period time.Duration) bool {
	_, armed := e.load(id)
	return armed && e.shards[id.shard()].reset(id, now, period)
}

// Cancel ends a timer and reports whether it was armed: if true, the callback of its deadline never
// starts. For a repeating timer, a run that a worker has claimed already may still start.
//
// It takes no lock, unless [Config.Eager] or [Config.Memory] is set, the timer is a repeating one,
// one of AtTime or bound, its shard was full, or the cancelled timers are to be swept out. What a func refers to stays
// in memory until its entry is swept out, or comes up.
func (e *Engine) Cancel(id ID) bool {
	m := e.slab(id)
	if m == nil {
		return false
	}
	if e.eager || e.memory != nil || e.shards[id.shard()].isFull.Load() {
		_, won := e.Disarm(id)
		return won
	}
	c, ok := m.Cell(id.original())
	if !ok {
		return false
	}
	if !c.Discard() {
		return false
	}
	e.release()
	s := e.shards[id.shard()]
	if s.cancelled.Add(1) >= s.sweepAt.Load() {
		s.sweep()
	}
	if c.Param()&paramExtra != 0 { // its own, or that of the slot's next timer
		s.dropExtra(m, id)
	}
	return true
}

// Disarm is Cancel, and returns what Touched would have returned: no touch that returned true comes
// later. It takes the lock of a shard.
func (e *Engine) Disarm(id ID) (touched time.Duration, won bool) {
	if _, armed := e.load(id); !armed {
		return 0, false
	}
	return e.shards[id.shard()].cancel(id)
}

// Deadline returns the instant on the engine's clock at which a timer expires, and whether it is
// armed. While the callback of a repeating timer with a fixed delay runs, its deadline is not known
// and lies beyond MaxDeadline.
func (e *Engine) Deadline(id ID) (time.Duration, bool) {
	t, armed := e.load(id)
	if !armed {
		return 0, false
	}
	return e.scale.instant(t), true
}

// Remaining returns the time from now, an instant on the engine's clock, until a timer expires,
// negative if it is overdue, and whether it is armed. It returns 0 if not.
func (e *Engine) Remaining(id ID, now time.Duration) (time.Duration, bool) {
	at, armed := e.Deadline(id)
	if !armed {
		return 0, false
	}
	return at - now, true
}

// Touched returns the instant one period before a timer's deadline, and whether the timer is armed.
// That is the instant of its last touch, or of its arming, rounded up to Resolution. For a timer
// whose deadline was set by ArmAt or TouchTo it means nothing, and so it does while Reset changes the
// period.
func (e *Engine) Touched(id ID) (time.Duration, bool) {
	m := e.slab(id)
	if m == nil {
		return 0, false
	}
	t, ok := m.Load(id.original())
	if !ok {
		return 0, false
	}
	param := m.Param(id.ref().slot())
	if _, ok := m.Load(id.original()); !ok { // then the period may be that of the slot's next timer
		return 0, false
	}
	return e.scale.touchedAt(t, param), true
}

// Len returns the number of armed timers, 0 once the engine is closed. It takes each shard's lock
// for a moment.
func (e *Engine) Len() int { return e.Stats().Armed }

// arm starts a timer in a shard picked at random.
func (e *Engine) arm(g *Group, at time.Duration, period time.Duration, data uint64, x *extra, f func()) (ID, error) {
	deadline := e.scale.ceil(at)
	if deadline > maxTick {
		return 0, ErrTooFar
	}
	if !e.reserve() {
		return 0, e.full()
	}
	s := e.shards[int(rand.Uint32())&(len(e.shards)-1)]
	id, err := s.arm(g.index, deadline, e.scale.packPeriod(period), data, x, f)
	if err != nil {
		e.release()
		if errors.Is(err, ErrFull) {
			return 0, e.full()
		}
	}
	return id, err
}

// reserve takes room for a timer and reports whether there was any.
func (e *Engine) reserve() bool {
	if e.max == 0 {
		return true
	}
	for {
		live := e.live.Load()
		if live >= e.max {
			return false
		}
		if e.live.CompareAndSwap(live, live+1) {
			return true
		}
	}
}

// release makes room for another timer.
func (e *Engine) release() {
	if e.max > 0 {
		e.live.Add(-1)
	}
}

// full counts an arming that found no room, and returns its error.
func (e *Engine) full() error {
	select {
	case <-e.stop:
		return ErrClosed
	default:
		e.rejected.Add(1)
		return ErrFull
	}
}
