package habit

import (
	"math"
	"time"
)

// Habit is what is learned of one device. The zero Habit knows nothing.
type Habit struct {
	median uint16 // of its gaps, see code; 0 if there was none
	learn  uint16 // the deadline in force, see code; 0 for none
	high   uint8  // of the longest gap of late, see longest
	count  uint8  // of gaps, see countOf
	limit  uint8  // from which gaps are recorded, in quarter octaves of a millisecond; 0 for none
	flags  uint8  // and the rest of the longest gap of late
}

const (
	odd   = 1 // of flags: the gap before was too long to be a habit
	skips = 2 // of flags, see Habit.Skips

	perOctave = 2048 // a code has that many steps
	perLimit  = 4
	month     = 30 * 24 * time.Hour
)

const (
	// Least is how many gaps are needed for a deadline.
	Least = 8
	// Sure is how many gaps are needed until a device is compared with those of its own class only.
	Sure = 200
	// settling is for how many gaps the median moves fast.
	settling = 20
)

// code returns a duration as a logarithm, for 1 ms to 49 days. It is never 0.
func code(d time.Duration) uint16 {
	ms := max(float64(d)/float64(time.Millisecond), 1)
	return uint16(min(math.Round(math.Log2(ms)*perOctave)+1, math.MaxUint16))
}

// duration is the reverse of code, and 0 of 0.
func duration(c uint16) time.Duration {
	if c == 0 {
		return 0
	}
	return time.Duration(math.Exp2(float64(c-1)/perOctave) * float64(time.Millisecond))
}

// Round returns the nearest duration that a Habit can hold, 1 ms to 49 days.
func Round(d time.Duration) time.Duration { return duration(code(d)) }

// Add learns a gap between two heartbeats, and adds it to the shape of the device's group. A gap beyond
// twice the deadline that fits, or fallback while too little is known, is an outage and no habit, unless
// it is the second in a row: that is a new rhythm. budget is that of [Habit.Deadline]. random is any
// random number. Add reports whether the gap was learned.
func (h *Habit) Add(gap, fallback time.Duration, budget float64, s *Shape, random uint32) bool {
	c := code(gap)
	switch outage := h.outage(gap, fallback, budget, s); {
	case !outage:
		h.flags &^= odd
	case h.flags&odd == 0:
		h.flags |= odd
		return false
	default: // the scale is new; what the device is known for stays: its longest gap as a multiple of the others
		h.setPeak((int(c) + max(h.longest()-int(h.median), 0)) / perStep)
	}
	h.follow(c)
	h.countUp(random)
	h.fade(random)
	h.setPeak(max(h.peak(), int(max(c, h.median))/perStep+1))
	if h.count > settling/2 {
		s.add(int(c)-int(h.median), h.class())
	}
	return true
}

// twiceOwn is twice ownShare as a difference of codes.
const twiceOwn = 2460

// outage reports whether a gap is longer than twice the deadline that fits.
func (h *Habit) outage(gap, fallback time.Duration, budget float64, s *Shape) bool {
	switch {
	case h.count == 0: // there is nothing to compare with
		return false
	case h.count < Least:
		return gap > 2*max(fallback, h.Interval())
	case int(code(gap)) <= h.longest()+twiceOwn: // it is within twice any deadline
		return false
	}
	deadline, _ := h.Deadline(s, budget)
	return gap > 2*deadline
}

// The longest gap of late is kept in steps of 1/256 octave: 13 bits, the lowest 5 of them in flags. It is
// kept as it is, not as a multiple of the median, which wanders in devices that are busy by day only.
const (
	stepsPerOctave = 256
	perStep        = perOctave / stepsPerOctave
	lowBits        = 5
)

func (h *Habit) peak() int { return int(h.high)<<lowBits | int(h.flags>>(8-lowBits)) }

func (h *Habit) setPeak(steps int) {
	steps = min(steps, math.MaxUint16/perStep)
	h.high = uint8(steps >> lowBits)
	h.flags = h.flags&(odd|skips) | uint8(steps<<(8-lowBits))
}

// longest returns the longest gap of late as a code, rounded up.
func (h *Habit) longest() int { return h.peak() * perStep }

