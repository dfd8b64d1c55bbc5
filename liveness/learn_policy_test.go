package liveness_test

import (
	"math"
	"strings"
	"testing"

	"github.com/holter-iot/holter/liveness/judgement"
)

func TestParseLearnBudget(t *testing.T) {
	tests := []struct {
		text string
		want float64
		err  string
	}{
		{"1", 1, ""},
		{"1/month", 1, ""},
		{"3 / week", 12.857, ""},
		{"0.1/day", 3, ""},
		{"2/year", 0.1643, ""},
		{"1000", 1000, ""},
		{"0", 0, "turn it off"},
		{"-1/month", 0, "out of range"},
		{"10000/month", 0, "allowed are 0.001 to 1000"},
		{"NaN", 0, "out of range"},
		{"1/fortnight", 0, "write 1/month"},
		{"once", 0, "write 1/month"},
		{"", 0, "write 1/month"},
	}
	for _, tt := range tests {
		got, err := judgement.ParseLearnBudget(tt.text)
		if math.Abs(got-tt.want) > 0.001 || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("ParseLearnBudget(%q) = %v, %v; want %v, %q", tt.text, got, err, tt.want, tt.err)
		}
	}
}

func TestParseLearnMode(t *testing.T) {
	for m := judgement.LearnOff; m <= judgement.LearnApply; m++ {
		if got, err := judgement.ParseLearnMode(m.String()); got != m || err != nil {
			t.Errorf("ParseLearnMode(%q) = %v, %v", m, got, err)
		}
	}
	for _, text := range []string{"", "on", "invalid"} {
		if _, err := judgement.ParseLearnMode(text); err == nil {
			t.Errorf("ParseLearnMode(%q) fails not", text)
		}
	}
}
