package timer

import (
	"slices"

	"github.com/holter-iot/holter/dualmap"
)

const (
	// sweepMin keeps small heaps from being swept again and again.
	sweepMin = 64
	// roomShare is the part of a full shard's timers that must be gone before it counts as full no longer,
	// or be cancelled before it is swept for room again.
	roomShare = 64
	// readySweepMin keeps a short ready queue from being swept.
	readySweepMin = 4 * batchLen
)

// sweep is sweepLocked for a goroutine without the lock.
func (s *shard) sweep() {
	s.mu.Lock()
	defer s.unlock()
	s.sweepLocked()
}

// sweepLocked drops the hints that stand for nothing, those that are superseded and those of
// cancelled timers, when they outnumber the armed timers. It decides how many cancelled timers call
// for the next look.
func (s *shard) sweepLocked() {
	if s.closed {
		return
	}
	s.countFreedLocked()
	s.stuck = min(s.stuck, s.inBatch)
	if s.isFull.Load() && s.hinted < s.fullAt-s.fullAt/roomShare {
		s.isFull.Store(false)
	}
	others := s.supersededLocked() - s.stuck
	cancelled := int(s.cancelled.Load())
	if cancelled+others > max(s.hinted-cancelled, sweepMin) {
		s.sweepNowLocked()
		others, cancelled = -s.stuck, int(s.cancelled.Load())
	}
	s.sweepAt.Store(int64(max((s.hinted-others)/2, sweepMin-others, cancelled) + 1))
}

// supersededLocked returns the number of hints in the heap that are superseded.
func (s *shard) supersededLocked() int { return s.hints.len() - (s.hinted - s.inBatch) }

// sweepNowLocked drops the hints that stand for nothing. It cannot reach those of a batch that has
// left the ready queue.
func (s *shard) sweepNowLocked() {
	s.sweepReadyLocked()
	if s.supersededLocked() == 0 {
		s.hints.rebuild(s.keepArmedLocked)
	} else {
		s.rebuildLocked()
	}
	s.countFreedLocked()
	s.stuck = min(s.inBatch, int(s.cancelled.Load()))
	s.sweeps++
}

// sweepForRoomLocked sweeps a shard that has no slot to give away.
func (s *shard) sweepForRoomLocked() {
	s.fullAt = s.hinted
	s.sweepNowLocked()
	s.sweepLocked() // which decides about the next sweep
}

// prefetchLocked reads the slots of hints, see [Engine.Prefetch].
func (s *shard) prefetchLocked(hints []hint) {
	for _, h := range hints {
		s.mapLocked(h.ref()).Tenant(h.ref().slot())
	}
}

// keepArmedLocked keeps the live hints of armed timers, and frees the cancelled ones.
func (s *shard) keepArmedLocked(hints []hint) []hint {
	s.prefetchLocked(hints)
	return slices.DeleteFunc(hints, func(h hint) bool {
		m := s.mapLocked(h.ref())
		if _, deadline := m.Tenant(h.ref().slot()); deadline != 0 {
			return false
		}
		s.freeLocked(m, h.ref())
		return true
	})
}

// rebuildLocked is keepArmedLocked of all hints, where some are superseded.
func (s *shard) rebuildLocked() {
	s.hints.rebuild(func(hints []hint) []hint {
		s.prefetchLocked(hints)
		kept := hints[:0]
		for _, h := range hints {
			if h, ok := s.renewLocked(h); ok {
				kept = append(kept, h)
			}
		}
		return kept
	})
	for h := range s.hints.all() {
		s.mapLocked(h.ref()).Arm(dualmap.Current{Slot: h.ref().slot(), Arming: armingOf(h.key())})
	}
}

// renewLocked returns what is to be in place of a hint, and whether anything is.
func (s *shard) renewLocked(h hint) (hint, bool) {
	r := h.ref()
	m := s.mapLocked(r)
	if !m.IsCurrent(dualmap.Current{Slot: r.slot(), Arming: armingOf(h.key())}) {
		return 0, false
	}
	_, deadline := m.Tenant(r.slot()) // the key may have been that of a second hint of this slot: take the timer's own
	if deadline == 0 {
		s.freeLocked(m, r) // which supersedes a second hint as well
		return 0, false
	}
	m.Arm(dualmap.Current{Slot: r.slot(), Arming: keptArming}) // a second hint of this slot is superseded
	return newHint(s.keyOf(deadline), uint32(r)), true
}

// sweepReadyLocked drops the entries of cancelled timers from the ready queue.
func (s *shard) sweepReadyLocked() {
	if s.entries < readySweepMin {
		return
	}
	s.engine.ready.filter(func(b *batch) bool {
		if b.shard != s {
			return true
		}
		m, before := b.group.maps[s.index], len(b.entries)
		b.entries = slices.DeleteFunc(b.entries, func(o dualmap.Original) bool {
			_, ok := m.Load(o)
			if !ok {
				s.freeBatchedLocked(m, newRef(b.group.index, o.Slot))
			}
			return !ok
		})
		s.entries -= before - len(b.entries)
		return len(b.entries) > 0
	})
}
