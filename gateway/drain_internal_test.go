package gateway

import (
	"testing"
	"time"
)

func TestDrainDue(t *testing.T) {
	tests := []struct {
		all           int
		passed, limit time.Duration
		want          int
	}{
		{0, 0, time.Minute, 0},
		{100_000, 0, time.Minute, 0},
		{100_000, time.Second, time.Minute, 2000},
		{100_000, 50 * time.Second, time.Minute, 100_000},
		{100_000, 500 * time.Millisecond, 10 * time.Second, 5000},
		{100_000, 10 * time.Second, 10 * time.Second, 100_000},
		{100_000, 0, 0, 100_000},
		{30, time.Second, time.Minute, 20},
		{30, 2 * time.Second, time.Minute, 30},
	}
	for _, tt := range tests {
		if got := drainDue(tt.all, tt.passed, tt.limit); got != tt.want {
			t.Errorf("drainDue(%d, %v, %v) = %d, want %d", tt.all, tt.passed, tt.limit, got, tt.want)
		}
	}
}
