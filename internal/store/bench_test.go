package store_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/liveness"
)

// batchLen is how many events a registry hands over at most.
const batchLen = 8192

// fill makes devices, and returns how far the events have come.
func fill(b *testing.B, s *store.Store, devices int) {
	b.Helper()
	batch := make([]liveness.Event, 0, batchLen)
	for num := 1; num <= devices; num++ {
		ev := device(uint32(num), fmt.Sprintf("sensor-%08d-building-7", num), 1, liveness.DeviceOnline)
		ev.Record.Announced = liveness.Policy{Timeout: 90 * time.Second}
		batch = append(batch, ev)
		if len(batch) == batchLen || num == devices {
			if err := s.Append(b.Context(), batch); err != nil {
				b.Fatal(err)
			}
			batch = batch[:0]
		}
	}
}

// BenchmarkAppend appends batches of transitions of devices that exist, picked at random.
func BenchmarkAppend(b *testing.B) {
	const devices = 500_000
	for _, db := range testdb.Durable() {
		b.Run("db="+db.Name, func(b *testing.B) {
			s, _ := open(b, config{URL: db.URL(b)})
			fill(b, s, devices)
			seq := make([]uint64, devices+1)
			batch := make([]liveness.Event, batchLen)
			random := rand.New(rand.NewPCG(1, 2))
			b.ReportAllocs()
			events := 0
			for b.Loop() {
				b.StopTimer()
				for i, n := range random.Perm(devices)[:batchLen] {
					seq[n]++
					batch[i] = device(uint32(n+1), fmt.Sprintf("sensor-%08d-building-7", n+1), seq[n]+1, liveness.DeviceOffline)
					batch[i].Record.Announced = liveness.Policy{Timeout: 90 * time.Second}
				}
				b.StartTimer()
				if err := s.Append(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
				events += batchLen
			}
			b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkLoad loads a fleet into a registry: as after a start, and as a standby that has followed.
func BenchmarkLoad(b *testing.B) {
	for _, db := range testdb.Durable() {
		for _, n := range []int{500_000, 1_000_000} {
			cfg := config{URL: db.URL(b)}
			s := newStore(b, cfg)
			reopen(b, s)
			fill(b, s, n)
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
			for _, followed := range []bool{false, true} {
				b.Run(fmt.Sprintf("db=%s/n=%d/followed=%v", db.Name, n, followed), func(b *testing.B) { benchmarkLoad(b, cfg, n, followed) })
			}
		}
	}
}

func benchmarkLoad(b *testing.B, cfg config, n int, followed bool) {
	b.Helper()
	beside, err := cfg.shared(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = beside.Close() }()
	cfg.Follower = new(store.Follower)
	s := newStore(b, cfg)
	if err := s.Open(b.Context()); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		b.StopTimer()
		if followed {
			if err := cfg.Follower.Follow(b.Context(), beside); err != nil {
				b.Fatal(err)
			}
		}
		r := registry(b, s)
		runtime.GC()
		b.StartTimer()
		loaded, err := s.Load(b.Context(), r)
		if err != nil || loaded.Devices != n || loaded.Followed != followed {
			b.Fatal(loaded, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/load")
}

// BenchmarkCheckpoint writes checkpoints of a fleet in which every device was heard since the one before, at some instant of the last 30 s.
func BenchmarkCheckpoint(b *testing.B) {
	for _, n := range []int{500_000} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			s := newStore(b, config{URL: "sqlite:" + b.TempDir() + "/holter.db"})
			reopen(b, s)
			fill(b, s, n)
			r, err := liveness.New(s, liveness.Config{})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { stop(b, r) }()
			if _, err := s.Load(b.Context(), r); err != nil {
				b.Fatal(err)
			}
			source, err := r.AddSource(liveness.SourceConfig{Name: "gateway"})
			if err != nil {
				b.Fatal(err)
			}
			now := base
			source.Pulse(now)
			var cpu time.Duration
			for b.Loop() {
				b.StopTimer()
				for range 30 {
					now = now.Add(time.Second)
					source.Pulse(now)
				}
				source.Watermark(0, source.Pulse(now))
				for num := 1; num <= n; num++ {
					at := source.Now() - rand.N(30*time.Second)
					if _, err := source.Apply(fmt.Sprintf("sensor-%08d-building-7", num), liveness.Signal{At: at, Announced: liveness.Policy{Timeout: 90 * time.Second}}); err != nil {
						b.Fatal(err)
					}
				}
				b.StartTimer()
				if err := s.Checkpoint(b.Context(), r); err != nil {
					b.Fatal(err)
				}
				cpu += s.Stats().Checkpoint.CPU
			}
			st := s.Stats().Checkpoint
			b.ReportMetric(float64(st.Total)/float64(st.Written), "written-B/op")
			b.ReportMetric(float64(cpu.Microseconds())/1000/float64(b.N), "cpu-ms/op")
		})
	}
}
