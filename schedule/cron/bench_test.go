package cron_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holter-iot/holter/schedule/cron"
)

// BenchmarkMidnight runs a thousand webhooks that are due at the same instant.
func BenchmarkMidnight(b *testing.B) {
	const n = 1000
	r := newRig(b, cron.Config{})
	for i := range n {
		r.put(fmt.Sprint("w", i), "webhook", "0 * * * *", hook, nil)
	}
	hours := 0
	for b.Loop() {
		hours++
		r.set(time.Duration(hours) * time.Hour)
		r.idle()
	}
	b.ReportMetric(float64(n*hours)/b.Elapsed().Seconds(), "runs/s")
}