// follow moves the median towards a gap: by 2 %, and by 30 % at first.
func (h *Habit) follow(c uint16) {
	const fast, slow = 775, 59 // 30 % and 2 % in codes
	step := uint16(slow)
	if h.count < settling {
		step = fast
	}
	switch {
	case h.median == 0:
		h.median = c
	case c > h.median:
		h.median += min(step, c-h.median)
	default:
		h.median -= min(step, h.median-c)
	}
}

// Up to Sure gaps are counted one by one. From there on each step of the count stands for a fifth more,
// and is taken at random as often as that needs (Morris, "Counting large numbers of events in small
// registers", Communications of the ACM 21, 1978).
const countGrowth = 1.2

func countOf(c uint8) float64 {
	if c <= Sure {
		return float64(c)
	}
	return Sure * math.Pow(countGrowth, float64(c)-Sure)
}

func (h *Habit) countUp(random uint32) {
	switch {
	case h.count < Sure:
		h.count++
	case h.count < math.MaxUint8 && float64(random)*(countGrowth-1)*countOf(h.count) < math.MaxUint32:
		h.count++
	}
}

// fade makes the longest gap of late shorter by a step, at random, so that it is half as long after four
// weeks, or after 1,000 gaps if that is later.
func (h *Habit) fade(random uint32) {
	const half = 28 * 24 * time.Hour
	const most = stepsPerOctave / 1000.0
	share := float64(random>>8) / (1 << 24)
	if share < most && share < stepsPerOctave*float64(h.Interval())/float64(half) {
		h.setPeak(max(h.peak()-1, 0))
	}
}

// Interval returns the median of the gaps, 0 if there was none.
func (h Habit) Interval() time.Duration { return duration(h.median) }

// Longest returns the longest gap of late, to within 1 %.
func (h Habit) Longest() time.Duration { return duration(uint16(h.longest())) }

// Gaps returns how many gaps were learned; beyond [Sure] about how many.
func (h Habit) Gaps() int { return int(countOf(h.count)) }

// InForce returns the deadline that is in force because it was learned, 0 for none.
func (h Habit) InForce() time.Duration { return duration(h.learn) }

// SetInForce sets what InForce returns, rounded as by [Round]; 0 for none.
func (h *Habit) SetInForce(d time.Duration) {
	if h.learn = 0; d > 0 {
		h.learn = code(d)
	}
}

// Limit returns the silence from which gaps are recorded, 0 if that was never set.
func (h Habit) Limit() time.Duration {
	if h.limit == 0 {
		return 0
	}
	return time.Duration(math.Exp2(float64(h.limit)/perLimit) * float64(time.Millisecond))
}

// SetLimit sets what Limit returns, to a little less than d but no less than least, and reports whether
// that changed. A limit that is nearly right stays as it is.
func (h *Habit) SetLimit(d, least time.Duration) bool {
	l := limitCode(least, math.Ceil)
	c := max(limitCode(d, math.Floor), l)
	if h.limit == c || h.limit >= l && h.limit+1 == c || c == l && h.limit == c+1 {
		return false
	}
	h.limit = c
	return true
}

// limitCode returns a duration in quarter octaves of a millisecond. It is never 0.
func limitCode(d time.Duration, round func(float64) float64) uint8 {
	steps := round(math.Log2(max(float64(d)/float64(time.Millisecond), 2)) * perLimit)
	return uint8(min(steps, math.MaxUint8-1))
}

// Skips reports whether the next gap that a snapshot finds is not to be learned, since it was recorded or is
// measured wrongly. SetSkips sets it; the Habit itself does not use it.
func (h Habit) Skips() bool { return h.flags&skips != 0 }

// SetSkips sets what Skips returns.
func (h *Habit) SetSkips(on bool) {
	if h.flags &^= skips; on {
		h.flags |= skips
	}
}

// Uint64 returns the habit as a number, to be kept.
func (h Habit) Uint64() uint64 {
	return uint64(h.median) | uint64(h.learn)<<16 | uint64(h.high)<<32 | uint64(h.count)<<40 | uint64(h.limit)<<48 | uint64(h.flags)<<56
}

// FromUint64 is the reverse of [Habit.Uint64]. It accepts any number.
func FromUint64(n uint64) Habit {
	return Habit{
		median: uint16(n), learn: uint16(n >> 16), high: uint8(n >> 32), count: uint8(n >> 40), limit: uint8(n >> 48),
		flags: uint8(n>>56) &^ skips,
	}
}
