package tasmota_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/mqttbridge/convention"
	"github.com/holter-iot/holter/mqttbridge/internal/tasmota"
)

func newTasmota(tb testing.TB) *tasmota.Tasmota {
	tb.Helper()
	c, err := tasmota.New()
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// description is the message of a device on its topic below tasmota/discovery/.
func description(topic, fullTopic, prefixes, online string) []byte {
	return fmt.Appendf(nil, `{"hn":"lamp-6780","mac":"3C71BFF01A7C","ofln":"Offline","onln":%q,"t":%q,"ft":%q,"tp":%s,"ver":1}`, online, topic, fullTopic, prefixes)
}

const prefixes = `["cmnd","stat","tele"]`

// apply applies a message, and returns its signs.
func apply(tb testing.TB, c convention.Convention, topic string, payload []byte) []convention.Sign {
	tb.Helper()
	var signs []convention.Sign
	if err := c.Apply(convention.Message{Topic: topic, Payload: payload}, false, func(s convention.Sign) { signs = append(signs, s) }); err != nil {
		tb.Fatalf("%s: %v", topic, err)
	}
	return signs
}

// What the rules receive is not subscribed to again, since a broker may send it twice then.
func TestSubscriptions(t *testing.T) {
	for _, tt := range []struct {
		name, fullTopic, prefixes, online string
		want                              []string
	}{
		{"the default", "%prefix%/%topic%/", prefixes, "Online", nil},
		{"turned round", "%topic%/%prefix%/", prefixes, "Online", nil},
		{"several levels", "%prefix%/house/kitchen/%topic%/", prefixes, "Online", []string{"stat/house/kitchen/lamp/+"}},
		{"another order", "house/%prefix%/%topic%", prefixes, "Online", []string{"house/tele/lamp/+", "house/stat/lamp/+"}},
		{"renamed prefixes", "%prefix%/%topic%/", `["c","s","t"]`, "Online", []string{"t/lamp/+", "s/lamp/+"}},
		{"its LWT is to be sent again", "%prefix%/%topic%/", prefixes, "here", []string{"tele/lamp/+"}},
		{"host name and MAC", "%prefix%//%hostname%#/%id%/", prefixes, "Online", []string{"stat/lamp-6780/3C71BFF01A7C/+"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			signs := apply(t, newTasmota(t), "tasmota/discovery/3C71BFF01A7C/config", description("lamp", tt.fullTopic, tt.prefixes, tt.online))
			var got []string
			for _, s := range signs {
				for _, f := range s.Subscribe {
					got = append(got, f.Filter)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("subscriptions = %q, want %q", got, tt.want)
			}
		})
	}
}

// A device that moves to other topics is not heard on the old ones.
func TestMoved(t *testing.T) {
	c := newTasmota(t)
	const config = "tasmota/discovery/3C71BFF01A7C/config"
	apply(t, c, config, description("lamp", "a/%prefix%/%topic%/", prefixes, "Online"))
	apply(t, c, config, description("lamp", "b/%prefix%/%topic%/", prefixes, "Online"))
	if signs := apply(t, c, "a/tele/lamp/STATE", []byte("{}")); len(signs) != 0 {
		t.Errorf("the old topic means %+v", signs)
	}
	if signs := apply(t, c, "b/tele/lamp/STATE", []byte("{}")); len(signs) != 1 || signs[0].Device != "b/lamp" {
		t.Errorf("the new topic means %+v", signs)
	}
}

func TestDeepSleep(t *testing.T) {
	for payload, want := range map[string]time.Duration{
		`{"DeepSleep":{"Time":"2026-03-07T12:00:00","DeepSleep":1772881200,"Wakeup":1772884800}}`: 66 * time.Minute,
		`{"DeepSleep":{"Time":"2026-03-07T12:00:00"}}`:                                            0,
		`{"DeepSleep":{"DeepSleep":1772884800,"Wakeup":1772881200}}`:                              0,
		`{"DeepSleep":{"DeepSleep":-9223372036854775808,"Wakeup":9223372036854775807}}`:           0,
		`{"DeepSleep":{"DeepSleep":0,"Wakeup":9223372036854775807}}`:                              366 * 24 * time.Hour * 11 / 10,
		`{"DeepSleep":"2026-03-07T12:00:00"}`:                                                     0,
	} {
		c := newTasmota(t)
		apply(t, c, "tasmota/discovery/3C71BFF01A7C/config", description("found", "x/%prefix%/%topic%/", prefixes, "Online"))
		for _, topic := range []string{"tele/cellar/DEEPSLEEP", "x/tele/found/DEEPSLEEP"} {
			signs := apply(t, c, topic, []byte(payload))
			if len(signs) != 1 || signs[0].Meaning != convention.Sleep || signs[0].Length != want {
				t.Errorf("%s %s means %+v, want a sleep of %v", topic, payload, signs, want)
			}
		}
	}
}

// A retained message is about a sleep that began when it was published, by the local time of the device, which may be 12 hours behind.
func TestRetainedDeepSleep(t *testing.T) {
	const began, length = 1772881200, 66 * time.Minute
	full := fmt.Sprintf(`{"DeepSleep":{"Time":"2026-03-07T12:00:00","DeepSleep":%d,"Wakeup":%d}}`, began, began+3600)
	for _, tt := range []struct {
		payload string
		after   time.Duration
		want    time.Duration // 0: it means nothing
	}{
		{full, 0, length},
		{full, 12 * time.Hour, length},
		{full, 12*time.Hour + 10*time.Minute, length - 10*time.Minute},
		{full, 12*time.Hour + length, 0},
		{full, 90 * 24 * time.Hour, 0},
		{full, -time.Hour, length},
		{`{"DeepSleep":{"Time":"2026-03-07T12:00:00"}}`, 0, 0},
	} {
		c := newTasmota(t)
		apply(t, c, "tasmota/discovery/3C71BFF01A7C/config", description("found", "x/%prefix%/%topic%/", prefixes, "Online"))
		for _, topic := range []string{"tele/cellar/DEEPSLEEP", "x/tele/found/DEEPSLEEP"} {
			var signs []convention.Sign
			m := convention.Message{Topic: topic, Payload: []byte(tt.payload), Retained: true, Time: time.Unix(began, 0).Add(tt.after)}
			if err := c.Apply(m, false, func(s convention.Sign) { signs = append(signs, s) }); err != nil {
				t.Fatal(err)
			}
			if tt.want == 0 && len(signs) > 0 || tt.want > 0 && (len(signs) != 1 || signs[0].Meaning != convention.Sleep || signs[0].Length != tt.want) {
				t.Errorf("%s, %v after its time, means %+v, want a sleep of %v", topic, tt.after, signs, tt.want)
			}
		}
	}
}

func TestLimit(t *testing.T) {
	c := newTasmota(t)
	c.SetLimit(2)
	for i := range 3 {
		payload := description(strconv.Itoa(i), "%prefix%/%topic%/", prefixes, "Online")
		err := c.Apply(convention.Message{Topic: fmt.Sprintf("tasmota/discovery/%d/config", i), Payload: payload}, false, func(convention.Sign) {})
		rejected, ok := errors.AsType[*convention.Rejected](err)
		if ok != (i == 2) || ok && rejected.Reason != "limit" {
			t.Errorf("description %d: %v", i, err)
		}
	}
	apply(t, c, "tasmota/discovery/0/config", nil)
	apply(t, c, "tasmota/discovery/2/config", description("2", "%prefix%/%topic%/", prefixes, "Online"))
}

// FuzzApply has any description and any message behind it.
func FuzzApply(f *testing.F) {
	f.Add(description("lamp", "%prefix%/%topic%/", prefixes, "Online"), "tele/lamp/LWT", []byte("Online"))
	f.Add(description("lamp", "/%topic%//%prefix%#", prefixes, "Online"), "/lamp/tele/STATE", []byte("{}"))
	raw, err := os.ReadFile("../../presets/testdata/tasmota.json")
	if err != nil {
		f.Fatal(err)
	}
	var vectors []struct{ Topic, Payload string }
	if err := json.Unmarshal(raw, &vectors); err != nil {
		f.Fatal(err)
	}
	for _, v := range vectors {
		f.Add([]byte(v.Payload), v.Topic, []byte(v.Payload))
	}
	f.Fuzz(func(t *testing.T, description []byte, topic string, payload []byte) {
		c := newTasmota(t)
		for _, m := range []convention.Message{
			{Topic: "tasmota/discovery/3C71BFF01A7C/config", Payload: description},
			{Topic: topic, Payload: payload},
			{Topic: "tasmota/discovery/3C71BFF01A7C/config"},
		} {
			err := c.Apply(m, true, func(s convention.Sign) {
				if s.Why == "" || s.Length < 0 || s.Meaning != convention.Ignore && liveness.ValidateID(s.Device) != nil {
					t.Errorf("%q %q: %+v", m.Topic, m.Payload, s)
				}
			})
			if _, ok := errors.AsType[*convention.Rejected](err); err != nil && !ok {
				t.Errorf("%q %q: %v", m.Topic, m.Payload, err)
			}
		}
	})
}

// Home Assistant's integration of Tasmota knows a device by its MAC address, as long as it is described.
func TestDescribed(t *testing.T) {
	const config, other = "tasmota/discovery/3C71BFF01A7C/config", "tasmota/discovery/3C71BFF01A7D/config"
	mac := convention.Identity{Kind: "mac", Value: "3c:71:bf:f0:1a:7c"}
	c := newTasmota(t)
	for _, tt := range []struct {
		name, topic string
		payload     []byte
		device      string
		id          convention.Identity
	}{
		{"described", config, description("lamp", "%prefix%/%topic%/", prefixes, "Online"), "lamp", mac},
		{"renamed", config, description("bulb", "%prefix%/%topic%/", prefixes, "Online"), "bulb", mac},
		{"no MAC", other, []byte(`{"mac":"here","ofln":"off","onln":"on","t":"plug","ft":"%prefix%/%topic%/","tp":["c","s","t"]}`), "plug", convention.Identity{}},
		{"off", config, nil, "", convention.Identity{}},
	} {
		apply(t, c, tt.topic, tt.payload)
		if device, id, ok := c.Described(tt.topic); device != tt.device || id != tt.id || !ok {
			t.Errorf("%s: %q, %v, %v, want %q, %v", tt.name, device, id, ok, tt.device, tt.id)
		}
	}
	if _, _, ok := c.Described("tele/lamp/LWT"); ok {
		t.Error("a last will describes a device")
	}
}

func TestDeviceOf(t *testing.T) {
	c := newTasmota(t)
	apply(t, c, "tasmota/discovery/3C71BFF01A7C/config", description("lamp", "house/%prefix%/%topic%/", prefixes, "Online"))
	for topic, want := range map[string]string{"house/tele/lamp/LWT": "house/lamp", "tele/plug/LWT": "plug", "cmnd/plug/POWER": "", "": ""} {
		if got, ok := c.DeviceOf(topic); got != want || ok != (want != "") {
			t.Errorf("DeviceOf(%q) = %q, %v, want %q", topic, got, ok, want)
		}
	}
}
