package chaos

import (
	"slices"
	"testing"
	"time"

	"github.com/holter-iot/holter/loadgen/plan"
)

func TestStepsOf(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	steps := stepsOf([]plan.Truth{
		{Device: 1, Kind: plan.Close, At: at, Connected: true},
		{Device: 0, Kind: plan.Crash, At: at, Connected: true},
		{Device: 1, Kind: plan.Close, At: at, Connected: true, Back: at.Add(time.Second)}, // the same, told again
		{Device: 1, Kind: plan.Reset, At: at.Add(time.Minute)},                            // nothing was there to be reset
	}, 3)
	want := [][]plan.Kind{{plan.Silent}, {plan.Close, plan.Silent}, nil}
	for n := range steps {
		var kinds []plan.Kind
		for _, s := range steps[n] {
			kinds = append(kinds, s.Kind)
		}
		if !slices.Equal(kinds, want[n]) {
			t.Errorf("device %d did %v, want %v", n, kinds, want[n])
		}
	}
}

func TestPercentile(t *testing.T) {
	lags := []time.Duration{1, 2, 3, 4}
	for p, want := range map[int]time.Duration{0: 1, 25: 1, 50: 2, 51: 3, 99: 4, 100: 4} {
		if got := percentile(lags, p); got != want {
			t.Errorf("percentile(%v) = %v, want %v", p, got, want)
		}
	}
	if got := percentile(nil, 50); got != 0 {
		t.Errorf("percentile(50) of nothing = %v, want 0", got)
	}
}
