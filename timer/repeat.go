package timer

import (
	"context"
	"time"

	"github.com/holter-iot/holter/dualmap"
)

// Repeat says how a repeating timer goes on.
type Repeat uint8

const (
	// FixedRate expires at start + n × period, without drift. Periods that passed while the callback ran late are skipped.
	FixedRate Repeat = iota + 1
	// FixedDelay expires one period after the callback returned.
	FixedDelay
)

// extra is what only few timers need.
type extra struct {
	mode   Repeat        // 0: once
	period time.Duration // exact, where the slot's is rounded
	next   time.Duration // FixedRate: the exact instant behind the slot's deadline
	stop   func() bool   // ends the tie to a context; nil without one
}

func (x *extra) repeats() bool { return x.mode != 0 }

// following returns the deadline after one that has expired.
func (x *extra) following(expired, now tick) time.Duration {
	if x.mode == FixedDelay {
		return instant(maxTick) // until the callback has returned
	}
	phase := x.next
	if tickCeil(phase) != expired { // it was touched
		phase = instant(expired)
	}
	behind := max(instant(now)-phase, 0)
	return add(phase, add(behind-behind%x.period, x.period))
}

func (s *shard) setExtraLocked(m *dualmap.Map, r ref, x *extra) {
	if s.extras == nil {
		s.extras = make(map[ref]*extra)
	}
	s.extras[r] = x
	m.SetParam(r.slot(), m.Param(r.slot())|paramExtra)
}

// resume puts a repeating timer whose callback has returned back into the heap, unless it was cancelled.
func (s *shard) resume(id ID, now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, o := id.ref(), id.original()
	if s.closed {
		return
	}
	m := s.mapLocked(r)
	for {
		deadline, ok := m.Load(o)
		if !ok {
			return
		}
		if x := s.extras[r]; x.mode == FixedDelay && deadline == maxTick {
			next := min(tickCeil(add(now, x.period)), maxTick-1)
			if !m.CompareAndSwap(o, deadline, next) {
				continue
			}
			deadline = next
		}
		s.inBatch--
		s.hintLocked(m, r, deadline)
		return
	}
}

// Bind cancels a timer when ctx is done, and says whether the timer was armed. The tie ends with the timer. A timer is bound to
// at most one context, the last one.
func (e *Engine) Bind(ctx context.Context, id ID) bool {
	if _, ok := e.load(id); !ok {
		return false
	}
	s := e.shards[id.shard()]
	stop := context.AfterFunc(ctx, func() { e.Cancel(id) })
	before, ok := s.bind(id, stop)
	if before != nil {
		before()
	}
	if !ok {
		stop()
	}
	return ok
}

// bind notes how to end a timer's tie to a context, and returns how to end the one before.
func (s *shard) bind(id ID, stop func() bool) (before func() bool, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := id.ref()
	if s.closed {
		return nil, false
	}
	m := s.mapLocked(r)
	if _, ok := m.Load(id.original()); !ok {
		return nil, false
	}
	x := s.extras[r]
	if m.Param(r.slot())&paramExtra == 0 {
		x = &extra{}
		s.setExtraLocked(m, r, x)
	}
	before, x.stop = x.stop, stop
	return before, true
}
