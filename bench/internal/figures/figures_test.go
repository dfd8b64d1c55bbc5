package figures_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/holter-iot/holter/bench/internal/figures"
)

func TestSpread(t *testing.T) {
	tests := []struct{ name, got, want string }{
		{"odd", figures.Spread(figures.Fixed(1), []float64{3, 1, 2}), "2.0 (1.0–3.0)"},
		{"even", figures.Spread(figures.Fixed(0), []float64{7, 1, 3, 4}), "4 (1–7)"},
		{"equal", figures.Spread(figures.Fixed(0), []float64{3, 3}), "3"},
		{"with a round that has none", figures.Spread(figures.Fixed(0), []float64{math.NaN(), 3}), "3"},
		{"none", figures.Spread(figures.Fixed(0), nil), "–"},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("%s: Spread = %s, want %s", tt.name, tt.got, tt.want)
		}
	}
}

func TestRatios(t *testing.T) {
	got := figures.Ratios([]float64{1, 4, 5}, []float64{2, 2, math.NaN(), 2})
	if want := []float64{0.5, 2}; !slices.Equal(got, want) {
		t.Errorf("Ratios = %v, want %v", got, want)
	}
}

func TestFormats(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1_002_003: "1,002,003", -123: "-123", -123_456: "-123,456"} {
		if got := figures.Grouped(n); got != want {
			t.Errorf("Grouped(%d) = %s, want %s", n, got, want)
		}
	}
	if got, want := figures.Fixed(2)(-1234.567), "-1,234.57"; got != want {
		t.Errorf("Fixed(2) = %s, want %s", got, want)
	}
	for x, want := range map[float64]string{
		0: "0", 0.00042: "0.0004", 0.05: "0.050", 1.234: "1.23", -5.2: "-5.20", 45.67: "45.7", 456.7: "457", 1234567: "1,234,567",
	} {
		if got := figures.Significant(x); got != want {
			t.Errorf("Significant(%v) = %s, want %s", x, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		250 * time.Microsecond: "0.25 ms", 12340 * time.Microsecond: "12.3 ms", 2500 * time.Millisecond: "2.50 s", 200 * time.Second: "200 s",
	} {
		if got := figures.Duration(d); got != want {
			t.Errorf("Duration(%v) = %s, want %s", d, got, want)
		}
	}
}

func TestTable(t *testing.T) {
	of := func(x float64) float64 { return x }
	best := figures.Col("best", 0, of)
	best.Best = func(row string) bool { return row != "barred" }
	got := figures.Table("who", []string{"a", "absent", "b", "barred"}, map[string][]float64{"a": {4, 6}, "b": {2, 2}, "barred": {1}},
		best, figures.Ratio("÷ b", of, "b"), figures.Percent("share", of),
		figures.Text("says", func(row string, rounds []float64) string { return row }))
	want := `| who | best | ÷ b | share | says |
|---|---:|---:|---:|---|
| a | 5 (4–6) | 2.50 (2.00–3.00) | 500 % | a |
| b | **2** | 1.00 | 200 % | b |
| barred | 1 | 0.50 | 100 % | barred |
`
	if got != want {
		t.Errorf("Table =\n%s\nwant\n%s", got, want)
	}
	if got := figures.Table("who", []string{"a"}, nil, best); got != "" {
		t.Errorf("Table without results = %q", got)
	}
}
