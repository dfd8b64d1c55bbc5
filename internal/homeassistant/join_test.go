package homeassistant_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/homeassistant"
	"github.com/holter-iot/holter/mqttbridge/convention"
	"github.com/holter-iot/holter/mqttbridge/presets"
)

func newJoin(tb testing.TB, names ...string) *homeassistant.Join {
	tb.Helper()
	var others []convention.Convention
	for _, name := range names {
		c, err := presets.New(name)
		if err != nil {
			tb.Fatal(err)
		}
		others = append(others, c)
	}
	return homeassistant.NewJoin("homeassistant", others)
}

// joined applies a discovery message, and returns what devices are known by now, sorted.
func joined(tb testing.TB, j *homeassistant.Join, at, payload string) []string {
	tb.Helper()
	got := []string{}
	err := j.Apply(convention.Message{Topic: "homeassistant/" + at + "/config", Payload: []byte(payload)}, false, func(s convention.Sign) {
		if s.Meaning != convention.Ignore || s.Identity == nil {
			tb.Errorf("the sign %+v", s)
			return
		}
		got = append(got, strings.TrimSpace(s.Device+" "+s.Identity.Kind+" "+s.Identity.Value))
	})
	if err != nil {
		tb.Fatalf("%s: %v", at, err)
	}
	slices.Sort(got)
	return got
}

func TestJoin(t *testing.T) {
	type step struct {
		at, payload string
		want        []string
	}
	const (
		lamp   = `{"availability":[{"topic":"zigbee2mqtt/bridge/state"},{"topic":"zigbee2mqtt/lamp/availability"}],"state_topic":"zigbee2mqtt/lamp","device":{"identifiers":["lamp1"],"via_device":"bridge"}}`
		newOne = `{"state_topic":"zigbee2mqtt/lamp","device":{"identifiers":["lamp2"],"via_device":"bridge"}}`
	)
	for name, tt := range map[string]struct {
		presets []string
		steps   []step
	}{
		"once, until its last entity is removed": {[]string{"zigbee2mqtt"}, []step{
			{"light/1/light", lamp, []string{"lamp  lamp1"}},
			{"light/1/light", lamp, nil},
			{"sensor/1/power", lamp, nil},
			{"light/1/light", "", nil},
			{"sensor/1/power", "", []string{"lamp"}},
			{"sensor/1/power", "", nil},
		}},
		"a device takes the place of another": {[]string{"zigbee2mqtt"}, []step{
			{"light/1/light", lamp, []string{"lamp  lamp1"}},
			{"light/2/light", newOne, []string{"lamp"}},
			{"light/1/light", "", []string{"lamp  lamp2"}},
		}},
		"by its state topic alone": {[]string{"zigbee2mqtt"}, []step{{"light/2/light", newOne, []string{"lamp  lamp2"}}}},
		"a text, and a connection": {[]string{"esphome"}, []step{
			{"sensor/node/a", `{"avty_t":"node/status","dev":{"ids":"aabbccddeeff","cns":[["mac","aabbccddeeff"]]}}`, []string{"node  aabbccddeeff"}},
			{"sensor/other/a", `{"~":"other","avty_t":"~/status","dev":{"cns":[["mac","aabbccddee00"]]}}`, []string{"other mac aabbccddee00"}},
		}},
		"a gateway and what is behind it": {[]string{"tasmota"}, []step{
			{"sensor/s1/a", `{"avty_t":"tele/gate/LWT","dev":{"ids":["s1"],"via_device":"g"}}`, []string{"gate  s1"}},
			{"sensor/s2/a", `{"avty_t":"tele/gate/LWT","dev":{"ids":["s2"],"via_device":"g"}}`, []string{"gate"}},
			{"sensor/g/a", `{"avty_t":"tele/gate/LWT","dev":{"ids":["g"]}}`, []string{"gate  g"}},
			{"sensor/s3/a", `{"avty_t":"tele/gate/LWT","dev":{"ids":["s3"],"via_device":"g"}}`, nil},
		}},
		"two that reach Home Assistant through each other": {[]string{"tasmota"}, []step{
			{"sensor/a/a", `{"avty_t":"tele/x/LWT","dev":{"ids":["a"],"via_device":"b"}}`, []string{"x  a"}},
			{"sensor/b/a", `{"avty_t":"tele/x/LWT","dev":{"ids":["b"],"via_device":"a"}}`, []string{"x"}},
		}},
		"through itself": {[]string{"tasmota"}, []step{
			{"sensor/a/a", `{"avty_t":"tele/x/LWT","dev":{"ids":["a"],"via_device":"a"}}`, []string{"x  a"}},
		}},
		"several conventions": {[]string{"tasmota", "homeassistant"}, []step{
			{"sensor/a/a", `{"avty_t":"tele/x/LWT","dev":{"ids":["a"]}}`, []string{"a  a", "x  a"}},
		}},
		"device-based discovery": {[]string{"homie"}, []step{
			{"device/a", `{"dev":{"ids":["a"]},"o":{"name":"x"},"avty_t":"homie/5/car/$state","cmps":{"one":{"p":"sensor","unique_id":"1"},"two":{"p":"sensor","unique_id":"2"}}}`, []string{"car  a"}},
		}},
		"of nobody": {[]string{"zigbee2mqtt", "homeassistant"}, []step{
			{"sensor/a", `{"state_topic":"elsewhere","unique_id":"a"}`, nil},
			{"sensor/b", `{"state_topic":"zigbee2mqtt/lamp","device":"lamp"}`, nil},
			{"sensor/c", `{"state_topic":"zigbee2mqtt/lamp","device":{"identifiers":[],"connections":[["mac"]]}}`, nil},
			{"sensor/d", `{"state_topic":"zigbee2mqtt/bridge/state","device":{"identifiers":{"a":1},"connections":7}}`, nil},
			{"sensor/e", `{"state_topic":"zigbee2mqtt/lamp","device":{"identifiers":["x"]},"origin":{"name":"holter"}}`, nil},
			{"sensor/f", `{"state_topic":"zigbee2mqtt/lamp","device":{"identifiers":["x"]},"migrate_discovery":true}`, nil},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJoin(t, tt.presets...)
			for _, s := range tt.steps {
				if got := joined(t, j, s.at, s.payload); !slices.Equal(got, s.want) {
					t.Errorf("%s %s: %q, want %q", s.at, s.payload, got, s.want)
				}
			}
		})
	}
}

