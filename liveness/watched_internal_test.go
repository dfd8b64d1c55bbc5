package liveness

import (
	"context"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"github.com/holter-iot/holter/internal/keep"
)

type noSink struct{}

func (noSink) Append(context.Context, []Event) error { return nil }

func TestDeviceIsTwoCacheLines(t *testing.T) {
	if got := unsafe.Sizeof(device{}); got != 128 {
		t.Errorf("a device has %d bytes, want 128", got)
	}
}

// beater is a fleet of sessions that beat regularly, with a jitter of 2 %, and is checkpointed every five
// seconds.
type beater struct {
	source   *Source
	start    time.Time
	now      time.Duration
	interval time.Duration
	random   *rand.Rand
	sessions []Session
	next     []time.Duration
	heard    []keep.Heard
}

func startBeater(t *testing.T, r *Registry, devices int, interval time.Duration) *beater {
	t.Helper()
	s, err := r.AddSource(SourceConfig{Name: "edge"})
	if err != nil {
		t.Fatal(err)
	}
	b := &beater{
		source: s, start: time.Now(), interval: interval, random: rand.New(rand.NewPCG(1, 2)),
		sessions: make([]Session, devices), next: make([]time.Duration, devices),
	}
	s.Watermark(0, s.Pulse(b.start))
	for i := range b.sessions {
		if _, err := s.Open(&b.sessions[i], strconv.Itoa(i), Hello{}, nil, 0); err != nil {
			t.Fatal(err)
		}
		b.next[i] = time.Duration(b.random.Int64N(int64(interval)))
	}
	return b
}

// pass lets time pass. It returns how many heartbeats there were, and how many of them took a lock.
func (b *beater) pass(t *testing.T, d time.Duration) (beats, slow int) {
	t.Helper()
	const each = 500 * time.Millisecond
	for end := b.now + d; b.now < end; b.now += each {
		for i := range b.sessions {
			if b.next[i] > b.now {
				continue
			}
			if beats++; b.sessions[i].timer.Load() == 0 {
				slow++
			}
			if !b.sessions[i].Beat(b.next[i]) {
				t.Fatal("Beat = false")
			}
			b.next[i] += b.interval + time.Duration((b.random.Float64()-0.5)*0.04*float64(b.interval))
		}
		b.source.Watermark(0, b.source.Pulse(b.start.Add(b.now)))
		if b.now%(5*time.Second) == 0 {
			_, b.heard = b.source.registry.Keeper().Snapshot(b.heard)
			b.source.registry.Keeper().TakeGaps()
		}
	}
	return beats, slow
}

// A heartbeat of a device that beats as ever is one atomic update, whatever its interval, and however tight
// the deadline that was learned.
func TestUsualBeatsTakeNoLock(t *testing.T) {
	for _, interval := range []time.Duration{time.Second, 5 * time.Second, 8 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute} {
		t.Run(interval.String(), func(t *testing.T) {
			r, err := New(noSink{}, Config{Policy: Policy{Timeout: 3 * interval}})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- r.Run(ctx) }()
			defer func() {
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			}()
			r.Keeper().RecordGaps()
			b := startBeater(t, r, 200, interval)
			b.pass(t, 30*interval)
			if beats, slow := b.pass(t, 50*interval); slow*100 > beats {
				t.Errorf("%d of %d heartbeats took a lock", slow, beats)
			}
			for i := range b.sessions {
				if _, err := r.ApplyLearned(strconv.Itoa(i), true); err != nil {
					t.Fatal(err)
				}
			}
			b.pass(t, 10*interval)
			if beats, slow := b.pass(t, 50*interval); slow*100 > beats {
				t.Errorf("%d of %d heartbeats took a lock with a learned deadline", slow, beats)
			}
		})
	}
}
