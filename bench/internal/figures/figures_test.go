package figures_test

import (
	"slices"
	"testing"

	"github.com/holter-iot/holter/bench/internal/figures"
)

func TestSpread(t *testing.T) {
	tests := []struct{ name, got, want string }{
		{"odd", figures.Spread("%.1f", []float64{3, 1, 2}), "2.0 (1.0–3.0)"},
		{"even", figures.Spread("%d", []int{7, 1, 3, 4}), "3 (1–7)"},
		{"equal", figures.Spread("%.0f", []float64{3, 3}), "3"},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("%s: Spread = %s, want %s", tt.name, tt.got, tt.want)
		}
	}
}

func TestRatios(t *testing.T) {
	if got, want := figures.Ratios([]float64{1, 4}, []float64{2, 2, 2}), []float64{0.5, 2}; !slices.Equal(got, want) {
		t.Errorf("Ratios = %v, want %v", got, want)
	}
}

func TestGrouped(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1_002_003: "1,002,003", -123: "-123", -123_456: "-123,456"} {
		if got := figures.Grouped(n); got != want {
			t.Errorf("Grouped(%d) = %s, want %s", n, got, want)
		}
	}
}
