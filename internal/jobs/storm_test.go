package jobs_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/test/testdb"
	"github.com/holter-iot/holter/liveness"
)

// BenchmarkStorm takes a fleet from the heartbeat, or the silence, of all devices at one instant to the last commit, through timers,
// registry and outbox. Checkpoints go on meanwhile. extra-MB is how much more memory the process had at most than before a storm of silence.
func BenchmarkStorm(b *testing.B) {
	for _, db := range testdb.Durable() {
		b.Run("db="+db.Name, func(b *testing.B) { benchmarkStorm(b, config{URL: db.URL(b)}) })
	}
}

// BenchmarkStormWithJobs is BenchmarkStorm with a job for each event, which nobody works on.
func BenchmarkStormWithJobs(b *testing.B) {
	for _, db := range testdb.Durable() {
		b.Run("db="+db.Name, func(b *testing.B) { benchmarkStorm(b, config{URL: db.URL(b), Outbox: everything}) })
	}
}

func benchmarkStorm(b *testing.B, cfg config) {
	b.Helper()
	const devices = 500_000
	s := open(b, cfg)
	r, err := liveness.New(s.Store, liveness.Config{
		Policy:   liveness.Policy{Timeout: time.Minute},
		Flapping: liveness.FlappingConfig{Window: 1}, // or they flap, which is one event more
	})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := s.Load(b.Context(), r); err != nil {
		b.Fatal(err)
	}
	source, err := r.AddSource(liveness.SourceConfig{Name: "http", MaxGap: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = r.Run(ctx) })
	running.Go(func() { _ = s.Run(ctx, r) })
	defer running.Wait()
	defer cancel()
	f := &storm{b: b, store: s, registry: r, source: source, devices: devices, now: time.Now()}
	f.pulse(0)
	f.heard() // the devices are made
	var online, offline, extra float64
	n := 0.0
	for b.Loop() {
		f.pulse(10 * time.Second)
		before := status(b, "VmRSS:")
		forgetPeak(b)
		offline += f.rate(func() { f.pulse(time.Minute) })
		extra = max(extra, status(b, "VmHWM:")-before)
		online += f.rate(f.heard)
		n++
	}
	b.ReportMetric(offline/n, "verdicts/s")
	b.ReportMetric(online/n, "online/s")
	b.ReportMetric(devices/(offline/n), "s/storm")
	b.ReportMetric(extra/1e6, "extra-MB")
}

// storm is a fleet in which all do the same at once.
type storm struct {
	b        *testing.B
	store    *rig
	registry *liveness.Registry
	source   *liveness.Source
	devices  int
	now      time.Time // made up, so that the silence takes no time
}

func (f *storm) pulse(d time.Duration) {
	f.now = f.now.Add(d)
	f.source.Watermark(0, f.source.Pulse(f.now))
}

// heard lets all devices beat, no faster than their coming back can be stored.
func (f *storm) heard() {
	now := f.source.Time(f.now)
	for i := range f.devices {
		for i%1024 == 0 && f.registry.Stats().Queued > 1<<16 {
			time.Sleep(time.Millisecond)
		}
		if _, err := f.source.Apply(fmt.Sprintf("sensor-%08d", i), liveness.Signal{At: now}); err != nil {
			f.b.Fatal(err)
		}
	}
}

// rate returns how many events per second do brought, until the last was committed.
func (f *storm) rate(do func()) float64 {
	_, from := f.store.Bounds()
	begin := time.Now()
	do()
	for want := from + uint64(f.devices); ; time.Sleep(time.Millisecond) {
		if _, latest := f.store.Bounds(); latest >= want {
			return float64(f.devices) / time.Since(begin).Seconds()
		}
		if time.Since(begin) > 2*time.Minute {
			f.b.Fatal("it does not end")
		}
	}
}

// forgetPeak makes VmHWM begin anew, see proc_pid_clear_refs(5).
func forgetPeak(b *testing.B) {
	b.Helper()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		b.Log("VmHWM counts from the start:", err)
	}
}

// status returns the memory of the process, in bytes.
func status(b *testing.B, field string) float64 {
	b.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skip(err)
	}
	_, rest, _ := strings.Cut(string(text), field)
	var kib float64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		b.Fatal(err)
	}
	return kib * 1024
}
