package habit_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/habit"
)

// teach lets a device beat n times, with gaps that next returns, and returns its habit.
func teach(h habit.Habit, s *habit.Shape, n int, next func(r *rand.Rand) time.Duration) habit.Habit {
	r := rand.New(rand.NewPCG(1, 2))
	for range n {
		h.Add(next(r), 3*time.Minute, 1, s, r.Uint32())
	}
	return h
}

func around(d, jitter time.Duration) func(*rand.Rand) time.Duration {
	return func(r *rand.Rand) time.Duration { return d + time.Duration(r.NormFloat64()*float64(jitter)) }
}

func TestInterval(t *testing.T) {
	for _, want := range []time.Duration{time.Second, 30 * time.Second, time.Minute, 15 * time.Minute, 24 * time.Hour} {
		h := teach(habit.Habit{}, new(habit.Shape), 1000, around(want, want/60))
		if got := h.Interval(); math.Abs(float64(got-want)) > 0.02*float64(want) {
			t.Errorf("Interval after 1,000 gaps of %v = %v", want, got)
		}
		if got := h.Longest(); got < want || got > want*6/5 {
			t.Errorf("Longest after 1,000 gaps of %v = %v", want, got)
		}
		if n := h.Gaps(); n < 600 || n > 1600 {
			t.Errorf("Gaps = %d, want about 1,000", n)
		}
	}
}

func TestFewGaps(t *testing.T) {
	s := new(habit.Shape)
	h := teach(habit.Habit{}, s, habit.Least-1, around(time.Minute, time.Second))
	if d, ok := h.Deadline(s, 1); ok {
		t.Errorf("Deadline after %d gaps = %v, want none", habit.Least-1, d)
	}
	h = teach(h, s, 1, around(time.Minute, time.Second))
	if d, ok := h.Deadline(s, 1); !ok || d < time.Minute || d > 3*time.Minute {
		t.Errorf("Deadline after %d gaps = %v, %v; want one to three minutes", habit.Least, d, ok)
	}
}

func TestOutageIsNoHabit(t *testing.T) {
	s := new(habit.Shape)
	h := teach(habit.Habit{}, s, 5000, around(time.Minute, time.Second))
	before, _ := h.Deadline(s, 1)
	for range 20 {
		if h.Add(5*time.Hour, 0, 1, s, 1) {
			t.Fatal("an outage was learned")
		}
		h.Add(time.Minute, 0, 1, s, 1)
	}
	if after, _ := h.Deadline(s, 1); after > before*51/50 {
		t.Errorf("Deadline after outages = %v, before %v", after, before)
	}
}

func TestNewRhythm(t *testing.T) {
	s := new(habit.Shape)
	h := teach(habit.Habit{}, s, 5000, around(time.Minute, time.Second))
	early, _ := h.Deadline(s, 1)
	h = teach(h, s, 200, around(5*time.Minute, time.Second))
	slow, _ := h.Deadline(s, 1)
	if h.Interval() < 4*time.Minute || slow < 5*time.Minute {
		t.Errorf("after 200 gaps of 5 min: Interval %v, Deadline %v", h.Interval(), slow)
	}
	h = teach(h, s, 5000, around(time.Minute, time.Second))
	if late, _ := h.Deadline(s, 1); h.Interval() > 61*time.Second || late > 10*early {
		t.Errorf("after 5,000 gaps of 1 min again: Interval %v, Deadline %v", h.Interval(), late)
	}
}

// The second gap of a new rhythm is learned, and with it that the device loses single heartbeats.
func TestNewRhythmKeepsShape(t *testing.T) {
	s := new(habit.Shape)
	h := teach(habit.Habit{}, s, 5000, around(time.Minute, time.Second))
	for range 3 {
		h.Add(2*time.Minute, 0, 1, s, math.MaxUint32)
		h.Add(time.Minute, 0, 1, s, math.MaxUint32)
	}
	if h.Add(10*time.Minute, 0, 1, s, math.MaxUint32) {
		t.Error("the first gap of a new rhythm was learned")
	}
	if !h.Add(10*time.Minute, 0, 1, s, math.MaxUint32) {
		t.Error("the second gap of a new rhythm was not learned")
	}
	if d, _ := h.Deadline(s, 1); d < 20*time.Minute || d > 30*time.Minute {
		t.Errorf("Deadline at the beginning of a rhythm of 10 min = %v, want 20 to 30 min", d)
	}
}

// The longest gap stays what it is while the usual one changes.
func TestLongestStays(t *testing.T) {
	s := new(habit.Shape)
	h := teach(habit.Habit{}, s, 1000, around(time.Minute, time.Second))
	for range 3 {
		h.Add(3*time.Minute, 0, 1, s, math.MaxUint32)
	}
	before := h.Longest()
	for range 100 {
		h.Add(2*time.Minute, 0, 1, s, math.MaxUint32)
	}
	if after := h.Longest(); after != before || before < 3*time.Minute || before > 200*time.Second || h.Interval() < 119*time.Second {
		t.Errorf("Longest = %v with an interval of %v, before %v; want the same, a little more than 3 min", after, h.Interval(), before)
	}
}

// What others of a device's class do does not count where the device's own gaps say more.
func TestOwnGapsCount(t *testing.T) {
	s := new(habit.Shape)
	now := teach(habit.Habit{}, s, 100_000, func(r *rand.Rand) time.Duration { // 1 % lost
		return []time.Duration{time.Minute, 2 * time.Minute}[r.IntN(100)/99]
	})
	teach(habit.Habit{}, s, 100_000, func(r *rand.Rand) time.Duration { // 1 % three in a row lost
		return []time.Duration{time.Minute, 4 * time.Minute}[r.IntN(100)/99]
	})
	if d, _ := now.Deadline(s, 1); d > 145*time.Second {
		t.Errorf("Deadline = %v after 100,000 gaps up to 2 min, want no more than 145 s", d)
	}
}

