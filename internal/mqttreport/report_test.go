package mqttreport_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/internal/mqttreport"
	"github.com/holter-iot/holter/liveness"
)

// TestOrder: whatever the delays, a device's messages come in the order of its events, and the last one is what remains.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		f, b := newFleet(t, 0), newBroker()
		b.delay = func() time.Duration { return time.Duration(rand.IntN(50)) * time.Millisecond }
		b.connect(false)
		r := start(t, mqttreport.Config{Registry: f, Events: f.log, Publisher: b, HomeAssistant: true})
		for range 50 {
			f.play(random, 40, 60)
			time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		f.check(t, b.all(), true)
		last := make(map[string]uint64)
		for _, m := range b.takeLog() {
			if !strings.HasSuffix(m.topic, "/state") {
				continue
			}
			if m.payload == "" {
				delete(last, m.topic)
				continue
			}
			s := stateOf(t, []byte(m.payload))
			if s.Seq <= last[m.topic] {
				t.Errorf("%s: %d after %d", m.topic, s.Seq, last[m.topic])
			}
			last[m.topic] = s.Seq
		}
		if st := r.Stats(); st.Published == 0 || st.Cleared == 0 || st.Reconciles != 1 || st.Failed != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// TestSensorFirst: Home Assistant knows a sensor before the first state of it comes, and no more when that is cleared.
func TestSensorFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFleet(t, 0), newBroker()
		b.delay = func() time.Duration { return time.Duration(rand.IntN(50)) * time.Millisecond }
		b.connect(false)
		start(t, mqttreport.Config{Registry: f, Events: f.log, Publisher: b, HomeAssistant: true})
		for i := range 50 {
			id := fmt.Sprint("dev-", i)
			for _, what := range []liveness.Type{liveness.DeviceOnline, liveness.DeviceForgotten} {
				f.happen(id, what)
				time.Sleep(time.Minute)
				synctest.Wait()
				log := b.takeLog()
				if len(log) != 2 || log[0].topic != mqttreport.DiscoveryTopic("homeassistant", id) || log[1].topic != mqttreport.StateTopic("holter", id) {
					t.Errorf("after %v: %v, want the sensor and then the state", what, log)
				}
			}
		}
	})
}

func TestReconcile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFleet(t, 0), newBroker()
		for _, id := range []string{"same", "older", "missing", "a/+#%b"} {
			f.happen(id, liveness.DeviceOnline)
		}
		foreign := map[string]string{
			"holter/someone/state":  `{"hello":"world"}`,
			"holter/other/state":    `{"device":"not other","state":"online"}`,
			"holter/a b%zz/state":   `{"device":"a b%zz"}`,
			"holter/status":         "online",
			"homeassistant/x/y":     "z",
			"holter/deeper/x/state": `{"device":"deeper"}`,
			"homeassistant/binary_sensor/holter_gone/connectivity/config": `{"state_topic":"elsewhere/gone/state"}`,
		}
		for topic, payload := range foreign {
			b.put(topic, payload)
		}
		b.put("holter/same/state", `{"device":"same","seq":1,"epoch":1,"state":"online"}`)
		b.put("holter/older/state", `{"device":"older","seq":7,"epoch":1,"state":"offline","reason":"silence"}`)
		b.put("holter/gone/state", `{"device":"gone","seq":3,"state":"offline"}`)
		b.put("holter/go%2Fne/state", `{"device":"go/ne","seq":3,"state":"offline"}`)
		b.put("homeassistant/binary_sensor/holter_go_2fne/connectivity/config", `{"state_topic":"holter/go%2Fne/state"}`)
		b.connect(false)
		start(t, mqttreport.Config{Registry: f, Events: f.log, Publisher: b, HomeAssistant: true})
		synctest.Wait()
		for topic, payload := range foreign {
			if got := b.all()[topic]; string(got) != payload {
				t.Errorf("%s, which is not ours: now %q", topic, got)
			}
		}
		var states []string
		for _, m := range b.takeLog() {
			if strings.HasPrefix(m.topic, "holter/") {
				states = append(states, m.topic+" "+map[bool]string{true: "cleared"}[m.payload == ""])
			}
		}
		want := map[string]bool{
			"holter/older/state ": true, "holter/missing/state ": true, "holter/a%2F%2B%23%25b/state ": true,
			"holter/gone/state cleared": true, "holter/go%2Fne/state cleared": true,
		}
		for _, s := range states {
			if !want[s] {
				t.Errorf("published: %s", s)
			}
			delete(want, s)
		}
		if len(want) > 0 {
			t.Errorf("not published: %v", want)
		}
		if _, there := b.all()["homeassistant/binary_sensor/holter_go_2fne/connectivity/config"]; there {
			t.Error("the sensor of a device that is gone is still there")
		}
		// What was found is what is followed.
		f.happen("same", liveness.DeviceOffline)
		f.happen("gone", liveness.DeviceOnline)
		synctest.Wait()
		for _, topic := range []string{"holter/same/state", "holter/gone/state"} {
			if s := stateOf(t, b.all()[topic]); s.ID == "" || s.Type == "" {
				t.Errorf("%s after an event: %+v", topic, s)
			}
		}
	})
}

