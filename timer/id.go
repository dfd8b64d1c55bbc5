package timer

import (
	"errors"
	"math"
	"time"

	"github.com/holter-iot/holter/dualmap"
)

// ID names a timer from its arming until it ends, and is never used again. The zero ID names none.
// It packs generation (22 bits), shard (10), group (8) and slot (24).
type ID uint64

const (
	shardBits = 10
	maxShards = 1 << shardBits
	maxGroups = 1 << 8
)

func newID(shard int, g uint8, o dualmap.Original) ID {
	return ID(o.Generation)<<(64-dualmap.GenerationBits) | ID(shard)<<32 | ID(newRef(g, o.Slot))
}

func (id ID) shard() int { return int(id>>32) & (maxShards - 1) }
func (id ID) ref() ref   { return ref(id) }

func (id ID) original() dualmap.Original {
	return dualmap.Original{Slot: id.ref().slot(), Generation: uint32(id >> (64 - dualmap.GenerationBits))}
}

// ref names a slot within a shard.
type ref uint32

func newRef(group uint8, slot uint32) ref { return ref(group)<<slotBits | ref(slot) }

func (r ref) group() uint8 { return uint8(r >> slotBits) }
func (r ref) slot() uint32 { return uint32(r & slotMask) }

// Resolution is the unit in which deadlines are kept, unless [Config.Precision] is another. A
// deadline is rounded up to a multiple of it.
const Resolution = time.Duration(1) << coarsest

// MaxDeadline is the last instant of a clock that a deadline can lie at, some 18 years after the
// clock's origin. With a [Config.Precision] it comes sooner, in proportion.
const MaxDeadline = time.Duration(maxTick) << coarsest

const maxTick = dualmap.MaxValue - 1

// ErrTooFar is returned when a deadline lies beyond [MaxDeadline].
var ErrTooFar = errors.New("timer: deadline lies beyond MaxDeadline")

// A tick is an instant in units of Resolution, or of the engine's precision. Tick 0 stands for no
// deadline, so the earliest deadline is tick 1.
type tick = uint64

// scale is the binary logarithm of a tick in nanoseconds, 0 to coarsest.
type scale uint8

// coarsest is the scale of Resolution.
const coarsest scale = 17

// floor returns the last tick at or before an instant.
func (s scale) floor(at time.Duration) tick { return uint64(max(at, 0)) >> (s & 63) }

// ceil returns the first tick at or after an instant, at least 1.
func (s scale) ceil(at time.Duration) tick {
	return (uint64(max(at, 1)) + (1<<(s&63) - 1)) >> (s & 63)
}

// instant returns when a tick is.
func (s scale) instant(t tick) time.Duration { return time.Duration(t << (s & 63)) }

// touchedAt returns the instant one period before a deadline.
func (s scale) touchedAt(deadline tick, param uint32) time.Duration {
	return s.instant(deadline - min(unpackPeriod(param), deadline))
}

// add returns the instant d after now, or the last or first instant there is.
func add(now, d time.Duration) time.Duration {
	switch {
	case d > 0 && now > math.MaxInt64-d:
		return math.MaxInt64
	case d < 0 && now < math.MinInt64-d:
		return math.MinInt64
	}
	return now + d
}

// A timer's parameter is its period in 30 bits of ticks, 0 if it has none; of coarse units when it
// exceeds that, a day and a half of Resolution. Both are rounded up. One bit says that the shard holds extras of the
// timer.
const (
	paramExtra  = 1 << 31
	paramCoarse = 1 << 30
	paramMask   = paramCoarse - 1
	coarseBits  = 14
)

func (s scale) packPeriod(period time.Duration) uint32 {
	if period <= 0 {
		return 0
	}
	t := s.ceil(period)
	if t <= paramMask {
		return uint32(t)
	}
	return paramCoarse | uint32(min((t+1<<coarseBits-1)>>coarseBits, paramMask))
}

func unpackPeriod(param uint32) tick {
	if param <= paramMask { // as that of most timers
		return tick(param)
	}
	t := tick(param & paramMask)
	if param&paramCoarse != 0 {
		t <<= coarseBits
	}
	return t
}
