package timer

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/dualmap"
)

// shard is a share of the timers: slots, a heap of hints, and a goroutine (watch) that hands out
// what is due.
//
// Each armed timer has exactly one live hint. It lies in the heap, or, once it came due, in a batch
// on its way to a worker (then the arming of its slot is inBatch). A cancelled timer keeps its hint,
// and its slot: whoever takes that hint out gives the slot back. Hints that are not live are
// superseded; they are told by their arming.
type shard struct {
	engine *Engine
	index  int
	wake   chan struct{} // room for one; never closed; tells watch to look again

	// slabs holds a map for each group, nil where there is none, and is read without the lock by Touch.
	// It is emptied by close.
	slabs [maxGroups]atomic.Pointer[dualmap.Map]
	// isFull is set while the shard has hardly a slot to give away: Cancel takes the lock then, and gives
	// the slot back at once.
	isFull atomic.Bool

	_ [64]byte // keeps the line that every Cancel changes off the one that Touch reads

	cancelled atomic.Int64 // timers that were cancelled and still have their hint
	sweepAt   atomic.Int64 // how many of them may be too many

	_ [64]byte // and off the lock

	mu       sync.Mutex // guards the fields below, and the structure of the slabs; taken before the ready queue's
	hints    hintHeap
	base     tick // of the hints' keys; no later than the last tick that was looked at
	hinted   int  // timers that have their live hint: those that are armed, and cancelled
	inBatch  int  // those of them whose hint is in a batch, or whose callback runs and will be followed by another
	entries  int  // of batches that no worker has looked at
	alarm    tick // what watch sleeps until; 0 while it does not sleep
	closed   bool
	extras   map[ref]*extra
	stops    []func() bool // to be called by unlock
	freed    int64         // cancelled timers that were freed under this hold of the lock, and are still among cancelled
	stuck    int           // timers in batches that may be cancelled and out of reach of the last sweep
	fullAt   int           // hinted when there was no slot; of use while isFull
	funcs    [][]func()    // of group 0, by slot, in chunks
	sweeps   uint64
	fired    uint64
	lateness [latenessBuckets]uint64

	_ [64]byte // keeps the next shard off this one's last cache line
}

const (
	funcChunk = 512
	// inBatchArming marks a slot whose hint is in a batch. Armings made of keys have their highest
	// bit set.
	inBatchArming = 1
	// keptArming marks, during a sweep, a slot whose live hint was found.
	keptArming = 2
	noAlarm    = math.MaxUint64
)

func newShard(e *Engine, index int, now tick) *shard {
	s := &shard{engine: e, index: index, wake: make(chan struct{}, 1)}
	if e.eager {
		s.hints.moved = s.noteLocked
	}
	s.sweepAt.Store(sweepMin)
	s.rebaseLocked(now)
	return s
}

// noteLocked records the position of a hint with its slot.
func (s *shard) noteLocked(h hint, at int) {
	s.mapLocked(h.ref()).SetPosition(h.ref().slot(), uint32(at))
}

// armingOf derives a slot's arming from the key of its hint. Two hints of one slot with the same
// arming are either equal, or a multiple of 2^15 ticks apart; then both are looked at, and the
// first one that finds the timer due makes the other dead.
func armingOf(key uint32) uint16 { return 1<<15 | uint16(key) }

// keyOf returns the key for a deadline. What lies before the base is due anyway; what lies too far
// ahead is looked at on the way.
func (s *shard) keyOf(deadline tick) uint32 {
	if deadline <= s.base {
		return 0
	}
	return uint32(min(deadline-s.base, maxKey))
}

func (s *shard) mapLocked(r ref) *dualmap.Map { return s.slabs[r.group()].Load() }

// arm starts a timer.
func (s *shard) arm(group uint8, deadline tick, param uint32, data uint64, x *extra, f func()) (ID, error) {
	s.mu.Lock()
	defer s.unlock()
	if s.closed {
		return 0, ErrClosed
	}
	m := s.slabs[group].Load()
	o, err := m.Insert(deadline, data, param)
	if err != nil && (!s.isFull.Swap(true) || int(s.cancelled.Load())-s.stuck > s.hinted/roomShare) {
		s.sweepForRoomLocked()
		o, err = m.Insert(deadline, data, param)
	}
	if err != nil {
		return 0, ErrFull
	}
	r := newRef(group, o.Slot)
	if group == funcGroup {
		s.setFuncLocked(o.Slot, f)
	}
	if x != nil {
		s.setExtraLocked(m, r, x)
	}
	s.hinted++
	s.hintLocked(m, r, deadline)
	return newID(s.index, group, o), nil
}

// setFuncLocked stores the func of a slot of group 0.
func (s *shard) setFuncLocked(slot uint32, f func()) {
	for int(slot/funcChunk) >= len(s.funcs) {
		s.funcs = append(s.funcs, make([]func(), funcChunk))
	}
	s.funcs[slot/funcChunk][slot%funcChunk] = f
}