// TestAway: while the broker is away the log moves on; when it is back, all is as it should be, though it had forgotten everything.
func TestAway(t *testing.T) {
	for name, keep := range map[string]int{"the log has all": 10_000, "events are gone": 20} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(3, 4))
				f, b := newFleet(t, keep), newBroker()
				start(t, mqttreport.Config{Registry: f, Events: f.log, Publisher: b, HomeAssistant: true})
				f.play(random, 30, 100)
				for i := range 5 {
					b.connect(i%2 == 0)
					f.play(random, 30, 15)
					synctest.Wait()
					f.check(t, b.all(), true)
					b.cut()
					f.play(random, 30, 100)
					synctest.Wait()
				}
			})
		})
	}
}

// TestSlow: a broker so slow that events are gone before they are read is made up for.
func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(5, 6))
		f, b := newFleet(t, 50), newBroker()
		b.delay = func() time.Duration { return time.Second }
		b.connect(false)
		r := start(t, mqttreport.Config{Registry: f, Events: f.log, Publisher: b, Window: 4})
		for range 100 {
			f.play(random, 30, 20)
			time.Sleep(500 * time.Millisecond)
		}
		time.Sleep(10 * time.Minute)
		f.check(t, b.all(), false)
		if st := r.Stats(); st.Reconciles < 2 {
			t.Errorf("%+v, want more than one comparison", st)
		}
	})
}

func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFleet(t, 0), newBroker()
		f.happen("a", liveness.DeviceOnline)
		b.refuse = true
		b.connect(false)
		start(t, mqttreport.Config{Registry: f, Events: f.log, Publisher: b})
		synctest.Wait()
		f.happen("b", liveness.DeviceOnline)
		synctest.Wait()
		f.check(t, b.all(), false)
	})
}

func TestPayload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFleet(t, 0), newBroker()
		b.connect(false)
		start(t, mqttreport.Config{Registry: f, Events: f.log, Publisher: b, Node: "n1"})
		synctest.Wait()
		f.happen("a", liveness.DeviceOnline)
		time.Sleep(90 * time.Second)
		f.happen("a", liveness.DeviceOffline)
		f.happen("a", liveness.DeviceMaintenanceStarted)
		synctest.Wait()
		seen := time.Now().Add(-90 * time.Second).UTC().Format(time.RFC3339Nano)
		now := time.Now().UTC().Format(time.RFC3339Nano)
		want := map[string]any{
			"device": "a", "state": "offline", "reason": "silence", "seq": 2.0, "epoch": 1.0, "time": now, "last_seen": seen, "deadline": now,
			"heard_silence_ms": 90000.0, "timeout_ms": 90000.0, "policy": "default", "source": "mqtt", "node": "n1",
			"id": "a:2", "type": "io.holter.device.offline",
		}
		log := b.takeLog()
		if len(log) != 3 {
			t.Fatalf("%d messages, want 3: %v", len(log), log)
		}
		var got map[string]any
		if err := json.Unmarshal([]byte(log[1].payload), &got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
		clear(got)
		if err := json.Unmarshal([]byte(log[2].payload), &got); err != nil {
			t.Fatal(err)
		}
		maps.Copy(want, map[string]any{"seq": 3.0, "maintenance": true, "id": "a:3", "type": "io.holter.device.maintenance.started"})
		delete(got, "reason")
		delete(want, "reason")
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
	})
}