func TestJoinRejects(t *testing.T) {
	topics := make([]string, 17)
	for i := range topics {
		topics[i] = fmt.Sprintf(`{"topic":"tele/d%d/LWT"}`, i)
	}
	manyDevices := `{"device":{"identifiers":["x"]},"availability":[` + strings.Join(topics, ",") + "]}"
	for name, tt := range map[string]struct{ payload, reason string }{
		"long":         {`{"avty_t":"tele/x/LWT","dev":{"ids":"` + strings.Repeat("x", 256) + `"}}`, "device_id"},
		"control":      {`{"avty_t":"tele/x/LWT","dev":{"cns":[["mac","a\u0000"]]}}`, "identity"},
		"many devices": {manyDevices, "limit"},
		"not JSON":     {"{", "json"},
		"large":        {`{"dev":{"ids":["` + strings.Repeat("x", 300_000) + `"]}}`, "payload"},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJoin(t, "tasmota")
			err := j.Apply(convention.Message{Topic: "homeassistant/sensor/a/config", Payload: []byte(tt.payload)}, true, func(s convention.Sign) { t.Errorf("the sign %+v", s) })
			rejected, ok := errors.AsType[*convention.Rejected](err)
			if !ok || rejected.Reason != tt.reason {
				t.Errorf("failed with %v, want %s", err, tt.reason)
			}
		})
	}
	t.Run("10,000 identifiers", func(t *testing.T) {
		payload := `{"avty_t":"tele/x/LWT","dev":{"ids":["a"` + strings.Repeat(`,"b"`, 10_000) + `]}}`
		if got := joined(t, newJoin(t, "tasmota"), "sensor/a", payload); !slices.Equal(got, []string{"x  a"}) {
			t.Errorf("%q", got)
		}
	})
	t.Run("10,000 devices of one topic", func(t *testing.T) {
		j := newJoin(t, "tasmota")
		signs := 0
		for i := range 10_000 {
			signs += len(joined(t, j, fmt.Sprintf("sensor/%d/a", i), fmt.Sprintf(`{"avty_t":"tele/x/LWT","dev":{"ids":["s%d"]}}`, i)))
		}
		if signs != 2 { // one, then none
			t.Errorf("%d signs", signs)
		}
	})
	t.Run("too many bytes", func(t *testing.T) {
		j := newJoin(t, "tasmota")
		homeassistant.Limit(j, 1000)
		const payload = `{"avty_t":"tele/x/LWT","dev":{"ids":["a"]}}`
		joined(t, j, "sensor/a", payload)
		message := convention.Message{Topic: "homeassistant/sensor/b/config", Payload: []byte(payload)}
		if err := j.Apply(message, false, func(convention.Sign) {}); err == nil || !strings.Contains(err.Error(), "no more is taken") {
			t.Errorf("failed with %v", err)
		}
		joined(t, j, "sensor/a", "")
		joined(t, j, "sensor/b", payload)
	})
	t.Run("other topics", func(t *testing.T) {
		for _, topic := range []string{"tele/x/LWT", "homeassistant/status", "homeassistantx/sensor/a/config", "other/sensor/a/config"} {
			err := newJoin(t, "tasmota").Apply(convention.Message{Topic: topic, Payload: []byte("{")}, true, func(s convention.Sign) { t.Errorf("the sign %+v", s) })
			if err != nil {
				t.Errorf("%s: %v", topic, err)
			}
		}
	})
}

