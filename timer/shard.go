package timer

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/dualmap"
)

// shard is a share of the timers: slots, a heap of hints, and a goroutine (run) that hands out what is due.
//
// Each armed timer has exactly one live hint. It lies in the heap, or, once it came due, in a batch on its way to a worker
// (then the arming of its slot is inBatch). Hints that are not live are dead; they are told by their arming.
type shard struct {
	engine *Engine
	index  int
	wake   chan struct{} // room for one; never closed; tells run to look again

	// slabs holds a map for each group, and is read without the lock by Touch. It is emptied by close.
	slabs atomic.Pointer[[]*dualmap.Map]

	mu       sync.Mutex // guards the fields below, and the structure of the slabs
	hints    hintHeap
	base     tick // of the hints' keys; no later than the last tick that was looked at
	armed    int
	inBatch  int  // armed timers whose hint is in a batch
	alarm    tick // what run sleeps until; 0 while it does not sleep
	closed   bool
	extras   map[ref]*extra
	funcs    [][]func() // of group 0, by slot, in chunks
	sweeps   uint64
	fired    uint64
	lateness [latenessBuckets]uint64

	_ [64]byte // keeps the next shard off this one's last cache line
}

const (
	funcChunk = 512
	// inBatchArming marks a slot whose hint is in a batch. Armings made of keys have their highest bit set.
	inBatchArming = 1
	// keptArming marks, during a sweep, a slot whose live hint was found.
	keptArming = 2
	// sweepMin keeps small heaps from being swept again and again.
	sweepMin = 64
	noAlarm  = math.MaxUint64
)

// armingOf derives a slot's arming from the key of its hint. Two hints of one slot with the same arming are either equal, or
// 2^15 ticks apart; then both are looked at, and the first one looked at makes the other dead.
func armingOf(key uint32) uint16 { return 1<<15 | uint16(key) }

// keyOf returns the key for a deadline. What lies before the base is due anyway; what lies too far ahead is looked at on the way.
func (s *shard) keyOf(deadline tick) uint32 {
	if deadline <= s.base {
		return 0
	}
	return uint32(min(deadline-s.base, maxKey))
}

func (s *shard) mapLocked(r ref) *dualmap.Map { return (*s.slabs.Load())[r.group()] }

// arm starts a timer.
func (s *shard) arm(group uint8, deadline tick, param uint32, data uint64, x *extra, f func()) (ID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, ErrClosed
	}
	m := (*s.slabs.Load())[group]
	o, err := m.Insert(deadline, data, param)
	if err != nil {
		return 0, ErrFull
	}
	r := newRef(group, o.Slot)
	if f != nil {
		s.setFuncLocked(o.Slot, f)
	}
	if x != nil {
		s.setExtraLocked(m, r, x)
	}
	s.armed++
	s.hintLocked(m, r, deadline)
	return newID(s.index, group, o), nil
}

// hintLocked puts a live hint for a deadline into the heap, and wakes the shard if it would sleep past it.
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

// advance makes sure that the hint of a timer whose deadline was moved to an earlier one is looked at in time.
func (s *shard) advance(id ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advanceLocked(id)
}

func (s *shard) advanceLocked(id ID) {
	r, o := id.ref(), id.original()
	if s.closed {
		return
	}
	m := s.mapLocked(r)
	deadline, ok := m.Load(o)
	if !ok || m.IsCurrent(dualmap.Current{Slot: o.Slot, Arming: inBatchArming}) {
		return // a hint in a batch is looked at soon enough
	}
	if s.hints.moved != nil {
		s.hints.remove(int(m.Position(o.Slot)))
	}
	s.hintLocked(m, r, deadline)
	s.sweepLocked()
}

// cancel ends a timer and says whether it did.
func (s *shard) cancel(id ID) bool {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return false
	}
	r, o := id.ref(), id.original()
	if int(r.group()) >= len(*s.slabs.Load()) {
		s.mu.Unlock()
		return false
	}
	m := s.mapLocked(r)
	for {
		deadline, ok := m.Load(o)
		if !ok {
			s.mu.Unlock()
			return false
		}
		if m.Remove(o, deadline) {
			break
		}
	}
	if m.IsCurrent(dualmap.Current{Slot: o.Slot, Arming: inBatchArming}) {
		s.inBatch--
	} else if s.hints.moved != nil {
		s.hints.remove(int(m.Position(o.Slot)))
	}
	release := s.releaseLocked(m, r)
	s.sweepLocked()
	s.mu.Unlock()
	if release != nil {
		release()
	}
	return true
}

// releaseLocked gives back what an ended timer held. What it returns, if not nil, is to be called without the lock.
func (s *shard) releaseLocked(m *dualmap.Map, r ref) (release func() bool) {
	if m.Param(r.slot())&paramExtra != 0 {
		release = s.extras[r].stop
		delete(s.extras, r)
	}
	if r.group() == funcGroup {
		s.setFuncLocked(r.slot(), nil)
	}
	m.Release(r.slot())
	s.armed--
	s.engine.release()
	return release
}

