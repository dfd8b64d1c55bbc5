package timer

import (
	"math"
	"testing"
	"time"

	"github.com/holter-iot/holter/dualmap"
)

func TestIDParts(t *testing.T) {
	for _, tt := range []struct {
		name       string
		shard      int
		group      uint8
		slot       uint32
		generation uint32
	}{
		{"least", 0, 0, 0, 1},
		{"greatest", maxShards - 1, maxGroups - 1, 1<<slotBits - 1, dualmap.MaxGeneration},
		{"shard", 5, 0, 0, 1},
		{"group", 0, 5, 0, 1},
		{"slot", 0, 0, 5, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := dualmap.Original{Slot: tt.slot, Generation: tt.generation}
			id := newID(tt.shard, tt.group, o)
			if id.shard() != tt.shard || id.ref().group() != tt.group || id.ref().slot() != tt.slot || id.original() != o {
				t.Errorf("%x is taken apart to %d, %d, %v", uint64(id), id.shard(), id.ref().group(), id.original())
			}
		})
	}
}

func TestCeil(t *testing.T) {
	for _, tt := range []struct {
		name string
		at   time.Duration
		want tick
	}{
		{"least", math.MinInt64, 1},
		{"negative", -1, 1},
		{"origin", 0, 1},
		{"one", 1, 1},
		{"a tick", Resolution, 1},
		{"more than a tick", Resolution + 1, 2},
		{"two ticks", 2 * Resolution, 2},
		{"last", MaxDeadline, maxTick},
		{"beyond", MaxDeadline + 1, maxTick + 1},
		{"greatest", math.MaxInt64, 1 << 46},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := coarsest.ceil(tt.at)
			if got != tt.want {
				t.Fatalf("ceil(%d) = %d, want %d", tt.at, got, tt.want)
			}
			if got < 1<<46 && coarsest.instant(got) < tt.at {
				t.Errorf("tick %d lies before %d", got, tt.at)
			}
		})
	}
}

func TestFloor(t *testing.T) {
	for at, want := range map[time.Duration]tick{
		math.MinInt64: 0, -1: 0, 0: 0, Resolution - 1: 0, Resolution: 1, 2*Resolution - 1: 1, math.MaxInt64: 1<<46 - 1,
	} {
		if got := coarsest.floor(at); got != want {
			t.Errorf("floor(%d) = %d, want %d", at, got, want)
		}
	}
}

// At each scale a tick is the first at or after its instants, and the edges of the range are where
// they should be.
func TestScales(t *testing.T) {
	for s := range coarsest + 1 {
		unit := time.Duration(1) << s
		last := maxTick * unit
		var one uint64 // a nanosecond in ticks, if it is a multiple
		if unit == 1 {
			one = 1
		}
		for _, tt := range []struct {
			at          time.Duration
			floor, ceil tick
		}{
			{math.MinInt64, 0, 1},
			{-1, 0, 1},
			{0, 0, 1},
			{1, one, 1},
			{unit, 1, 1},
			{unit + 1, 1 + one, 2},
			{2*unit - 1, 1, 2 - one},
			{last - unit, maxTick - 1, maxTick - 1},
			{last - 1, maxTick - 1, maxTick - one},
			{last, maxTick, maxTick},
			{last + 1, maxTick + one, maxTick + 1},
			{math.MaxInt64, math.MaxInt64 >> s, 1<<(63-s) - one},
		} {
			if floor, ceil := s.floor(tt.at), s.ceil(tt.at); floor != tt.floor || ceil != tt.ceil {
				t.Errorf("scale %d: floor and ceil of %d = %d, %d, want %d, %d", s, tt.at, floor, ceil, tt.floor, tt.ceil)
			}
		}
		if at := s.instant(maxTick); at != last || at <= 0 {
			t.Errorf("scale %d: the last tick is at %d, want %d", s, at, last)
		}
		if at := s.instant(untilReturn); at <= last {
			t.Errorf("scale %d: untilReturn is at %d, want after %d", s, at, last)
		}
	}
}

func TestAdd(t *testing.T) {
	for _, tt := range []struct{ now, d, want time.Duration }{
		{1, 2, 3},
		{5, -7, -2},
		{math.MaxInt64, 0, math.MaxInt64},
		{math.MaxInt64, 1, math.MaxInt64},
		{1, math.MaxInt64, math.MaxInt64},
		{-1, math.MaxInt64, math.MaxInt64 - 1},
		{0, math.MinInt64, math.MinInt64},
		{-1, math.MinInt64, math.MinInt64},
		{math.MaxInt64, math.MinInt64, -1},
	} {
		if got := add(tt.now, tt.d); got != tt.want {
			t.Errorf("add(%d, %d) = %d, want %d", tt.now, tt.d, got, tt.want)
		}
	}
}

// A packed period is never shorter than the period, longer by less than its unit, and leaves the
// extra bit alone.
func TestPackPeriod(t *testing.T) {
	for s := range coarsest + 1 {
		fine := time.Duration(1) << s
		fineMax := paramMask * fine
		for _, period := range []time.Duration{
			1, fine, fine + 1, time.Second, 30 * time.Second, fineMax - 1, fineMax, fineMax + 1, fineMax + fine, 2 * fineMax, maxTick * fine,
		} {
			unit := fine
			if period > fineMax {
				unit <<= coarseBits
			}
			param := s.packPeriod(period)
			if param&paramExtra != 0 {
				t.Errorf("scale %d: packPeriod(%v) sets the extra bit", s, period)
			}
			got := unpackPeriod(param | paramExtra)
			want := (uint64(period) + uint64(unit) - 1) / uint64(unit) * uint64(unit>>s)
			if got != want {
				t.Errorf("scale %d: period %v is kept as %d ticks, want %d", s, period, got, want)
			}
		}
		for _, period := range []time.Duration{0, -1, math.MinInt64} {
			if param := s.packPeriod(period); param != 0 {
				t.Errorf("scale %d: packPeriod(%v) = %x, want 0", s, period, param)
			}
		}
		if got := unpackPeriod(s.packPeriod(math.MaxInt64)); got <= maxTick {
			t.Errorf("scale %d: the longest period is kept as %d ticks, want more than any deadline", s, got)
		}
	}
}

func TestLatenessBucket(t *testing.T) {
	for d, want := range map[time.Duration]int{
		-1: 0, 0: 0, time.Microsecond - 1: 0, time.Microsecond: 1, 2 * time.Microsecond: 2, 3 * time.Microsecond: 2,
		time.Millisecond: 10, time.Hour: latenessBuckets - 1, math.MaxInt64: latenessBuckets - 1,
	} {
		if got := latenessBucket(d); got != want {
			t.Errorf("latenessBucket(%v) = %d, want %d", d, got, want)
		}
	}
}

func TestQuantile(t *testing.T) {
	var none Lateness
	if got := none.Quantile(0.5); got != 0 {
		t.Errorf("Quantile of nothing = %v, want 0", got)
	}
	l := Lateness{1: 50, 5: 49, 10: 1}
	for q, want := range map[float64]time.Duration{
		0: 2 * time.Microsecond, 0.5: 2 * time.Microsecond, 0.51: 32 * time.Microsecond, 0.99: 32 * time.Microsecond,
		1: 1024 * time.Microsecond,
	} {
		if got := l.Quantile(q); got != want {
			t.Errorf("Quantile(%v) = %v, want %v", q, got, want)
		}
	}
}