// A lossy device raises the deadlines of its class only.
func TestClasses(t *testing.T) {
	s := new(habit.Shape)
	lossy := func(r *rand.Rand) time.Duration {
		gap := time.Minute
		for r.Float64() < 0.3 {
			gap += time.Minute
		}
		return gap
	}
	good := teach(habit.Habit{}, s, 20_000, around(time.Minute, time.Second))
	bad := teach(habit.Habit{}, s, 20_000, lossy)
	a, _ := good.Deadline(s, 1)
	b, _ := bad.Deadline(s, 1)
	if a > 2*time.Minute || b < 8*time.Minute {
		t.Errorf("deadlines %v of one that is regular, %v of one that loses 30 %%", a, b)
	}
	if basis, _ := good.Explain(s, 1); !basis.Alike || basis.PeerGaps == 0 {
		t.Errorf("Explain = %+v, want a comparison with devices of its class", basis)
	}
}

// A greater budget never makes a deadline longer.
func TestBudget(t *testing.T) {
	s := new(habit.Shape)
	h := teach(habit.Habit{}, s, 50_000, func(r *rand.Rand) time.Duration {
		return time.Duration(30e9 * math.Exp(0.8*r.NormFloat64()))
	})
	before := time.Duration(math.MaxInt64)
	for _, budget := range []float64{0.001, 0.3, 1, 3, 30, 1000, 1e6} {
		d, ok := h.Deadline(s, budget)
		if !ok || d > before || d < h.Longest() {
			t.Errorf("Deadline at budget %v = %v, %v; with less budget %v; longest gap %v", budget, d, ok, before, h.Longest())
		}
		before = d
	}
}

func TestInForce(t *testing.T) {
	var h habit.Habit
	for _, d := range []time.Duration{0, time.Millisecond, time.Second, 141 * time.Second, 24 * time.Hour, 30 * 24 * time.Hour} {
		want := time.Duration(0)
		if d > 0 {
			want = habit.Round(d)
		}
		if h.SetInForce(d); h.InForce() != want || math.Abs(float64(want-d)) > 0.0003*float64(d) {
			t.Errorf("InForce of %v = %v", d, h.InForce())
		}
		if again := habit.Round(h.InForce()); d > 0 && again != h.InForce() {
			t.Errorf("Round(%v) = %v, want the same", h.InForce(), again)
		}
	}
}

func TestLimit(t *testing.T) {
	var h habit.Habit
	if !h.SetLimit(time.Minute, 0) || h.Limit() > time.Minute || h.Limit() < 48*time.Second {
		t.Errorf("Limit = %v, want a little less than a minute", h.Limit())
	}
	if h.SetLimit(h.Limit()*11/10, 0) || h.SetLimit(h.Limit()*21/20, 0) {
		t.Error("a limit that is nearly right has changed")
	}
	if !h.SetLimit(time.Minute, 70*time.Second) || h.Limit() < 70*time.Second || h.Limit() > 84*time.Second {
		t.Errorf("Limit = %v, want a little more than 70 seconds", h.Limit())
	}
	if h.SetLimit(time.Minute, h.Limit()*9/10) || h.SetLimit(time.Minute, h.Limit()*8/10) {
		t.Error("a limit that is nearly the least has changed")
	}
	for _, d := range []time.Duration{-1, 0, 1, math.MaxInt64} {
		h.SetLimit(d, 0)
		h.SetLimit(0, d)
	}
}

func FuzzHabit(f *testing.F) {
	f.Add(uint64(0), int64(time.Minute), uint32(7), 1.0)
	f.Add(uint64(math.MaxUint64), int64(math.MaxInt64), uint32(math.MaxUint32), math.Inf(1))
	f.Fuzz(func(t *testing.T, n uint64, gap int64, random uint32, budget float64) {
		h, s := habit.FromUint64(n), new(habit.Shape)
		for i := range 20 {
			h.Add(time.Duration(gap)>>i, time.Minute, budget, s, random)
		}
		if d, ok := h.Deadline(s, budget); ok && d < h.Longest() {
			t.Errorf("Deadline = %v, longest %v", d, h.Longest())
		}
		if again := habit.FromUint64(h.Uint64()); again.Uint64() != h.Uint64() {
			t.Errorf("FromUint64(%x).Uint64() = %x", h.Uint64(), again.Uint64())
		}
		parsed, err := habit.ParseShape(s.Append(nil))
		if err != nil || *parsed != *s {
			t.Errorf("ParseShape(Append) differs: %v", err)
		}
	})
}

func FuzzParseShape(f *testing.F) {
	f.Add([]byte{})
	f.Add(new(habit.Shape).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := habit.ParseShape(b); err == nil && len(s.Append(nil)) > len(b) {
			t.Errorf("%d bytes became %d", len(b), len(s.Append(nil)))
		}
	})
}

func BenchmarkAdd(b *testing.B) {
	s := new(habit.Shape)
	h := teach(habit.Habit{}, s, 1000, around(time.Minute, time.Second))
	r := rand.New(rand.NewPCG(3, 4))
	b.ReportAllocs()
	for b.Loop() {
		h.Add(time.Minute+time.Duration(r.Uint32N(1e9)), time.Minute, 1, s, r.Uint32())
	}
}