// hintLocked puts a live hint for a deadline into the heap, and wakes the shard if it would sleep
// past it.
func (s *shard) hintLocked(m *dualmap.Map, r ref, deadline tick) {
	key := s.keyOf(deadline)
	m.Arm(dualmap.Current{Slot: r.slot(), Arming: armingOf(key)})
	s.hints.push(newHint(key, uint32(r)))
	if deadline < s.alarm {
		s.alarm = 0
		s.signal()
	}
}

func (s *shard) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// advance makes sure that the hint of a timer whose deadline was moved to an earlier one is looked
// at in time.
func (s *shard) advance(id ID) {
	s.mu.Lock()
	defer s.unlock()
	if !s.closed {
		s.advanceLocked(id)
	}
}

func (s *shard) advanceLocked(id ID) {
	r, o := id.ref(), id.original()
	m := s.mapLocked(r)
	deadline, ok := m.Load(o)
	if !ok || isInBatch(m, o.Slot) {
		return // a hint in a batch is looked at soon enough
	}
	if s.hints.moved != nil {
		s.hints.remove(int(m.Position(o.Slot)))
	}
	s.hintLocked(m, r, deadline)
	s.sweepLocked()
}

func isInBatch(m *dualmap.Map, slot uint32) bool {
	return m.IsCurrent(dualmap.Current{Slot: slot, Arming: inBatchArming})
}

// reset gives a timer a new period and deadline, and reports whether it was armed.
func (s *shard) reset(id ID, now, period time.Duration) bool {
	s.mu.Lock()
	defer s.unlock()
	if s.closed {
		return false
	}
	r, o := id.ref(), id.original()
	m := s.mapLocked(r)
	old, ok := m.Load(o)
	if !ok {
		return false
	}
	param := s.engine.scale.packPeriod(period)
	if x := s.extraLocked(m, r); x != nil {
		param |= paramExtra
		x.reset(now, period)
	}
	m.SetParam(o.Slot, param) // before the deadline, or a touch could add the old period to the new one
	next := min(s.engine.scale.ceil(add(now, period)), maxTick)
	for !m.CompareAndSwap(o, old, next) {
		if old, ok = m.Load(o); !ok {
			return false // cancelled, not touched
		}
	}
	if next < old {
		s.advanceLocked(id)
	}
	return true
}

// cancel ends a timer. It returns when the timer was touched last, and whether it was armed.
func (s *shard) cancel(id ID) (touched time.Duration, ok bool) {
	s.mu.Lock()
	defer s.unlock()
	if s.closed {
		return 0, false
	}
	r := id.ref()
	m := s.mapLocked(r)
	deadline, ok := m.Discard(id.original())
	if !ok {
		return 0, false
	}
	touched = s.engine.scale.touchedAt(deadline, m.Param(r.slot()))
	s.engine.release()
	s.cancelled.Add(1)
	s.dropExtraLocked(m, r)
	if !isInBatch(m, r.slot()) && (s.hints.moved != nil || s.isFull.Load()) {
		if s.hints.moved != nil {
			s.hints.remove(int(m.Position(r.slot())))
		} // else it is superseded
		s.freeLocked(m, r)
	}
	s.sweepLocked()
	return touched, true
}

// freeLocked gives back what a cancelled timer held, once its live hint is gone.
func (s *shard) freeLocked(m *dualmap.Map, r ref) {
	s.freed++
	s.endLocked(m, r)
	m.Release(r.slot())
}

// freeBatchedLocked is freeLocked of a timer whose hint was in a batch.
func (s *shard) freeBatchedLocked(m *dualmap.Map, r ref) {
	s.inBatch--
	s.stuck = max(s.stuck-1, 0)
	s.freeLocked(m, r)
}

// endLocked gives back what an ended timer held, except its slot, once its live hint is gone.
func (s *shard) endLocked(m *dualmap.Map, r ref) {
	s.dropExtraLocked(m, r)
	if r.group() == funcGroup {
		s.setFuncLocked(r.slot(), nil)
	}
	s.hinted--
}

// dropExtra gives back the extra of a cancelled timer, unless that was done.
func (s *shard) dropExtra(m *dualmap.Map, id ID) {
	s.mu.Lock()
	defer s.unlock()
	if o := id.original(); m.IsVacantSince(o) {
		s.dropExtraLocked(m, id.ref())
	}
}

// dropExtraLocked gives back the extra of a timer that has ended, if it has one.
func (s *shard) dropExtraLocked(m *dualmap.Map, r ref) {
	x := s.extraLocked(m, r)
	if x == nil {
		return
	}
	if x.stop != nil {
		s.stops = append(s.stops, x.stop)
	}
	delete(s.extras, r)
}

// countFreedLocked takes those that freeLocked freed out of the cancelled ones, all at once: a locked
// instruction for each would let no read of the next one begin.
func (s *shard) countFreedLocked() {
	if s.freed > 0 {
		s.cancelled.Add(-s.freed)
		s.freed = 0
	}
}

// unlock gives the lock back and then calls what must not be called with it.
func (s *shard) unlock() {
	s.countFreedLocked()
	stops := s.stops
	s.stops = nil
	s.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
}