// TestDiscovery holds the payload to the documentation of Home Assistant's MQTT binary sensor.
func TestDiscovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFleet(t, 0), newBroker()
		b.connect(false)
		start(t, mqttreport.Config{Registry: f, Events: f.log, Publisher: b, HomeAssistant: true, Prefix: "plant/holter", DiscoveryPrefix: "ha"})
		synctest.Wait()
		f.happen("Pump/1 ü", liveness.DeviceOnline)
		f.happen("Pump/1 ü", liveness.DeviceOffline)
		synctest.Wait()
		const topic = "ha/binary_sensor/holter_Pump_2f1_20_c3_bc/connectivity/config"
		var got map[string]any
		if err := json.Unmarshal(b.all()[topic], &got); err != nil {
			t.Fatalf("%v; retained: %v", err, b.all())
		}
		const state = "plant/holter/Pump%2F1 ü/state"
		want := map[string]any{
			"name": "Connectivity", "unique_id": "holter_plant/holter_Pump/1 ü", "device_class": "connectivity", "state_topic": state,
			"json_attributes_topic": state, "payload_on": "ON", "payload_off": "OFF", "qos": 1.0,
			"value_template": "{{ 'OFF' if value_json.state == 'offline' else 'None' if value_json.state == 'never_seen' else 'ON' }}",
			"availability": []any{
				map[string]any{"topic": "plant/holter/status", "payload_available": "online", "payload_not_available": "offline"},
				map[string]any{"topic": "plant/holter/source/mqtt/status", "payload_available": "online", "payload_not_available": "offline"},
			},
			"availability_mode": "all",
			"device":            map[string]any{"identifiers": []any{"holter_plant/holter_Pump/1 ü"}, "name": "Pump/1 ü"},
			"origin":            map[string]any{"name": "holter", "support_url": "https://github.com/holter-iot/holter"},
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
		if _, ok := b.all()[state]; !ok {
			t.Errorf("nothing is retained on %s", state)
		}
		n := 0
		for _, m := range b.takeLog() {
			if m.topic == topic {
				n++
			}
		}
		if n != 1 {
			t.Errorf("discovery was published %d times, want once", n)
		}
		f.happen("Pump/1 ü", liveness.DeviceForgotten)
		synctest.Wait()
		if left := b.all(); len(left) != 0 {
			t.Errorf("left of a device that was forgotten: %v", left)
		}
	})
}

func TestConfig(t *testing.T) {
	f, b := newFleet(t, 0), newBroker()
	good := mqttreport.Config{Registry: f, Events: f.log, Publisher: b}
	if _, err := mqttreport.New(good); err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]func(*mqttreport.Config){
		"no registry": func(c *mqttreport.Config) { c.Registry = nil },
		"wildcard":    func(c *mqttreport.Config) { c.Prefix = "a/+" },
		"slash":       func(c *mqttreport.Config) { c.Prefix = "a/" },
		"system":      func(c *mqttreport.Config) { c.Prefix = "$SYS" },
		"discovery":   func(c *mqttreport.Config) { c.DiscoveryPrefix = "#" },
		"window":      func(c *mqttreport.Config) { c.Window = -1 },
	} {
		cfg := good
		bad(&cfg)
		if _, err := mqttreport.New(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := mqttreport.NewPaho(mqttreport.PahoConfig{}); err == nil {
		t.Error("no broker: no error")
	}
}

func TestEncode(t *testing.T) {
	for id, want := range map[string]string{
		"plain-1_2.3": "plain-1_2.3", "a/b": "a%2Fb", "+": "%2B", "#": "%23", "100%": "100%25", "ü x": "ü x", "\x00\n\x7f": "%00%0A%7F",
		"\u0085": "%C2%85", "\xff\xfe": "%FF%FE", "\ufeff": "%EF%BB%BF", "\uffff": "%EF%BF%BF", "\ufffd": "\ufffd", "": "",
	} {
		if got := mqttreport.Encode(id); got != want {
			t.Errorf("Encode(%q) = %q, want %q", id, got, want)
		}
		if back, err := mqttreport.Decode(want); err != nil || back != id {
			t.Errorf("Decode(%q) = %q, %v, want %q", want, back, err, id)
		}
	}
	for _, level := range []string{"%", "%2", "%2f", "%zz", "%41", "a/b", "+", "%+1", "% 1", "\xff"} {
		if id, err := mqttreport.Decode(level); err == nil {
			t.Errorf("Decode(%q) = %q, want an error", level, id)
		}
	}
}

func FuzzEncode(f *testing.F) {
	for _, id := range []string{"", "a", "a/b", "+#%", "%2F", "\xff\x00", "ü\u0085\uffff"} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		level := mqttreport.Encode(id)
		if strings.ContainsAny(level, "/+#\x00") {
			t.Errorf("Encode(%q) = %q, which is not one level of a topic", id, level)
		}
		if back, err := mqttreport.Decode(level); err != nil || back != id {
			t.Errorf("Decode(Encode(%q)) = %q, %v", id, back, err)
		}
		if other, err := mqttreport.Decode(id); err == nil && mqttreport.Encode(other) != id {
			t.Errorf("Encode(Decode(%q)) = %q", id, mqttreport.Encode(other))
		}
	})
}
