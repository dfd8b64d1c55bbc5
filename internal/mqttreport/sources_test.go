package mqttreport_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/keep"
	"github.com/holter-iot/holter/internal/mqttreport"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// newRegistry returns a registry that runs until the returned func is called. Some of its sources are from before a restart.
func newRegistry(t *testing.T, kept ...string) (registry *liveness.Registry, log *eventlog.Log, end func()) {
	t.Helper()
	log, err := eventlog.New(0)
	if err != nil {
		t.Fatal(err)
	}
	if registry, err = liveness.New(log, liveness.Config{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range kept {
		if err := registry.Keeper().RestoreSource(keep.SourceRecord{Name: name, Listened: time.Hour, At: time.Now().Add(-time.Minute)}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := registry.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	return registry, log, func() {
		cancel()
		running.Wait()
	}
}

func addSource(t *testing.T, registry *liveness.Registry, name string) *liveness.Source {
	t.Helper()
	s, err := registry.AddSource(liveness.SourceConfig{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func pulse(s *liveness.Source) { s.Watermark(0, s.Pulse(time.Now())) }

// TestSources: that a source became deaf is one message, whatever the number of its devices, and so is that it listens again.
func TestSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry, log, end := newRegistry(t)
		defer end()
		near, far := addSource(t, registry, "near"), addSource(t, registry, "a/b")
		for _, s := range []*liveness.Source{near, far} {
			pulse(s)
		}
		for _, id := range []string{"x", "y", "z"} {
			if _, err := near.Apply(id, liveness.Signal{At: near.Now()}); err != nil {
				t.Fatal(err)
			}
		}
		b := newBroker()
		b.put("holter/source/gone/status", "online")
		b.put("holter/source/hers/status", "hers")
		b.connect(false)
		start(t, mqttreport.Config{Registry: registry, Events: log, Publisher: b, HomeAssistant: true})
		synctest.Wait()
		want := func(when string, statuses map[string]string) {
			t.Helper()
			time.Sleep(1500 * time.Millisecond)
			synctest.Wait()
			all := b.all()
			for source, status := range statuses {
				if got := string(all["holter/source/"+source+"/status"]); got != status {
					t.Errorf("%s: the status of %s is %q, want %q", when, source, got, status)
				}
			}
		}
		want("at first", map[string]string{"near": "online", "a%2Fb": "online", "gone": "", "hers": "hers"})
		b.takeLog()
		near.Deafen(time.Now())
		want("deaf", map[string]string{"near": "offline", "a%2Fb": "online"})
		b.cut()
		b.connect(true)
		want("deaf, at a new broker", map[string]string{"near": "offline", "a%2Fb": "online"})
		b.takeLog()
		pulse(near)
		want("it listens again", map[string]string{"near": "online", "a%2Fb": "online"})
		if log := b.takeLog(); len(log) != 1 {
			t.Errorf("%d messages, want one: %v", len(log), log)
		}
	})
}

// TestSourceNotHeardYet: after a restart the devices of a source that does not listen yet, or is configured no more, are unknown until it
// does, or until others judge them.
func TestSourceNotHeardYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry, log, end := newRegistry(t, "mqtt:kept", "mqtt:renamed")
		defer end()
		kept := addSource(t, registry, "mqtt:kept")
		b := newBroker()
		b.connect(false)
		start(t, mqttreport.Config{Registry: registry, Events: log, Publisher: b, HomeAssistant: true})
		want := func(when, wantKept, wantRenamed string) {
			t.Helper()
			synctest.Wait()
			all := b.all()
			if got := string(all[mqttreport.SourceTopic("holter", "mqtt:kept")]); got != wantKept {
				t.Errorf("%s: the status is %q, want %q", when, got, wantKept)
			}
			if got := string(all[mqttreport.SourceTopic("holter", "mqtt:renamed")]); got != wantRenamed {
				t.Errorf("%s: the status of the one that is gone is %q, want %q", when, got, wantRenamed)
			}
		}
		want("before the first pulse", "offline", "offline")
		listen := func(d time.Duration) {
			for range d / (500 * time.Millisecond) {
				pulse(kept)
				time.Sleep(500 * time.Millisecond)
			}
		}
		listen(2 * time.Second)
		want("afterwards", "online", "offline")
		if err := registry.Operator().Retire("mqtt:renamed"); err != nil {
			t.Fatal(err)
		}
		listen(5 * time.Second)
		want("when others judge", "online", "online")
	})
}

// TestMoved: the sensor of a device that is heard by another source than before names that one.
func TestMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFleet(t, 0), newBroker()
		b.connect(false)
		start(t, mqttreport.Config{Registry: f, Events: f.log, Publisher: b, HomeAssistant: true})
		of := func() (topics []string) {
			t.Helper()
			synctest.Wait()
			var d mqttreport.Discovery
			if err := json.Unmarshal(b.all()[mqttreport.DiscoveryTopic("homeassistant", "a")], &d); err != nil {
				t.Fatal(err)
			}
			for _, a := range d.Availability {
				topics = append(topics, a.Topic)
			}
			return topics
		}
		want := func(when, source string) {
			t.Helper()
			if got := of(); len(got) != 2 || got[0] != "holter/status" || got[1] != mqttreport.SourceTopic("holter", source) {
				t.Errorf("%s: available by %v, want %s", when, got, source)
			}
		}
		f.happen("a", liveness.DeviceOnline)
		want("at first", "mqtt")
		f.change("a", func(v *liveness.View) { v.Source = "tcp" })
		f.happen("a", liveness.DeviceChanged)
		want("after an event", "tcp")
		b.cut()
		f.change("a", func(v *liveness.View) { v.Source = "udp" })
		b.connect(false)
		want("after a comparison", "udp")
		f.change("a", func(v *liveness.View) { v.Source = "" })
		b.cut()
		b.connect(false)
		if got := of(); len(got) != 1 {
			t.Errorf("a device that no source has heard is available by %v", got)
		}
	})
}

// TestPending: what is decided and not committed yet is not told by a comparison, and told by its event.
func TestPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFleet(t, 0), newBroker()
		f.happen("a", liveness.DeviceOnline)
		f.happen("asked", liveness.DeviceOnline)
		f.change("a", func(v *liveness.View) {
			v.Seq, v.State, v.Decided, v.Reason = 2, liveness.Pending, liveness.Offline, liveness.Silence
		})
		f.change("asked", func(v *liveness.View) { v.State = liveness.Suspect })
		b.connect(false)
		start(t, mqttreport.Config{Registry: f, Events: f.log, Publisher: b, HomeAssistant: true})
		synctest.Wait()
		for topic, payload := range b.all() {
			if topic != mqttreport.StateTopic("holter", "asked") && topic != mqttreport.DiscoveryTopic("homeassistant", "asked") {
				t.Errorf("told before it was committed: %s %s", topic, payload)
			}
		}
		if s := stateOf(t, b.all()[mqttreport.StateTopic("holter", "asked")]); s.State != "online" {
			t.Errorf("a device that is asked for a sign of life: %+v, want it online: no event says that it answered", s)
		}
		f.change("a", func(v *liveness.View) { v.Seq = 1 })
		f.happen("a", liveness.DeviceOffline)
		synctest.Wait()
		if s := stateOf(t, b.all()[mqttreport.StateTopic("holter", "a")]); s.Seq != 2 || s.State != "offline" || s.Reason != "silence" {
			t.Errorf("committed: %+v", s)
		}
		if b.all()[mqttreport.DiscoveryTopic("homeassistant", "a")] == nil {
			t.Error("no sensor")
		}
	})
}
