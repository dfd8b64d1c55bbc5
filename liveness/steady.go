package liveness

import (
	"sync/atomic"
	"time"
)

// steady is a clock that is never set back, not even by a restart: the wall clock's time, ns, for as long as nobody sets that. What is compared
// is stamped with it: when devices changed, and what of that belongs together.
type steady struct {
	origin time.Time
	base   atomic.Int64 // its reading at origin
}

func newSteady() *steady {
	s := &steady{origin: time.Now()}
	s.base.Store(max(s.origin.UnixNano(), 0))
	return s
}

func (s *steady) now() int64 { return s.base.Load() + int64(time.Since(s.origin)) }

// restored takes an instant from before a restart, which is not in the future. One beyond all reason is taken for the present.
func (s *steady) restored(at int64) int64 {
	now := s.now()
	switch {
	case at <= now:
		return max(at, 0)
	case at-now > int64(maxSpan):
		return now
	}
	least := at - int64(time.Since(s.origin))
	for {
		if base := s.base.Load(); base >= least || s.base.CompareAndSwap(base, least) {
			return at
		}
	}
}

// settable is by how much the clocks may differ as nobody has set the wall clock.
const settable = time.Second

// wall returns what the wall clock, as it is set now, read at an instant.
func (s *steady) wall(at int64) time.Time {
	shift := time.Now().UnixNano() - s.now()
	if time.Duration(shift).Abs() < settable {
		shift = 0
	}
	return time.Unix(0, at+shift)
}