// sweepLocked drops the dead hints when they outnumber the live ones.
func (s *shard) sweepLocked() {
	live := s.armed - s.inBatch
	if s.hints.len()-live <= max(live, sweepMin) {
		return
	}
	s.hints.rebuild(func(h hint) (hint, bool) {
		r := h.ref()
		m := s.mapLocked(r)
		if !m.IsCurrent(dualmap.Current{Slot: r.slot(), Arming: armingOf(h.key())}) {
			return 0, false
		}
		m.Arm(dualmap.Current{Slot: r.slot(), Arming: keptArming}) // a second hint of this slot is dead
		_, deadline := m.Tenant(r.slot())
		return newHint(s.keyOf(deadline), uint32(r)), true
	})
	for h := range s.hints.all() {
		s.mapLocked(h.ref()).Arm(dualmap.Current{Slot: h.ref().slot(), Arming: armingOf(h.key())})
	}
	s.sweeps++
}

// batchLen is how many timers are taken from a heap under one hold of the lock, and handed to a handler at most.
const batchLen = 256

// batch is a run of timers of one group and shard whose deadlines had passed at an instant.
type batch struct {
	shard *shard
	group *Group
	now   tick
	slots []uint32
}

// expireLocked takes due hints from the heap, at most batchLen timers, and returns them by group, each in the order of their
// deadlines. What is not due after all is keyed anew. It says whether the heap may hold more that is due.
func (s *shard) expireLocked(now time.Duration, out []*batch) (batches []*batch, more bool) {
	nowTick := tickFloor(now)
	for taken := 0; s.hints.len() > 0; {
		h := s.hints.min()
		if s.base+uint64(h.key()) > nowTick {
			s.rebaseLocked(nowTick)
			return out, false
		}
		if taken == batchLen {
			return out, true
		}
		r := h.ref()
		m := s.mapLocked(r)
		if !m.IsCurrent(dualmap.Current{Slot: r.slot(), Arming: armingOf(h.key())}) {
			s.hints.pop()
			continue
		}
		_, deadline := m.Tenant(r.slot())
		if deadline > nowTick {
			key := s.keyOf(deadline)
			m.Arm(dualmap.Current{Slot: r.slot(), Arming: armingOf(key)})
			s.hints.replaceMin(newHint(key, uint32(r)))
			continue
		}
		s.lateness[latenessBucket(now-instant(deadline))]++
		s.hints.pop()
		m.Arm(dualmap.Current{Slot: r.slot(), Arming: inBatchArming})
		s.inBatch++
		out = s.addLocked(out, r, nowTick)
		taken++
	}
	s.base = max(s.base, nowTick) // no key depends on it now
	return out, false
}

func (s *shard) addLocked(out []*batch, r ref, now tick) []*batch {
	for _, b := range out {
		if b.group.index == r.group() {
			b.slots = append(b.slots, r.slot())
			return out
		}
	}
	g := (*s.engine.groups.Load())[r.group()]
	return append(out, &batch{shard: s, group: g, now: now, slots: []uint32{r.slot()}})
}

// rebaseLocked moves the base forward once half of the keys' range has gone by. Nothing before now is left in the heap.
// The step is a multiple of 2^15, so that armings stay what they are.
func (s *shard) rebaseLocked(now tick) {
	const step = 1 << 31
	for now-min(s.base, now) >= step {
		s.hints.shift(step)
		s.base += step
	}
}

// nextLocked returns the instant of the earliest hint, and whether there is one.
func (s *shard) nextLocked() (tick, bool) {
	if s.hints.len() == 0 {
		return noAlarm, false
	}
	return s.base + uint64(s.hints.min().key()), true
}

// claim ends, or moves on, the timers of a batch whose deadlines still lie in the past, and appends them to out. What was
// touched meanwhile goes back to the heap; what was cancelled is gone. It returns what is to be called without the lock.
func (s *shard) claim(b *batch, slots []uint32, out []Expired) (_ []Expired, releases []func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed && s.engine.discard.Load() {
		return out, nil
	}
	m := b.group.maps[s.index]
	for _, slot := range slots {
		if !m.IsCurrent(dualmap.Current{Slot: slot, Arming: inBatchArming}) {
			continue
		}
		r := newRef(b.group.index, slot)
		e, release, ok := s.claimOneLocked(m, r, b.now)
		if ok {
			out = append(out, e)
		}
		if release != nil {
			releases = append(releases, release)
		}
	}
	return out, releases
}

func (s *shard) claimOneLocked(m *dualmap.Map, r ref, now tick) (e Expired, release func() bool, ok bool) {
	for {
		o, deadline := m.Tenant(r.slot())
		if deadline > now {
			s.inBatch--
			s.hintLocked(m, r, deadline)
			return e, nil, false
		}
		e = Expired{ID: newID(s.index, r.group(), o), Data: m.Data(r.slot()), Deadline: instant(deadline)}
		if r.group() == funcGroup {
			e.f = s.funcs[r.slot()/funcChunk][r.slot()%funcChunk]
		}
		if m.Param(r.slot())&paramExtra != 0 && s.extras[r].repeats() {
			x := s.extras[r]
			next := x.following(deadline, now)
			if !m.CompareAndSwap(o, deadline, min(tickCeil(next), maxTick)) {
				continue
			}
			x.next = next
			e.repeats = true // its hint stays with the batch until the callback has returned
		} else {
			if !m.Remove(o, deadline) {
				continue
			}
			s.inBatch--
			release = s.releaseLocked(m, r)
		}
		s.fired++
		return e, release, true
	}
}

// setFuncLocked notes the func of a slot of group 0.
func (s *shard) setFuncLocked(slot uint32, f func()) {
	for int(slot/funcChunk) >= len(s.funcs) {
		s.funcs = append(s.funcs, make([]func(), funcChunk))
	}
	s.funcs[slot/funcChunk][slot%funcChunk] = f
}
