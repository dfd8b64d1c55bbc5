package learn

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestLearner checks when what was learned takes effect.
func TestLearner(t *testing.T) {
	p := &peers{budget: 1}
	l := p.detector(10*time.Minute, rand.New(rand.NewPCG(1, 2)))
	now, lowest, falls := time.Duration(0), 10*time.Minute, []time.Duration(nil)
	beat := func(gap time.Duration) {
		now += gap
		l.heard(now, gap)
	}
	for range 10 * 1440 {
		beat(time.Minute)
		if d := l.deadline(); d < lowest {
			if float64(d)*slowest < 0.999*float64(lowest) || float64(d) > (1-fall)*1.001*float64(lowest) {
				t.Errorf("the deadline fell from %v to %v", lowest, d)
			}
			lowest, falls = d, append(falls, now)
		}
	}
	if lowest > 90*time.Second || len(falls) < 4 {
		t.Errorf("the deadline after ten days is %v and fell at %v, want little more than a minute in some days", lowest, falls)
	}
	for i := 1; i < len(falls); i++ {
		if falls[i]-falls[i-1] < day {
			t.Errorf("the deadline fell at %v and %v", falls[i-1], falls[i])
		}
	}
	beat(2 * time.Minute)
	if got := l.deadline(); got < 2*time.Minute {
		t.Errorf("the deadline after a gap of two minutes is %v", got)
	}
}

func TestCeiling(t *testing.T) {
	l := (&peers{budget: 1}).detector(time.Minute, rand.New(rand.NewPCG(1, 2)))
	for range 20 {
		l.heard(0, 23*time.Hour)
	}
	if got := l.deadline(); (got - day).Abs() > time.Minute {
		t.Errorf("the deadline is %v, want %v", got, day)
	}
}
