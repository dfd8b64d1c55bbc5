package mqttreport_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/mqttreport"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// TestRegistry: with a real registry, what is followed is what a comparison would have found: after all kinds of events the retained
// states are those of the registry, and a new connect has nothing to add.
func TestRegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, err := eventlog.New(0)
		if err != nil {
			t.Fatal(err)
		}
		registry, err := liveness.New(log, liveness.Config{
			Policy:   liveness.Policy{Timeout: 10 * time.Second, LateAfter: 5 * time.Second, CloseGrace: time.Second},
			Flapping: liveness.FlappingConfig{Threshold: 2, Window: 30 * time.Second},
			Groups:   []liveness.GroupConfig{{Name: "g", Match: "d1*", Outage: liveness.OutageConfig{Share: 0.5, MinDevices: 1}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		source, err := registry.AddSource(liveness.SourceConfig{Name: "mqtt"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := registry.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		defer wg.Wait()
		defer stop()
		source.Watermark(0, source.Pulse(time.Now()))
		b := newBroker()
		b.connect(false)
		start(t, mqttreport.Config{Registry: registry, Events: log, Publisher: b, HomeAssistant: true})
		random := rand.New(rand.NewPCG(9, 10))
		for range 2000 {
			source.Watermark(0, source.Pulse(time.Now()))
			act(t, registry, source, random)
			time.Sleep(time.Duration(random.IntN(400)) * time.Millisecond)
		}
		source.Watermark(0, source.Pulse(time.Now()))
		synctest.Wait()
		views, _ := registry.List(nil, 0, 1000)
		retained := b.all()
		for _, v := range views {
			s := stateOf(t, retained[mqttreport.StateTopic("holter", v.ID)])
			if s.Seq != v.Seq || s.Epoch != v.Epoch || s.State != v.State.String() || s.Reason != v.Reason.String() {
				t.Errorf("retained: %+v\nregistry: %+v", s, v)
			}
		}
		if len(retained) != 2*len(views)+1 || len(views) == 0 { // the source's status is the one
			t.Errorf("%d messages are retained of %d devices", len(retained), len(views))
		}
		b.takeLog()
		b.cut()
		b.connect(false)
		synctest.Wait()
		if log := b.takeLog(); len(log) > 0 {
			t.Errorf("a new connect found differences: %v", log)
		}
	})
}

// act does something to a device.
func act(t *testing.T, registry *liveness.Registry, source *liveness.Source, random *rand.Rand) {
	t.Helper()
	id, now := fmt.Sprintf("d%d", random.IntN(20)), source.Time(time.Now())
	var err error
	switch random.IntN(12) {
	case 0:
		err = registry.Forget(id)
	case 1:
		_, err = source.Apply(id, liveness.Signal{Kind: liveness.Goodbye, At: now})
	case 2:
		_, err = source.Apply(id, liveness.Signal{Kind: liveness.Sleep, At: now, Length: 3 * time.Second})
	case 3:
		_, err = source.Apply(id, liveness.Signal{Kind: liveness.Failure, At: now, Message: "broken"})
	case 4:
		_, err = source.Apply(id, liveness.Signal{At: now})
	case 5:
		_, err = source.Apply(id, liveness.Signal{Kind: liveness.Disconnected, At: now, Reason: liveness.Will})
	case 6:
		_, err = source.Apply(id, liveness.Signal{Kind: liveness.Retained, At: now, Announced: liveness.Policy{Timeout: liveness.Never}})
	case 7:
		err = registry.SetPolicy(id, liveness.Policy{Timeout: time.Duration(5+random.IntN(10)) * time.Second})
	default:
		_, err = source.Apply(id, liveness.Signal{At: now})
	}
	if err != nil && !errors.Is(err, liveness.ErrUnknownDevice) {
		t.Fatal(err)
	}
}
