package timer

import (
	"time"

	"github.com/holter-iot/holter/dualmap"
)

// Repeat is how a repeating timer goes on. A timer never expires while its callback runs, and no
// more than once in a unit of Resolution. It ends when its next deadline would lie beyond
// MaxDeadline. The zero Repeat expires once.
type Repeat uint8

const (
	// FixedRate expires at start + n × period, without drift. One expiry stands for all the
	// instants that passed while it was late, or while the callback before it ran. A touch that
	// moves the deadline moves the start.
	FixedRate Repeat = iota + 1
	// FixedDelay expires one period after the callback returned.
	FixedDelay
)

// extra holds what only few timers need.
type extra struct {
	mode   Repeat        // 0: once
	period time.Duration // exact, where the slot's is rounded
	next   time.Duration // FixedRate, AtTime: the exact instant behind the slot's deadline
	at     time.Time     // AtTime: the instant on the wall clock; else zero
	stop   func() bool   // unbinds the timer from its context or channel; nil without one. It is called once
}

// untilReturn is the deadline of a FixedDelay timer while its callback runs. No deadline that is
// asked for is that late.
const untilReturn = maxTick + 1

func newRepeat(now, period time.Duration, mode Repeat) *extra {
	if period <= 0 {
		return nil
	}
	return &extra{mode: mode, period: period, next: add(now, period)}
}

func (x *extra) reset(now, period time.Duration) {
	if period <= 0 {
		x.mode = 0
	}
	x.period, x.next, x.at = period, add(now, period), time.Time{}
}

// following returns and records the deadline after one that has expired, if there is one.
func (x *extra) following(s scale, expired, now tick) (next tick, again bool) {
	switch x.mode {
	case FixedRate:
		phase := x.next
		if s.ceil(phase) != expired { // it was touched
			phase = s.instant(expired)
		}
		behind := max(s.instant(now)-phase, 0)
		x.next = add(phase, add(behind-behind%x.period, x.period))
		next = s.ceil(x.next)
		return next, next <= maxTick
	case FixedDelay:
		return untilReturn, s.ceil(add(s.instant(now), x.period)) <= maxTick
	default:
		return 0, false
	}
}

// extraLocked returns the extra of a timer, or nil. Where no timer has one, it costs no access to
// the slot.
func (s *shard) extraLocked(m *dualmap.Map, r ref) *extra {
	if len(s.extras) == 0 || m.Param(r.slot())&paramExtra == 0 {
		return nil
	}
	return s.extras[r]
}

func (s *shard) setExtraLocked(m *dualmap.Map, r ref, x *extra) {
	if s.extras == nil {
		s.extras = make(map[ref]*extra)
	}
	s.extras[r] = x
	m.SetParam(r.slot(), m.Param(r.slot())|paramExtra)
}

// resume is called when a callback has returned. It puts repeating timers that were not cancelled
// back into the heap, and releases the slots that were kept.
func (s *shard) resume(g *Group, returned *claimed, now time.Duration) {
	s.mu.Lock()
	defer s.unlock()
	m := g.maps[s.index]
	for _, slot := range returned.kept {
		m.Release(slot)
	}
	if s.closed {
		return
	}
	for _, o := range returned.repeating {
		r := newRef(g.index, o.Slot)
		deadline, ok := m.Load(o)
		if ok && deadline == untilReturn {
			next := min(s.engine.scale.ceil(add(now, s.extras[r].period)), maxTick)
			m.CompareAndSwap(o, deadline, next)
			deadline, ok = m.Load(o) // that, or what it was touched to
		}
		if !ok {
			s.freeBatchedLocked(m, r) // cancelled
			continue
		}
		s.inBatch--
		s.hintLocked(m, r, deadline)
	}
}
