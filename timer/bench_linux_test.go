package timer_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holter-iot/holter/timer"
)

// newShared makes a memory that outlives the process until the benchmark ends.
func newShared(b *testing.B) *mapping {
	b.Helper()
	m := newMapping(b, filepath.Join("/dev/shm", fmt.Sprintf("holter-timer-bench-%d", os.Getpid())))
	b.Cleanup(m.close)
	return m
}

// BenchmarkTouch, with the timers in the Go heap and in memory that outlives the process.
func BenchmarkTouchMemory(b *testing.B) {
	for _, impl := range []string{"heap", "shared"} {
		b.Run("impl="+impl+"/n=1e6", func(b *testing.B) {
			var cfg timer.Config
			if impl == "shared" {
				cfg.Memory = newShared(b)
			}
			e := startBench(b, cfg, ignore)
			ids := e.fill(b, million)
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
				if i++; i == million {
					i = 0
				}
			}
			b.StopTimer()
			e.close(b)
		})
	}
}

// pair takes turns at a piece of work in the heap and in shared memory, so that both see the same
// machine however busy it is with other things. It reports the medians of both, and of what the
// second one takes more than the first one just before or after it.
func pair(b *testing.B, n int, work [2]func()) {
	b.Helper()
	var took [2][]float64
	var more []float64
	for turn := 0; b.Loop(); turn++ {
		for i := range work {
			i ^= turn & 1
			start := time.Now()
			work[i]()
			took[i] = append(took[i], float64(time.Since(start).Nanoseconds())/float64(n))
		}
		more = append(more, 100*(took[1][turn]/took[0][turn]-1))
	}
	median := func(x []float64) float64 {
		slices.Sort(x)
		return x[len(x)/2]
	}
	b.ReportMetric(median(took[0]), "heap-ns")
	b.ReportMetric(median(took[1]), "shared-ns")
	b.ReportMetric(median(more), "%more")
}

// pairOf is pair with a running engine for each.
func pairOf(b *testing.B, n int, cfg timer.Config, h timer.Handler, work func(b *testing.B, e *benchmark) func()) {
	b.Helper()
	var works [2]func()
	for i := range works {
		if i == 1 {
			cfg.Memory = newShared(b)
		}
		e := startBench(b, cfg, h)
		defer e.close(b)
		works[i] = work(b, e)
	}
	pair(b, n, works)
}

// What memory that outlives the process costs more: a heartbeat, a timer that takes the place of
// another one, an expiry, each of a random timer among a million; and a new timer. Run it with
// -benchtime=200x or more.
func BenchmarkMemoryPaired(b *testing.B) {
	const n = 100_000
	b.Run("op=touch", func(b *testing.B) {
		pairOf(b, n, timer.Config{}, ignore, func(b *testing.B, e *benchmark) func() {
			b.Helper()
			ids, at := e.fill(b, million), 0
			return func() {
				now := e.Now()
				for i, id := range ids[at : at+n] {
					if i&255 == 0 {
						now = e.Now()
					}
					if !e.Touch(id, now) {
						b.Fatal("not armed")
					}
				}
				at = (at + n) % million
			}
		})
	})
	b.Run("op=replace", func(b *testing.B) {
		pairOf(b, n, timer.Config{}, ignore, func(b *testing.B, e *benchmark) func() {
			b.Helper()
			ids, at := e.fill(b, million), 0
			return func() {
				for i := at; i < at+n; i++ {
					if !e.Cancel(ids[i]) {
						b.Fatal("not armed")
					}
					ids[i], _ = e.g.Arm(e.Now(), time.Minute, 0)
				}
				at = (at + n) % million
			}
		})
	})
	b.Run("op=expire", pairedExpiry)
	b.Run("op=arm", func(b *testing.B) {
		var works [2]func()
		for i := range works {
			works[i] = func() {
				var cfg timer.Config
				if i == 1 {
					m := newMapping(b, filepath.Join("/dev/shm", fmt.Sprintf("holter-timer-bench-%d", os.Getpid())))
					defer m.close()
					cfg.Memory = m
				}
				e := startBench(b, cfg, ignore)
				e.arm(b, n, func(int, timer.ID) {})
				e.close(b)
			}
		}
		pair(b, n, works)
	})
}

// pairedExpiry arms timers again and again, which are due at once when all of them are armed.
func pairedExpiry(b *testing.B) {
	const n = 100_000
	var handled atomic.Int64
	done := make(chan struct{}, 1)
	clock := new(timer.Manual)
	h := func(expired []timer.Expired) {
		if handled.Add(int64(len(expired))) == n {
			done <- struct{}{}
		}
	}
	pairOf(b, n, timer.Config{Clock: clock}, h, func(b *testing.B, e *benchmark) func() {
		b.Helper()
		return func() {
			handled.Store(0)
			for i := range uint64(n) {
				if _, err := e.g.Arm(clock.Now(), time.Second, i); err != nil {
					b.Fatal(err)
				}
			}
			clock.Advance(2 * time.Second)
			<-done
		}
	})
}
