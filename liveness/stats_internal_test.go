package liveness

import (
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/operate"
)

func TestLagQuantile(t *testing.T) {
	for _, tt := range []struct {
		name          string
		lags          []time.Duration
		p50, p99, max time.Duration
	}{
		{"none", nil, 0, 0, 0},
		{"one", []time.Duration{300 * time.Microsecond}, 300 * time.Microsecond, 300 * time.Microsecond, 300 * time.Microsecond},
		{"in time", []time.Duration{0, 0, 0}, 0, 0, 0},
		{"two classes", []time.Duration{time.Millisecond, 2 * time.Millisecond, 5 * time.Second}, 4 * time.Millisecond, 5 * time.Second, 5 * time.Second},
		{"beyond all bounds", []time.Duration{time.Hour, 2 * time.Hour}, 2 * time.Hour, 2 * time.Hour, 2 * time.Hour},
	} {
		var l lag
		for _, d := range tt.lags {
			l.add(d)
		}
		var st Stats
		l.stats(&st)
		quantile := func(q float64) time.Duration {
			return operate.LagQuantile(q, st.Verdicts, st.Lag, st.LagBounds, st.LagMax)
		}
		if p50, p99 := quantile(0.5), quantile(0.99); p50 != tt.p50 || p99 != tt.p99 || st.LagMax != tt.max {
			t.Errorf("%s: %v, %v, %v, want %v, %v, %v", tt.name, p50, p99, st.LagMax, tt.p50, tt.p99, tt.max)
		}
	}
}
