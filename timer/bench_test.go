package timer_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holter-iot/holter/timer"
)

const million = 1_000_000

var bothEager = []bool{false, true}

// benchmark is an engine with a group, timers of 30 to 90 seconds, and what they are armed with.
type benchmark struct {
	*timer.Engine

	g       *timer.Group
	periods [4096]time.Duration
}

// startBench starts an engine without the timer of b running.
func startBench(b *testing.B, cfg timer.Config, h timer.Handler) *benchmark {
	b.Helper()
	e, err := timer.Start(cfg)
	if err != nil {
		b.Fatal(err)
	}
	g, err := e.Group(h)
	if err != nil {
		b.Fatal(err)
	}
	bench := &benchmark{Engine: e, g: g}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range bench.periods {
		bench.periods[i] = 30*time.Second + time.Duration(r.Int64N(int64(60*time.Second)))
	}
	return bench
}

func (e *benchmark) close(b *testing.B) {
	b.Helper()
	if err := e.Close(context.Background()); err != nil {
		b.Error(err)
	}
}

// arm arms n timers in a row.
func (e *benchmark) arm(b *testing.B, n int, armed func(i int, id timer.ID)) {
	b.Helper()
	now := e.Now()
	for i := range n {
		id, err := e.g.Arm(now, e.periods[i%len(e.periods)], uint64(i))
		if err != nil {
			b.Fatal(err)
		}
		armed(i, id)
	}
}

// fill arms n timers and returns them in random order.
func (e *benchmark) fill(b *testing.B, n int) []timer.ID {
	b.Helper()
	ids := make([]timer.ID, n)
	e.arm(b, n, func(i int, id timer.ID) { ids[i] = id })
	rand.New(rand.NewPCG(1, 2)).Shuffle(n, func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	return ids
}

func ignore([]timer.Expired) {}

// perTimer reports the time of a loop that does something to a million timers a round.
func perTimer(b *testing.B, unit string) {
	b.Helper()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/million, unit)
}

// A heartbeat of a random timer; the clock is read once in 256.
func BenchmarkTouch(b *testing.B) {
	for name, n := range map[string]int{"n=1e3": 1000, "n=1e6": million} {
		b.Run(name, func(b *testing.B) {
			e := startBench(b, timer.Config{}, ignore)
			ids := e.fill(b, n)
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
			b.StopTimer()
			e.close(b)
		})
	}
}

// Heartbeats of random timers, some of which are prefetched at a time, beside those one by one. Each
// changes the deadline. The two take turns, and the median turn counts, so that what else the machine
// does is the same for both.
func BenchmarkPrefetch(b *testing.B) {
	for _, n := range []int{million, 8 * million} {
		for _, ahead := range []int{16, 64, 256} {
			b.Run(fmt.Sprintf("n=%de6/ahead=%d", n/million, ahead), func(b *testing.B) {
				e := startBench(b, timer.Config{}, ignore)
				ids := e.fill(b, n)
				const turn = 4096 // timers
				var single, batch []time.Duration
				i, now := 0, e.Now()+time.Hour
				touch := func(some []timer.ID) {
					for _, id := range some {
						if !e.Touch(id, now) {
							b.Fatal("not armed")
						}
					}
				}
				for b.Loop() {
					start := time.Now()
					touch(ids[i : i+turn])
					middle := time.Now()
					for some := range slices.Chunk(ids[i+turn:i+2*turn], ahead) {
						for _, id := range some {
							e.Prefetch(id)
						}
						touch(some)
					}
					single = append(single, middle.Sub(start))
					batch = append(batch, time.Since(middle))
					if i += 2 * turn; i+2*turn > n {
						i = 0
						now += timer.Resolution
					}
				}
				b.StopTimer()
				slices.Sort(single)
				slices.Sort(batch)
				one, many := single[len(single)/2], batch[len(batch)/2]
				b.ReportMetric(float64(one.Nanoseconds())/turn, "ns/touch")
				b.ReportMetric(float64(many.Nanoseconds())/turn, "ns/prefetched")
				b.ReportMetric(float64(one)/float64(many), "ratio")
				e.close(b)
			})
		}
	}
}

// A heartbeat of a random timer that always changes the deadline.
func BenchmarkTouchTo(b *testing.B) {
	e := startBench(b, timer.Config{}, ignore)
	ids := e.fill(b, million)
	b.ReportAllocs()
	i := 0
	deadline := e.Now() + time.Hour
	for b.Loop() {
		if !e.TouchTo(ids[i], deadline) {
			b.Fatal("not armed")
		}
		if i++; i == million {
			i = 0
			deadline += timer.Resolution
		}
	}
	b.StopTimer()
	e.close(b)
}

