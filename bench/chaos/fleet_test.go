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
