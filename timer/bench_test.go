package timer_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holter-iot/holter/timer"
)

const benchTimers = 1_000_000

func periodOf(r *rand.Rand) time.Duration {
	return 30*time.Second + time.Duration(r.Int64N(int64(60*time.Second)))
}

// heapBytes returns the bytes that live objects take, after a collection.
func heapBytes() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func startBench(b *testing.B, cfg timer.Config, h timer.Handler) (*timer.Engine, *timer.Group) {
	b.Helper()
	e, err := timer.Start(cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	g, err := e.Group(h)
	if err != nil {
		b.Fatal(err)
	}
	return e, g
}

func fill(b *testing.B, e *timer.Engine, g *timer.Group, n int) []timer.ID {
	b.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	ids := make([]timer.ID, n)
	now := e.Now()
	for i := range ids {
		id, err := g.Arm(now, periodOf(r), uint64(i))
		if err != nil {
			b.Fatal(err)
		}
		ids[i] = id
	}
	r.Shuffle(n, func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	return ids
}

func BenchmarkTouch(b *testing.B) {
	for _, n := range []int{1000, benchTimers} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			e, g := startBench(b, timer.Config{}, func([]timer.Expired) {})
			ids := fill(b, e, g, n)
			b.ReportAllocs()
			i := 0
			var now time.Duration
			for b.Loop() {
				if i&255 == 0 {
					now = e.Now()
				}
				if !e.Touch(ids[i], now) {
					b.Fatal("not armed")
				}
				if i++; i == n {
					i = 0
				}
			}
		})
	}
}

func BenchmarkArm(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	periods := make([]time.Duration, 4096)
	for i := range periods {
		periods[i] = periodOf(r)
	}
	for _, eager := range []bool{false, true} {
		b.Run(fmt.Sprintf("n=1e6/eager=%v", eager), func(b *testing.B) {
			b.ReportAllocs()
			var spent time.Duration
			rounds := 0
			for range b.N {
				e, g := startBench(b, timer.Config{Eager: eager}, func([]timer.Expired) {})
				now := e.Now()
				start := time.Now()
				for i := range benchTimers {
					if _, err := g.Arm(now, periods[i&4095], uint64(i)); err != nil {
						b.Fatal(err)
					}
				}
				spent += time.Since(start)
				rounds++
			}
			b.ReportMetric(float64(spent.Nanoseconds())/float64(rounds)/benchTimers, "ns/arm")
		})
	}
}

func BenchmarkCancel(b *testing.B) {
	for _, eager := range []bool{false, true} {
		b.Run(fmt.Sprintf("n=1e6/eager=%v", eager), func(b *testing.B) {
			var spent time.Duration
			rounds := 0
			for range b.N {
				e, g := startBench(b, timer.Config{Eager: eager}, func([]timer.Expired) {})
				ids := fill(b, e, g, benchTimers)
				start := time.Now()
				for _, id := range ids {
					if !e.Cancel(id) {
						b.Fatal("not armed")
					}
				}
				spent += time.Since(start)
				rounds++
			}
			b.ReportMetric(float64(spent.Nanoseconds())/float64(rounds)/benchTimers, "ns/cancel")
		})
	}
}

func BenchmarkMemory(b *testing.B) {
	for range b.N {
		before := heapBytes()
		e, g := startBench(b, timer.Config{}, func([]timer.Expired) {})
		ids := make([]timer.ID, 0)
		r := rand.New(rand.NewPCG(1, 2))
		now := e.Now()
		for i := range benchTimers {
			if _, err := g.Arm(now, periodOf(r), uint64(i)); err != nil {
				b.Fatal(err)
			}
		}
		after := heapBytes()
		b.ReportMetric(float64(after-before)/benchTimers, "B/timer")
		start := time.Now()
		runtime.GC()
		b.ReportMetric(float64(time.Since(start).Microseconds())/1000, "ms/GC")
		runtime.KeepAlive(ids)
	}
}

func BenchmarkDueAtOnce(b *testing.B) {
	for range b.N {
		var handled atomic.Int64
		done := make(chan time.Duration, 1)
		var e *timer.Engine
		var early atomic.Int64
		e, g := startBench(b, timer.Config{}, func(expired []timer.Expired) {
			now := e.Now()
			for i := range expired {
				if expired[i].Deadline > now {
					early.Add(1)
				}
			}
			if handled.Add(int64(len(expired))) == benchTimers {
				done <- now
			}
		})
		at := e.Now() + 1500*time.Millisecond
		for i := range benchTimers {
			if _, err := g.ArmAt(at, time.Second, uint64(i)); err != nil {
				b.Fatal(err)
			}
		}
		if e.Now() > at {
			b.Fatal("arming took too long")
		}
		last := <-done
		b.ReportMetric(float64((last-at).Microseconds())/1000, "ms/last")
		b.ReportMetric(float64(early.Load()), "early")
	}
}
