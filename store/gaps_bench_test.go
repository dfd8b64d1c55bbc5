package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
	"github.com/holter-iot/holter/store"
)

// minutely is a fleet that beats once a minute, with a checkpoint every 5 s.
type minutely struct {
	*testing.B

	store    *store.Store
	registry *liveness.Registry
	source   *liveness.Source
	names    []string
	skip     []int8 // how many beats a device leaves out
	random   *rand.Rand
	now      time.Time
	step     int
	cpu      time.Duration
}

// newMinutely makes a fleet of n devices, of which gaps are recorded or not.
func newMinutely(b *testing.B, n int, records bool) *minutely {
	b.Helper()
	m := &minutely{B: b, skip: make([]int8, n), random: rand.New(rand.NewPCG(1, 2)), now: base}
	m.store, _ = open(b, config{URL: "sqlite:" + b.TempDir() + "/holter.db", Memory: store.NoMemory})
	nowhere, err := eventlog.New(100)
	if err != nil {
		b.Fatal(err)
	}
	if m.registry, err = liveness.New(nowhere, liveness.Config{Policy: liveness.Policy{Timeout: 3 * time.Minute}}); err != nil {
		b.Fatal(err)
	}
	if err := m.registry.RestoreSource(liveness.SourceRecord{Name: "gateway", Listened: time.Hour, At: m.now}); err != nil {
		b.Fatal(err)
	}
	if records {
		m.registry.RecordGaps()
	}
	for i := range n {
		id := fmt.Sprintf("sensor-%08d-building-7", i+1)
		m.names = append(m.names, id)
		rec := liveness.Record{Num: uint32(i + 1), ID: id, State: liveness.Online, Source: "gateway", Last: time.Hour, Since: m.now, Seq: 1}
		if err := m.registry.Restore(rec); err != nil {
			b.Fatal(err)
		}
	}
	if m.source, err = m.registry.AddSource(liveness.SourceConfig{Name: "gateway"}); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.registry.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	return m
}

// next lets 5 s pass, in which a twelfth of the devices beats, and writes a checkpoint. 0.5 % of the beats
// come after up to 20 min of silence.
func (m *minutely) next() {
	for range 5 {
		m.now = m.now.Add(time.Second)
		m.source.Watermark(0, m.source.Pulse(m.now))
	}
	for i := m.step % 12; i < len(m.names); i += 12 {
		if m.skip[i]--; m.skip[i] >= 0 {
			continue
		}
		if m.skip[i] = 0; m.random.Float64() < 0.005 {
			m.skip[i] = int8(1 + m.random.IntN(19))
		}
		at := m.source.Now() - time.Duration(1e6+m.random.Int64N(4e9))
		if _, err := m.source.Apply(m.names[i], liveness.Signal{At: at}); err != nil {
			m.Fatal(err)
		}
	}
	m.step++
	if err := m.store.Checkpoint(m.Context(), m.registry); err != nil {
		m.Fatal(err)
	}
	m.cpu += m.store.Stats().Checkpoint.CPU
}

// BenchmarkCheckpointGaps compares checkpoints of the same fleet with gaps that are recorded and without, in
// turns.
func BenchmarkCheckpointGaps(b *testing.B) {
	for _, n := range []int{200_000, 1_000_000} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			with, without := newMinutely(b, n, true), newMinutely(b, n, false)
			for range 48 {
				with.next()
				without.next()
			}
			with.cpu, without.cpu = 0, 0
			for b.Loop() {
				with.next()
				without.next()
			}
			b.ReportMetric(float64(with.cpu.Microseconds())/1000/float64(b.N), "cpu-ms/with")
			b.ReportMetric(float64(without.cpu.Microseconds())/1000/float64(b.N), "cpu-ms/without")
			b.ReportMetric(float64(with.cpu)/float64(without.cpu), "ratio")
			b.ReportMetric(float64(with.store.Stats().Gaps.Bytes)/float64(with.step), "gaps-B/op")
		})
	}
}
