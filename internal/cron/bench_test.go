package cron_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/cron"
)

// BenchmarkWindow opens a maintenance window over many devices, and ends it.
func BenchmarkWindow(b *testing.B) {
	for _, n := range []int{100_000} {
		b.Run(fmt.Sprintf("devices=%d", n), func(b *testing.B) {
			r := newRig(b, cron.Config{})
			for i := range n {
				r.see(false, fmt.Sprint("d", i))
				if i%1000 == 0 { // do not run away
					r.until("the sink keeps up", func() bool { return r.registry.Stats().Queued < 2000 })
				}
			}
			r.put("w", "maintenance", "0 0 1 1 *", `{"for_ms":3600000,"device":"d*"}`, nil)
			hours := 0
			for b.Loop() {
				_, err := r.cron.RunNow(b.Context(), "w")
				r.check(err)
				r.until("it is open", func() bool { return r.cron.Stats().Windows == 1 })
				hours++
				r.set(time.Duration(hours) * time.Hour)
				r.ended("w", hours)
			}
		})
	}
}

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
