package duration_test

import (
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/duration"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"1d": 24 * time.Hour, "1d12h": 36 * time.Hour, "0.5d": 12 * time.Hour, "-1d": -24 * time.Hour, "+2d3m": 48*time.Hour + 3*time.Minute,
		"90s": 90 * time.Second, "-1.5h": -90 * time.Minute, "0": 0, "366d": 366 * 24 * time.Hour,
	} {
		if got, err := duration.Parse(text); err != nil || got != want {
			t.Errorf("Parse(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "1", "1d1", "1d-1h", "1d+1h", "1h1d", "1d1d", "--1d", "1mind", "5000000d", "106751d24h", "1 d", "never", "+-1d", "1e3d"} {
		if got, err := duration.Parse(text); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", text, got)
		}
	}
}

func TestString(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0s": 0, "1ms": time.Millisecond, "1s": time.Second, "1m30s": 90 * time.Second, "1h": time.Hour, "1h500ms": time.Hour + 500*time.Millisecond, "29d16h28m3.754775808s": 712*time.Hour + 28*time.Minute + 3754775808,
		"3d": 72 * time.Hour, "1d1m": 24*time.Hour + time.Minute, "-2d": -48 * time.Hour,
	} {
		if got := duration.String(d); got != want {
			t.Errorf("String(%v) = %q, want %q", d, got, want)
		}
	}
}

// FuzzParse: what is written is read as the same, and what time.ParseDuration reads is read as by it.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"1d", "1d12h30m0.5s", "-3d", "2562047h47m16.854775807s", "1.5d", "712h28m3.754775808s"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := duration.Parse(text)
		if std, stdErr := time.ParseDuration(text); stdErr == nil && (err != nil || d != std) {
			t.Fatalf("Parse(%q) = %v, %v, want %v", text, d, err, std)
		}
		if err != nil {
			return
		}
		if again, err := duration.Parse(duration.String(d)); err != nil || again != d {
			t.Errorf("Parse(String(%v)) = %v, %v (%q)", d, again, err, duration.String(d))
		}
	})
}
