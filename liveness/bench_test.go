package liveness_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/internal/operate"
	"github.com/holter-iot/holter/liveness"
)

const benchDevices = 1_000_000

func heapBytes() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

type discard struct{}

func (discard) Append(context.Context, []liveness.Event) error { return nil }

type fleet struct {
	registry *liveness.Registry
	source   *liveness.Source
	ids      []string
	sessions []liveness.Session
	start    time.Time
}

func startFleet(b *testing.B) *fleet {
	b.Helper()
	r, err := liveness.New(discard{}, liveness.Config{})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	s, err := r.AddSource(liveness.SourceConfig{Name: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	f := &fleet{registry: r, source: s, ids: make([]string, benchDevices), sessions: make([]liveness.Session, benchDevices), start: time.Now()}
	s.Pulse(f.start)
	for i := range f.ids {
		f.ids[i] = fmt.Sprintf("device-%07d", i)
	}
	return f
}

func (f *fleet) open(b *testing.B) {
	b.Helper()
	order := make([]int, benchDevices)
	for i := range order {
		order[i] = i
	}
	f.openIn(b, order)
}

func (f *fleet) openIn(b *testing.B, order []int) {
	b.Helper()
	now := f.source.Time(f.start)
	for _, i := range order {
		if _, err := f.source.Open(&f.sessions[i], f.ids[i], liveness.Hello{}, nil, now); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBeat sends heartbeats on sessions in the order of their memory, while their timers lie
// at random; and on sessions at random, so that nothing of a connection is in the cache.
func BenchmarkBeat(b *testing.B) {
	for _, sessions := range []string{"next", "anywhere"} {
		b.Run("session="+sessions, func(b *testing.B) {
			f := startFleet(b)
			order := rand.Perm(benchDevices)
			if sessions == "next" {
				f.openIn(b, order)
				for i := range order {
					order[i] = i
				}
			} else {
				f.open(b)
			}
			b.ReportAllocs()
			i := 0
			now := time.Duration(0)
			for b.Loop() {
				if i&255 == 0 {
					now += time.Microsecond * 8
				}
				if !f.sessions[order[i]].Beat(now) {
					b.Fatal("replaced")
				}
				if i++; i == benchDevices {
					i = 0
				}
			}
		})
	}
}

// BenchmarkMemory measures the memory of a device, without its id and the edge's session.
func BenchmarkMemory(b *testing.B) {
	for range b.N {
		f := startFleet(b)
		before := heapBytes()
		start := time.Now()
		f.open(b)
		b.ReportMetric(float64(time.Since(start).Nanoseconds())/benchDevices, "ns/open")
		idBytes := float64(len(f.ids[0])) // they lie within the device
		b.ReportMetric(float64(heapBytes()-before)/benchDevices-idBytes, "B/device")
		start = time.Now()
		runtime.GC()
		b.ReportMetric(float64(time.Since(start).Microseconds())/1000, "ms/GC")
	}
}

// BenchmarkSnapshot takes snapshots five seconds apart of devices that beat once a minute, with and
// without learning from their gaps.
func BenchmarkSnapshot(b *testing.B) {
	for _, learns := range []bool{false, true} {
		b.Run(fmt.Sprint("learn=", learns), func(b *testing.B) {
			f := startFleet(b)
			if learns {
				f.registry.Keeper().RecordGaps()
			}
			f.open(b)
			var heard []keep.Heard
			now, next := time.Duration(0), 0
			random := rand.New(rand.NewPCG(1, 2))
			pass := func() {
				for range 5 {
					for range benchDevices / 60 {
						f.sessions[next%benchDevices].Beat(now + time.Duration(random.Int64N(int64(time.Second))))
						next++
					}
					now += time.Second
					f.source.Watermark(0, f.source.Pulse(f.start.Add(now)))
				}
			}
			snapshot := func() {
				_, heard = f.registry.Keeper().Snapshot(heard)
				f.registry.Keeper().TakeGaps()
			}
			for range 40 { // until the interval is known
				pass()
				snapshot()
			}
			for b.Loop() {
				b.StopTimer()
				pass()
				b.StartTimer()
				snapshot()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchDevices, "ns/device")
		})
	}
}

// BenchmarkReconfigure changes the policy of a million devices, while verdicts on others are due.
func BenchmarkReconfigure(b *testing.B) {
	f := startFleet(b)
	f.open(b)
	before := heapBytes()
	for i := range 20_000 { // their own timeouts stay in force
		own := liveness.Policy{Timeout: time.Second + time.Duration(i)*time.Millisecond}
		if _, err := f.sessions[i].UpdatePolicy(f.source.Time(f.start), own); err != nil {
			b.Fatal(err)
		}
	}
	stop := f.listen()
	timeouts := []time.Duration{60 * time.Second, 90 * time.Second}
	for i := 0; b.Loop(); i++ {
		done, err := f.registry.Reconfigure(liveness.Config{Policy: liveness.Policy{Timeout: timeouts[i%2]}})
		if err != nil || done.Changed < benchDevices-20_000 {
			b.Fatal(done, err)
		}
	}
	stop()
	st := f.registry.Stats()
	b.ReportMetric(float64(st.Verdicts), "verdicts")
	b.ReportMetric(float64(operate.LagQuantile(0.99, st.Verdicts, st.Lag, st.LagBounds, st.LagMax).Milliseconds()), "p99-lag-ms")
	b.ReportMetric(float64(st.LagMax.Milliseconds()), "max-lag-ms")
	b.ReportMetric((float64(heapBytes())-float64(before))/benchDevices, "B/device")
	runtime.KeepAlive(f)
}

// listen lets the source listen until stop is called.
func (f *fleet) listen() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			f.source.Watermark(0, f.source.Pulse(time.Now()))
			time.Sleep(10 * time.Millisecond)
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}
