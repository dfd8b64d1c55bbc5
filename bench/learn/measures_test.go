package learn

import (
	"math"
	"testing"
	"time"
)

// TestQuality calculates the measures of three gaps by hand.
func TestQuality(t *testing.T) {
	var a, b tally
	a.living(10*time.Second, 20*time.Second)
	a.living(30*time.Second, 20*time.Second) // suspected for 10 s
	b.living(60*time.Second, 40*time.Second) // suspected for 20 s
	a.out(time.Hour, 20*time.Second)
	a.out(time.Hour, 2*time.Hour)
	for after := range 100 { // deadlines 100, 99 … 1 s after a death
		b.dies(time.Duration(after)*time.Second, 100*time.Second)
	}
	a.add(&b)
	got := a.quality()
	want := quality{
		mistakes: 2.0 / 100 * 30 * 86400, mistake: 15, accuracy: 0.7, seen: 0.5,
		detect:   (15*10 + 10*20 + 20*40) / 100.0, // 20 to 10 s in the first gap, 20 to 0 and 40 to 0 in the others, then none
		detect99: 99, deadline: (10*20 + 30*20 + 60*40) / 100.0,
	}
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"λ_M", got.mistakes, want.mistakes},
		{"T_M", got.mistake, want.mistake},
		{"P_A", got.accuracy, want.accuracy},
		{"T_D", got.detect, want.detect},
		{"T_D p99", got.detect99, want.detect99},
		{"deadline", got.deadline, want.deadline},
		{"seen", got.seen, want.seen},
	} {
		if math.Abs(c.got-c.want) > 0.011*c.want {
			t.Errorf("%s = %v, want %v", c.name, c.got, c.want)
		}
	}
}

func TestNothingMeasured(t *testing.T) {
	if q := new(tally).quality(); !math.IsNaN(q.mistakes) || !math.IsNaN(q.detect99) || !math.IsNaN(q.seen) {
		t.Errorf("quality of nothing = %+v, want NaN", q)
	}
}

func TestBucket(t *testing.T) {
	for _, d := range []time.Duration{-time.Second, 0, time.Millisecond, time.Second, time.Hour, 25 * time.Hour, math.MaxInt64} {
		if b := bucket(d); b < 0 || b >= len(tally{}.deaths) || d <= time.Millisecond && b != 0 {
			t.Errorf("bucket(%v) = %d", d, b)
		}
	}
}
