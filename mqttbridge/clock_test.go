package mqttbridge

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
	"github.com/holter-iot/holter/mqttbridge/convention"
)

// newBridge returns a bridge, and runs its registry until the test ends.
func newBridge(t *testing.T, cfg Config) *Bridge {
	t.Helper()
	log, err := eventlog.New(0)
	if err != nil {
		t.Fatal(err)
	}
	registry, err := liveness.New(log, liveness.Config{})
	if err != nil {
		t.Fatal(err)
	}
	cfg.URL = "tcp://broker"
	b, err := New(registry, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = registry.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return b
}

// connects is a convention to which messages mean nothing.
type connects struct{ told func() }

func (connects) Name() string { return "connects" }

func (connects) Subscriptions() []convention.Subscription { return nil }

func (c connects) Connected(convention.Fleet, func(convention.Sign)) { c.told() }

func (connects) Apply(convention.Message, bool, func(convention.Sign)) error { return nil }

// TestForeignWatermark: what another bridge, or an earlier life, publishes to the topic of the watermarks shows nothing.
func TestForeignWatermark(t *testing.T) {
	cfg := Config{Watermark: "watermark", Conventions: []convention.Convention{connects{}}}
	ours, theirs := newBridge(t, cfg), newBridge(t, cfg)
	now := time.Now()
	mine, due := ours.clock.probe(now)
	other, begun := theirs.clock.probe(now)
	if !due || !begun {
		t.Fatal("no watermark is due")
	}
	ours.clock.back(other, now)
	if ours.clock.back(1, now); ours.clock.listening() {
		t.Error("the clock follows a watermark that is not its own")
	}
	if ours.clock.back(mine, now); !ours.clock.listening() {
		t.Error("the clock does not follow its own watermark")
	}
}

// TestAppliesTheRest: what has come before the end is applied, also if it came when the queue had just been found empty.
func TestAppliesTheRest(t *testing.T) {
	var between func()
	b := newBridge(t, Config{Queue: 1, Conventions: []convention.Convention{connects{func() { between() }}}})
	for round := range 100 {
		ctx, stop := context.WithCancel(t.Context())
		between = func() { // the queue was found empty, and the conventions are told that messages were dropped before
			b.receive(new(link), convention.Message{Topic: "last", Time: time.Now()})
			stop()
		}
		for range 2 { // of which one is dropped
			b.receive(new(link), convention.Message{Topic: "first", Time: time.Now()})
		}
		b.work(ctx)
		if waiting, _ := b.queue.depth(); waiting > 0 {
			t.Fatalf("round %d: %d messages are left", round, waiting)
		}
	}
}