// A Tasmota device changes between the two kinds of discovery (SetOption19), whatever comes first.
func TestJoinDescribed(t *testing.T) {
	const native, ours, description = "tasmota/discovery/3C71BFF01A7C/config", "homeassistant/switch/F01A7C_RL_1/config",
		`{"t":"lamp","ft":"%prefix%/%topic%/","tp":["cmnd","stat","tele"],"ofln":"Offline","onln":"Online","mac":"3C71BFF01A7C"}`
	const entity = `{"avty_t":"tele/lamp/LWT","dev":{"ids":["F01A7C"]}}`
	preset, err := presets.New("tasmota")
	if err != nil {
		t.Fatal(err)
	}
	j := homeassistant.NewJoin("homeassistant", []convention.Convention{preset})
	for i, tt := range []struct{ topic, payload, want string }{
		{native, description, "lamp mac 3c:71:bf:f0:1a:7c"},
		{native, description, ""},
		{native, "{", ""},
		{ours, entity, "lamp"}, // two, until one is removed
		{native, "", "lamp  F01A7C"},
		{native, "", ""},
		{ours, "", "lamp"},
		{native, description, "lamp mac 3c:71:bf:f0:1a:7c"},
		{"tele/lamp/LWT", "Online", ""},
	} {
		got := ""
		m := convention.Message{Topic: tt.topic, Payload: []byte(tt.payload)}
		_ = preset.Apply(m, false, func(convention.Sign) {})
		if err := j.Apply(m, false, func(s convention.Sign) {
			got = strings.TrimSpace(s.Device + " " + s.Identity.Kind + " " + s.Identity.Value)
		}); err != nil {
			t.Fatal(err)
		}
		if got != tt.want {
			t.Errorf("%d: %s %s: %q, want %q", i+1, tt.topic, tt.payload, got, tt.want)
		}
	}
}

// The subscriptions are asked for, so that a broker that refuses them is of use without.
func TestJoinSubscribes(t *testing.T) {
	j := newJoin(t, "tasmota")
	var got []convention.Subscription
	j.Connected(nil, func(s convention.Sign) { got = append(got, s.Subscribe...) })
	want := []convention.Subscription{{Filter: "homeassistant/+/+/config", QoS: 1}, {Filter: "homeassistant/+/+/+/config", QoS: 1}}
	if !slices.Equal(got, want) || len(j.Subscriptions()) != 0 || j.Name() != "join" {
		t.Errorf("asked for %v, and needs %v", got, j.Subscriptions())
	}
	newJoin(t, "homeassistant").Connected(nil, func(s convention.Sign) { t.Errorf("beside the preset: %+v", s) })
}

func TestJoinExplains(t *testing.T) {
	j, why := newJoin(t, "esphome"), ""
	for _, payload := range []string{`{"avty_t":"node/status","dev":{"ids":"aabb"}}`, ""} {
		err := j.Apply(convention.Message{Topic: "homeassistant/sensor/a/config", Payload: []byte(payload)}, true, func(s convention.Sign) { why += s.Why + "." })
		if err != nil {
			t.Fatal(err)
		}
	}
	if why != "Home Assistant knows it by aabb.Home Assistant does not know it." {
		t.Errorf("it says %q", why)
	}
}

func BenchmarkJoin(b *testing.B) {
	const devices, entities = 2000, 15
	for b.Loop() {
		j := newJoin(b, "zigbee2mqtt")
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range devices {
			for k := range entities {
				joined(b, j, fmt.Sprintf("sensor/0x%016x/entity%d", i, k), fmt.Sprintf(`{"availability":[{"topic":"zigbee2mqtt/bridge/state"},{"topic":"zigbee2mqtt/room/lamp%d/availability"}],
					"device":{"identifiers":["zigbee2mqtt_0x%016x"],"via_device":"zigbee2mqtt_bridge_0x00124b0000000000"}}`, i, i))
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/devices, "B/device")
		runtime.KeepAlive(j)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/devices/entities, "ns/message")
}

func FuzzJoin(f *testing.F) {
	f.Add("homeassistant/sensor/a/config", []byte(`{"avty_t":"tele/x/LWT","dev":{"ids":["a"],"cns":[["mac","b"]],"via_device":"c"}}`))
	f.Add("homeassistant/device/a/config", []byte(`{"dev":{"ids":"a"},"o":{"name":"x"},"stat_t":"tele/x/STATE","cmps":{"one":{"p":"sensor"}}}`))
	j := newJoin(f, "tasmota", "zigbee2mqtt", "homie", "homeassistant")
	f.Fuzz(func(t *testing.T, topic string, payload []byte) {
		for _, payload := range [][]byte{payload, nil} {
			err := j.Apply(convention.Message{Topic: topic, Payload: payload}, true, func(s convention.Sign) {
				if s.Device == "" || s.Identity == nil || *s.Identity != (convention.Identity{}) && s.Identity.Check() != nil || s.Why == "" {
					t.Errorf("%q %q: %+v", topic, payload, s)
				}
			})
			if _, ok := errors.AsType[*convention.Rejected](err); err != nil && !ok {
				t.Errorf("%q %q: %v", topic, payload, err)
			}
		}
	})
}
