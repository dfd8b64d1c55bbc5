package mqttreport_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/mqttreport"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/mqttbridge/convention"
)

const (
	sensorTopic = "homeassistant/binary_sensor/holter_lamp/connectivity/config"
	ownBlock    = `{"identifiers":["holter_holter_lamp"],"name":"lamp"}`
	lampBlock   = `{"identifiers":["zigbee2mqtt_0x01"]}`
	macBlock    = `{"connections":[["mac","3c:71:bf:f0:1a:7c"]]}`
)

var (
	lampIdentity = convention.Identity{Value: "zigbee2mqtt_0x01"}
	macIdentity  = convention.Identity{Kind: "mac", Value: "3c:71:bf:f0:1a:7c"}
)

// block returns the device block of a discovery message.
func block(t *testing.T, payload string) string {
	t.Helper()
	var d struct{ Device json.RawMessage }
	if err := json.Unmarshal([]byte(payload), &d); err != nil {
		t.Fatalf("%q: %v", payload, err)
	}
	return string(d.Device)
}

// blocks returns what was published on the topic of the lamp's sensor since it was asked last: device blocks, and "" for a deletion.
func (b *fakeBroker) blocks(t *testing.T) []string {
	t.Helper()
	synctest.Wait()
	got := []string{}
	for _, m := range b.takeLog() {
		switch {
		case m.topic != sensorTopic:
		case m.payload == "":
			got = append(got, "")
		default:
			got = append(got, block(t, m.payload))
		}
	}
	return got
}

func (b *fakeBroker) wantBlocks(t *testing.T, when string, want ...string) {
	t.Helper()
	if got := b.blocks(t); !reflect.DeepEqual(got, append([]string{}, want...)) {
		t.Errorf("%s: published %q, want %q", when, got, want)
	}
}

// The sensor joins the device that Home Assistant has, once, when that becomes known and whenever it changes.
func TestIdentify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFleet(t, 0), newBroker()
		b.delay = func() time.Duration { return time.Duration(rand.IntN(50)) * time.Millisecond }
		b.connect(false)
		r := start(t, mqttreport.Config{Registry: f, Events: f.log, Publisher: b, HomeAssistant: true})
		step := func(when string, do func(), want ...string) {
			t.Helper()
			do()
			time.Sleep(time.Minute)
			b.wantBlocks(t, when, want...)
		}
		identify := func(id convention.Identity) func() { return func() { r.Identify("lamp", id) } }
		happen := func(what liveness.Type) func() { return func() { f.happen("lamp", what) } }
		step("the first event", happen(liveness.DeviceOnline), ownBlock)
		step("an identity", identify(lampIdentity), "", lampBlock)
		step("the same again", identify(lampIdentity))
		step("another event", happen(liveness.DeviceOffline))
		step("another identity", identify(macIdentity), "", macBlock)
		step("none", identify(convention.Identity{}), "", ownBlock)
		step("none again", identify(convention.Identity{}))
		step("an identity and an event", func() { identify(macIdentity)(); happen(liveness.DeviceOnline)() }, "", macBlock)
		step("another source", func() {
			f.change("lamp", func(v *liveness.View) { v.Source = "other" })
			f.happen("lamp", liveness.DeviceLate)
		}, macBlock)
		step("the end of the device", happen(liveness.DeviceForgotten), "")
		step("an identity of no device", identify(lampIdentity))
		step("a device that comes back", happen(liveness.DeviceOnline), lampBlock)
		f.check(t, b.all(), true)
	})
}

// What the broker retains tells after a restart which device a sensor has joined, until it is said anew.
func TestIdentifyAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFleet(t, 0), newBroker()
		f.happen("lamp", liveness.DeviceOnline)
		f.happen("plug", liveness.DeviceOnline)
		b.connect(false)
		first, err := mqttreport.New(mqttreport.Config{Registry: f, Events: f.log, Publisher: b, HomeAssistant: true})
		if err != nil {
			t.Fatal(err)
		}
		stop := run(t, first)
		synctest.Wait()
		first.Identify("lamp", lampIdentity)
		first.Identify("plug", macIdentity)
		b.wantBlocks(t, "before the restart", ownBlock, "", lampBlock)
		stop()
		second := start(t, mqttreport.Config{Registry: f, Events: f.log, Publisher: b, HomeAssistant: true})
		b.wantBlocks(t, "after the restart")
		second.Identify("lamp", lampIdentity)
		b.wantBlocks(t, "said anew")
		b.cut()
		synctest.Wait()
		second.Identify("lamp", macIdentity)
		b.connect(false)
		b.wantBlocks(t, "changed while the broker was away", "", macBlock)
		b.cut()
		b.connect(true)
		b.wantBlocks(t, "a broker that has forgotten everything", macBlock)
		f.check(t, b.all(), true)
	})
}

