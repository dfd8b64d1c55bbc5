package timer

import (
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/dualmap"
)

const (
	// batchLen is how many timers are taken from a heap under one hold of the lock, and handed to a
	// handler at most.
	batchLen = 256
	// lookLen is how many hints are looked at under one hold of the lock.
	lookLen = 4 * batchLen
	// keptKeys is the range of keys kept for deadlines that have passed, a day and a half, so that
	// they too keep their order.
	keptKeys = 1 << 30
)

// batch is a run of timers of one group and shard whose deadlines had passed at an instant. An
// entry whose timer was cancelled meanwhile finds nothing.
type batch struct {
	shard   *shard
	group   *Group
	now     tick
	entries []dualmap.Original
	taken   atomic.Int32 // entries that workers have taken; more than there are means all
}

// takeOne takes the next entry for a worker; nil if there is none.
func (b *batch) takeOne() []dualmap.Original {
	i := int(b.taken.Add(1))
	if i > len(b.entries) {
		return nil
	}
	return b.entries[i-1 : i : i]
}

// takeAll takes all entries that are left for a worker; nil if there are none.
func (b *batch) takeAll() []dualmap.Original {
	n := int32(len(b.entries))
	if first := b.taken.Swap(n); first < n {
		return b.entries[first:]
	}
	return nil
}

func (b *batch) allTaken() bool { return int(b.taken.Load()) >= len(b.entries) }

// expireLocked takes due hints from the heap, at most batchLen timers, and returns them by group,
// each in the order of their deadlines. It reports whether the heap may hold more that is due.
func (s *shard) expireLocked(now time.Duration, out []*batch) (batches []*batch, more bool) {
	nowTick := s.engine.scale.floor(now)
	taken := 0
	for range lookLen {
		s.rebaseLocked(nowTick)
		if s.nextLocked() > nowTick {
			return out, false
		}
		r, o, deadline, due := s.lookLocked()
		if !due {
			continue
		}
		s.lateness[latenessBucket(now-s.engine.scale.instant(deadline))]++
		out = s.addLocked(out, r, o, nowTick)
		if taken++; taken == batchLen {
			break
		}
	}
	return out, true
}

// nextLocked returns the instant of the earliest hint, or noAlarm if there is none.
func (s *shard) nextLocked() tick {
	if s.hints.len() == 0 {
		return noAlarm
	}
	return s.base + uint64(s.hints.min().key())
}

// lookLocked takes the least hint, whose instant has come, and reports whether its timer is due as
// well. A hint whose timer's deadline is later is keyed anew even if that has passed too, so that
// the order of expiry is that of the deadlines.
func (s *shard) lookLocked() (r ref, o dualmap.Original, deadline tick, due bool) {
	h := s.hints.min()
	r = h.ref()
	m := s.mapLocked(r)
	if !m.IsCurrent(dualmap.Current{Slot: r.slot(), Arming: armingOf(h.key())}) {
		s.hints.pop()
		return r, o, 0, false
	}
	o, deadline = m.Tenant(r.slot())
	if deadline == 0 { // cancelled
		s.hints.pop()
		s.freeLocked(m, r)
		return r, o, 0, false
	}
	if deadline > s.base+uint64(h.key()) {
		key := s.keyOf(deadline)
		m.Arm(dualmap.Current{Slot: r.slot(), Arming: armingOf(key)})
		s.hints.replaceMin(newHint(key, uint32(r)))
		return r, o, 0, false
	}
	s.hints.pop()
	m.Arm(dualmap.Current{Slot: r.slot(), Arming: inBatchArming})
	s.inBatch++
	return r, o, deadline, true
}

func (s *shard) addLocked(out []*batch, r ref, o dualmap.Original, now tick) []*batch {
	s.entries++
	for _, b := range out {
		if b.group.index == r.group() {
			b.entries = append(b.entries, o)
			return out
		}
	}
	g := (*s.engine.groups.Load())[r.group()]
	return append(out, &batch{shard: s, group: g, now: now, entries: []dualmap.Original{o}})
}

// rebaseLocked moves the base forward once half of the keys' range has gone by, as far as no hint
// lies before it. When all keys are at their maximum it does so too, thus a hint that is due can
// always be keyed anew. The step is a multiple of 2^15, so that armings stay what they are.
func (s *shard) rebaseLocked(now tick) {
	if now < s.base+2*keptKeys {
		return
	}
	if s.hints.len() == 0 {
		s.base = now - keptKeys
		return
	}
	step := min(uint64(s.hints.min().key()), now-keptKeys-s.base) &^ (1<<15 - 1)
	if step >= keptKeys {
		s.hints.shift(uint32(step))
		s.base += step
	}
}

// claimed is what a worker has to do for a part of a batch.
type claimed struct {
	expired   []Expired
	repeating []dualmap.Original // those of them that go on, to be resumed after the callback
	kept      []uint32           // slots to be released after the callback, see Left
}

// claim ends, or moves on, the timers of a part of a batch whose deadlines still lie in the past.
// What was touched meanwhile goes back to the heap. The part, and a slice with room for it, are the
// worker's, which uses them for what it returns.
func (s *shard) claim(b *batch, part []dualmap.Original, room []Expired) (c claimed) {
	s.mu.Lock()
	defer s.unlock()
	s.entries -= len(part)
	if s.closed && s.engine.discard.Load() {
		return c
	}
	m := b.group.maps[s.index]
	c.expired = room[:0]
	c.repeating = part[:0]
	for _, o := range part {
		s.claimOneLocked(&c, b, m, o)
	}
	s.sweepLocked()
	return c
}

func (s *shard) claimOneLocked(c *claimed, b *batch, m *dualmap.Map, o dualmap.Original) {
	r := newRef(b.group.index, o.Slot)
	for {
		deadline, ok := m.Load(o)
		if !ok {
			s.freeBatchedLocked(m, r) // cancelled
			return
		}
		if deadline > b.now {
			s.inBatch--
			s.hintLocked(m, r, deadline)
			return
		}
		if next, early := s.earlyLocked(m, r, deadline, b.now); early {
			m.CompareAndSwap(o, deadline, next)
			continue
		}
		e := Expired{
			ID:       newID(s.index, r.group(), o),
			Data:     m.Data(o.Slot),
			Deadline: s.engine.scale.instant(deadline),
			Touched:  s.engine.scale.touchedAt(deadline, m.Param(o.Slot)),
		}
		if r.group() == funcGroup {
			e.f = s.funcs[o.Slot/funcChunk][o.Slot%funcChunk]
		}
		if next, again := s.followingLocked(m, r, deadline); again {
			if !m.CompareAndSwap(o, deadline, next) {
				continue
			}
			c.repeating = append(c.repeating, o)
		} else {
			if !m.Remove(o, deadline) {
				continue
			}
			s.inBatch--
			s.endLocked(m, r)
			s.engine.release()
			if s.engine.memory != nil && r.group() != funcGroup {
				c.kept = append(c.kept, o.Slot)
			} else {
				m.Release(o.Slot)
			}
		}
		s.fired++
		c.expired = append(c.expired, e)
		return
	}
}

// followingLocked returns the deadline of a timer that comes after one that has expired, if there
// is one. It reads the clock: the batch may have waited long for a worker, and what passed
// meanwhile has passed.
func (s *shard) followingLocked(m *dualmap.Map, r ref, expired tick) (next tick, again bool) {
	x := s.extraLocked(m, r)
	if x == nil {
		return 0, false
	}
	return x.following(s.engine.scale, expired, s.engine.scale.floor(s.engine.clock.Now()))
}