func BenchmarkArm(b *testing.B) {
	for _, eager := range bothEager {
		b.Run(fmt.Sprintf("n=1e6/eager=%v", eager), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				e := startBench(b, timer.Config{Eager: eager}, ignore)
				b.StartTimer()
				e.arm(b, million, func(int, timer.ID) {})
				b.StopTimer()
				e.close(b)
				b.StartTimer()
			}
			perTimer(b, "ns/arm")
		})
	}
}

func BenchmarkCancel(b *testing.B) {
	for _, eager := range bothEager {
		b.Run(fmt.Sprintf("n=1e6/eager=%v", eager), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				e := startBench(b, timer.Config{Eager: eager}, ignore)
				ids := e.fill(b, million)
				b.StartTimer()
				for _, id := range ids {
					if !e.Cancel(id) {
						b.Fatal("not armed")
					}
				}
				b.StopTimer()
				e.close(b)
				b.StartTimer()
			}
			perTimer(b, "ns/cancel")
		})
	}
}

// A timer ends and another one begins in its stead, among a million.
func BenchmarkReplace(b *testing.B) {
	for _, eager := range bothEager {
		b.Run(fmt.Sprintf("n=1e6/eager=%v", eager), func(b *testing.B) {
			e := startBench(b, timer.Config{Eager: eager}, ignore)
			ids := e.fill(b, million)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if !e.Cancel(ids[i]) {
					b.Fatal("not armed")
				}
				var err error
				if ids[i], err = e.g.Arm(e.Now(), time.Minute, 0); err != nil {
					b.Fatal(err)
				}
				if i++; i == million {
					i = 0
				}
			}
			b.StopTimer()
			e.close(b)
		})
	}
}

// heapBytes returns the bytes that live objects take, after a collection.
func heapBytes() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// What a million timers take, and what a collection takes with them.
func BenchmarkMemory(b *testing.B) {
	for _, mode := range []string{"handler", "eager", "func"} {
		b.Run("n=1e6/mode="+mode, func(b *testing.B) {
			var perTimer, gc float64
			for b.Loop() {
				before := heapBytes()
				e := startBench(b, timer.Config{Eager: mode == "eager"}, ignore)
				if mode == "func" {
					e.armFuncs(b, million)
				} else {
					e.arm(b, million, func(int, timer.ID) {})
				}
				perTimer += (heapBytes() - before) / million
				start := time.Now()
				runtime.GC()
				gc += float64(time.Since(start).Microseconds()) / 1000
				e.close(b)
			}
			b.ReportMetric(perTimer/float64(b.N), "B/timer")
			b.ReportMetric(gc/float64(b.N), "ms/GC")
		})
	}
}

// armFuncs arms n timers with a small closure each.
func (e *benchmark) armFuncs(b *testing.B, n int) {
	b.Helper()
	var sum atomic.Int64
	for i := range n {
		if _, err := e.AfterFunc(e.periods[i%len(e.periods)], func() { sum.Add(int64(i)) }); err != nil {
			b.Fatal(err)
		}
	}
}

// A million timers are due at one instant, or one after the other: how long after the last deadline
// is the last callback called?
func BenchmarkDue(b *testing.B) {
	for _, bench := range []struct {
		name    string
		workers int
		funcs   bool
		apart   time.Duration
	}{
		{"handler/apart=0", 0, false, 0},
		{"func/apart=0", 0, true, 0},
		{"func/apart=1µs", 0, true, time.Microsecond},
		{"func/unlimited/apart=0", timer.Unlimited, true, 0},
		{"func/unlimited/apart=1µs", timer.Unlimited, true, time.Microsecond},
	} {
		b.Run("n=1e6/mode="+bench.name, func(b *testing.B) {
			var took time.Duration
			for b.Loop() {
				var handled atomic.Int64
				done := make(chan time.Duration, 1)
				var e *benchmark
				count := func(n int) {
					if handled.Add(int64(n)) == million {
						done <- e.Now()
					}
				}
				e = startBench(b, timer.Config{Workers: bench.workers}, func(expired []timer.Expired) { count(len(expired)) })
				first := e.Now() + 1500*time.Millisecond
				for i := range million {
					var err error
					at := first + time.Duration(i)*bench.apart
					if bench.funcs {
						_, err = e.AtFunc(at, func() { count(1) })
					} else {
						_, err = e.g.ArmAt(at, time.Second, uint64(i))
					}
					if err != nil {
						b.Fatal(err)
					}
				}
				if e.Now() > first {
					b.Fatal("arming took too long")
				}
				took += <-done - first - (million-1)*bench.apart
				e.close(b)
			}
			b.ReportMetric(float64(took.Microseconds())/1000/float64(b.N), "ms/last")
		})
	}
}