// Identities change all the time, and events are still published.
func TestIdentifyBesideEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(11, 12))
		f, b := newFleet(t, 0), newBroker()
		b.delay = func() time.Duration { return time.Duration(rand.IntN(20)) * time.Millisecond }
		b.connect(false)
		r := start(t, mqttreport.Config{Registry: f, Events: f.log, Publisher: b, HomeAssistant: true})
		latest := make(map[string]convention.Identity)
		for range 200 {
			f.play(random, 20, 5)
			for range 20 {
				id := "d" + string('0'+rune(random.IntN(10)))
				latest[id] = []convention.Identity{lampIdentity, macIdentity, {}}[random.IntN(3)]
				r.Identify(id, latest[id])
			}
			time.Sleep(time.Duration(random.IntN(30)) * time.Millisecond)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		all := b.all()
		f.check(t, all, true)
		for id, identity := range latest {
			payload, there := all[mqttreport.DiscoveryTopic("homeassistant", id)]
			if !there {
				continue
			}
			want := map[convention.Identity]string{
				lampIdentity: lampBlock, macIdentity: macBlock, {}: strings.ReplaceAll(ownBlock, "lamp", id),
			}[identity]
			if got := block(t, string(payload)); got != want {
				t.Errorf("%s is on device %s, want %s", id, got, want)
			}
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

// What is too long, unreadable or too much is ignored, and said once.
func TestIdentifyHostile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		f, b := newFleet(t, 0), newBroker()
		b.connect(false)
		r, err := mqttreport.New(mqttreport.Config{Registry: f, Events: f.log, Publisher: b, HomeAssistant: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		r.LimitIdentities(1)
		run(t, r)
		f.happen("lamp", liveness.DeviceOnline)
		b.wantBlocks(t, "the first event", ownBlock)
		for _, id := range []convention.Identity{
			{Value: strings.Repeat("x", 256)}, {Value: "a\x00b"}, {Value: "\xff"}, {Kind: "mac"}, {Kind: strings.Repeat("x", 256), Value: "x"}, {Kind: "\n", Value: "x"},
		} {
			r.Identify("lamp", id)
		}
		r.Identify("first", macIdentity)
		r.Identify("lamp", lampIdentity)
		b.wantBlocks(t, "what cannot be kept")
		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "does not join its device") {
			t.Errorf("the log is %s", got)
		}
		r.Identify("first", convention.Identity{})
		r.Identify("lamp", lampIdentity)
		b.wantBlocks(t, "there is room again", "", lampBlock)
	})
}

// A retained message that is not one of ours gives no identity.
func TestRetainedIdentity(t *testing.T) {
	for name, tt := range map[string]struct{ retained, want string }{
		"not JSON":         {"{", ownBlock},
		"of other types":   {`{"device":{"identifiers":"zigbee2mqtt_0x01"}}`, ownBlock},
		"nothing":          {`{"device":{}}`, ownBlock},
		"too long":         {`{"device":{"identifiers":["` + strings.Repeat("x", 300) + `"]}}`, ownBlock},
		"half":             {`{"device":{"connections":[["mac"]]}}`, ownBlock},
		"10,000":           {`{"device":{"identifiers":["zigbee2mqtt_0x01"` + strings.Repeat(`,"x"`, 10_000) + `]}}`, lampBlock},
		"a connection":     {`{"device":{"connections":[["mac","3c:71:bf:f0:1a:7c"]]}}`, macBlock},
		"an earlier one's": {`{"device":{"identifiers":["holter_holter_lamp"],"name":"lamp"}}`, ownBlock},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, b := newFleet(t, 0), newBroker()
				f.happen("lamp", liveness.DeviceOnline)
				b.put(sensorTopic, tt.retained)
				b.connect(false)
				start(t, mqttreport.Config{Registry: f, Events: f.log, Publisher: b, HomeAssistant: true})
				b.wantBlocks(t, "at the start", tt.want)
			})
		})
	}
}

func TestIdentifyWithoutHomeAssistant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFleet(t, 0), newBroker()
		b.connect(false)
		r := start(t, mqttreport.Config{Registry: f, Events: f.log, Publisher: b})
		r.Identify("lamp", lampIdentity)
		f.happen("lamp", liveness.DeviceOnline)
		b.wantBlocks(t, "without discovery")
	})
}
