package learn

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func near(a, b time.Duration) bool { return (a - b).Abs() < time.Millisecond }

// TestSmoothed compares with RFC 6298, section 2, calculated by hand.
func TestSmoothed(t *testing.T) {
	s := &smoothed{policy: time.Minute}
	steps := []struct{ gap, want time.Duration }{
		{8 * time.Second, 24 * time.Second},  // 8 + 4·4
		{16 * time.Second, 29 * time.Second}, // the deviation is 3/4·4 + 8/4 = 5, the mean 8 + 8/8 = 9
		{9 * time.Second, 24 * time.Second},  // 9 + 4·3.75
	}
	if got := s.deadline(); got != time.Minute {
		t.Errorf("deadline without a gap = %v, want the policy", got)
	}
	for _, step := range steps {
		if s.heard(0, step.gap); !near(s.deadline(), step.want) {
			t.Errorf("deadline after %v = %v, want %v", step.gap, s.deadline(), step.want)
		}
	}
	for range 200 {
		s.heard(0, 9*time.Second)
	}
	if got := s.deadline(); !near(got, 10*time.Second) {
		t.Errorf("deadline of regular gaps = %v, want the granularity of a second added", got)
	}
}

func gaps(n int) []time.Duration {
	r, all := rand.New(rand.NewPCG(1, 2)), make([]time.Duration, 0, n)
	for range n {
		all = append(all, time.Duration(r.ExpFloat64()*float64(time.Minute)))
	}
	return all
}

// last returns the mean and the standard deviation of the last n gaps, in seconds.
func last(all []time.Duration, n int) (mean, deviation float64) {
	all = all[max(len(all)-n, 0):]
	for _, g := range all {
		mean += g.Seconds() / float64(len(all))
	}
	for _, g := range all {
		deviation += (g.Seconds() - mean) * (g.Seconds() - mean) / float64(len(all))
	}
	return mean, math.Sqrt(deviation)
}

// TestAccrual compares with φ as it is defined.
func TestAccrual(t *testing.T) {
	for _, pause := range []float64{0, 3} {
		a := &accrual{policy: time.Hour, pause: pause, gaps: newWindow(1000)}
		all := gaps(2500)
		for i, g := range all {
			if got := a.deadline(); i < few && got != time.Hour {
				t.Errorf("deadline after %d gaps = %v, want the policy", i, got)
			}
			if a.heard(0, g); (i+1)%500 != 0 {
				continue
			}
			mean, deviation := last(all[:i+1], 1000)
			later := math.Erfc((a.deadline().Seconds()-mean*(1+pause))/deviation/math.Sqrt2) / 2
			if phi := -math.Log10(later); math.Abs(phi-8) > 0.001 {
				t.Errorf("φ at the deadline after %d gaps = %v, want 8", i+1, phi)
			}
		}
	}
	a := &accrual{gaps: newWindow(10)}
	for range 10 {
		a.heard(0, 10*time.Second)
	}
	if got, want := a.deadline(), seconds(10+sigmas); !near(got, want) {
		t.Errorf("deadline of equal gaps of 10 s = %v, want %v by the least deviation", got, want)
	}
}

// TestExpected compares with the arrivals of regular heartbeats, and with a naive mean.
func TestExpected(t *testing.T) {
	e := &expected{policy: time.Hour, gaps: newWindow(100)}
	all := gaps(350)
	for i, g := range all {
		if got := e.deadline(); i < few && got != time.Hour {
			t.Errorf("deadline after %d gaps = %v, want the policy", i, got)
		}
		e.heard(0, g)
		mean, _ := last(all[:i+1], 100)
		if got := e.deadline(); i+1 >= few && !near(got, seconds(3*mean)) {
			t.Fatalf("deadline after %d gaps = %v, want %v", i+1, got, seconds(3*mean))
		}
	}
}
