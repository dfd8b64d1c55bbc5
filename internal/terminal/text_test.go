package terminal

import (
	"testing"
	"time"
)

func TestShort(t *testing.T) {
	tests := map[time.Duration]string{
		-time.Second: "0ms", 350 * time.Millisecond: "350ms", 1900 * time.Millisecond: "1s", 59 * time.Second: "59s", time.Minute: "1m",
		245 * time.Second: "4m5s", 3*time.Hour + 20*time.Minute + 5*time.Second: "3h20m", 24 * time.Hour: "1d", 292 * time.Hour: "12d4h",
	}
	for d, want := range tests {
		if got := Short(d); got != want {
			t.Errorf("short(%v) = %q, want %q", d, got, want)
		}
	}
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567"} {
		if got := Grouped(n); got != want {
			t.Errorf("grouped(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestFigure(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.01234: "0.0123", 7.25: "7.25", 99.96: "100", 100: "100", 15_234.6: "15,235", -1234: "-1,234"} {
		if got := Figure(v); got != want {
			t.Errorf("Figure(%v) = %q, want %q", v, got, want)
		}
	}
}
