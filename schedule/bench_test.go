package schedule_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/netresearch/go-cron"

	"github.com/holter-iot/holter/schedule"
)

const million = 1_000_000

// benchEngine starts an engine, which the benchmark's end stops.
func benchEngine(b *testing.B, cfg schedule.Config) (e *schedule.Engine, stop func()) {
	b.Helper()
	e, err := schedule.New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	return e, func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	}
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// A million schedules of one engine, each with an expression or a period and a closure of its own: what they cost to hold.
func BenchmarkHold(b *testing.B) {
	kinds := []struct {
		name string
		plan func(e *schedule.Engine, i int) *schedule.Plan
	}{
		{"cron", func(e *schedule.Engine, i int) *schedule.Plan {
			return e.Cron(fmt.Sprintf("CRON_TZ=Europe/Berlin %d %d %d * *", i%60, i/60%24, 1+i/1440%28))
		}},
		{"period", func(e *schedule.Engine, i int) *schedule.Plan {
			return e.Every(3600 + i%3600).Seconds().NotImmediately()
		}},
	}
	for _, kind := range kinds {
		b.Run(fmt.Sprintf("kind=%s/n=1e6", kind.name), func(b *testing.B) {
			var memory, goroutines float64
			for b.Loop() {
				before, had := heapInUse(), runtime.NumGoroutine()
				e, stop := benchEngine(b, schedule.Config{})
				var runs atomic.Int64
				for i := range million {
					if _, err := kind.plan(e, i).Do(func() { runs.Add(int64(i)) }); err != nil {
						b.Fatal(err)
					}
				}
				memory += float64(heapInUse() - before)
				goroutines += float64(runtime.NumGoroutine() - had)
				stop()
			}
			b.ReportMetric(memory/float64(b.N)/million, "B/schedule")
			b.ReportMetric(goroutines/float64(b.N), "goroutines")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/million, "ns/add")
		})
	}
}

// A million schedules that fire once in ten seconds each: 100,000 runs a second. Reports how late they are found and run.
func BenchmarkFire(b *testing.B) {
	const warm, rounds = 10 * time.Second, 10 * time.Second
	for b.Loop() {
		e, stop := benchEngine(b, schedule.Config{})
		var late atomic.Int64
		start := time.Now().Add(5 * time.Second)
		for i := range million {
			_, err := e.Every(10).Seconds().From(start.Add(time.Duration(i) * 10 * time.Microsecond)).DoRun(func(_ context.Context, r schedule.Run) {
				late.Add(int64(time.Since(r.Scheduled)))
			})
			if err != nil {
				b.Fatal(err)
			}
		}
		wait(time.Until(start) + warm)
		runs, sum := e.Stats().Runs, late.Load()
		wait(rounds)
		s := e.Stats()
		b.ReportMetric(float64(s.Runs-runs)/rounds.Seconds(), "runs/s")
		b.ReportMetric(float64(late.Load()-sum)/float64(s.Runs-runs)/1000, "mean-late-µs")
		b.ReportMetric(float64(s.Lateness.Quantile(0.99).Microseconds()), "found-p99-µs")
		b.ReportMetric(float64(s.Skipped+s.Misfired), "left-out")
		stop()
	}
}

func wait(d time.Duration) { <-time.After(d) }

var expressions = []struct{ name, text string }{
	{"minutely", "CRON_TZ=Europe/Berlin * * * * *"},
	{"workdays", "CRON_TZ=Europe/Berlin 30 9-17 * * MON-FRI"},
	{"yearly", "CRON_TZ=Europe/Berlin 0 0 1 1 *"},
	{"leapday", "CRON_TZ=Europe/Berlin 0 0 29 2 *"},
}

// Next beside that of the library whose parser is used here.
func BenchmarkNext(b *testing.B) {
	parser := cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.DowOrDom).WithMaxSearchYears(10)
	for _, x := range expressions {
		theirs, err := parser.Parse(x.text)
		if err != nil {
			b.Fatal(err)
		}
		for _, impl := range []struct {
			name string
			s    schedule.Schedule
		}{{"holter", mustParse(b, x.text)}, {"go-cron", theirs}} {
			b.Run(fmt.Sprintf("impl=%s/expr=%s", impl.name, x.name), func(b *testing.B) {
				b.ReportAllocs()
				start := at(b, "2026-01-01T00:00:00Z")
				after := start
				for b.Loop() {
					if after = impl.s.Next(after); after.Year() > 2100 {
						after = start
					}
				}
			})
		}
	}
}

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := schedule.ParseIn("30 9-17 * * MON-FRI", time.UTC); err != nil {
			b.Fatal(err)
		}
	}
}
