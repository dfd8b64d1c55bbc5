package timer

import (
	"slices"

	"github.com/holter-iot/holter/dualmap"
)

const (
	// sweepMin keeps small heaps from being swept again and again.
	sweepMin = 64
	// readySweepMin does the same for the ready queue. It is more than the entries that have left
	// the queue but not yet been claimed, which a sweep cannot reach.
	readySweepMin = 4 * batchLen
)

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
		_, deadline := m.Tenant(r.slot())                          // whose key may have been the right one: take the timer's own
		return newHint(s.keyOf(deadline), uint32(r)), true
	})
	for h := range s.hints.all() {
		s.mapLocked(h.ref()).Arm(dualmap.Current{Slot: h.ref().slot(), Arming: armingOf(h.key())})
	}
	s.sweeps++
}

// sweepReadyLocked drops the entries of cancelled timers from the ready queue when they outnumber
// the timers that are due.
func (s *shard) sweepReadyLocked() {
	if s.entries-s.inBatch <= max(s.inBatch, readySweepMin) {
		return
	}
	s.engine.ready.filter(func(b *batch) bool {
		if b.shard != s {
			return true
		}
		m, before := b.group.maps[s.index], len(b.entries)
		b.entries = slices.DeleteFunc(b.entries, func(o dualmap.Original) bool {
			_, ok := m.Load(o)
			return !ok
		})
		s.entries -= before - len(b.entries)
		return len(b.entries) > 0
	})
}
