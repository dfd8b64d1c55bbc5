package presets_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/mqttbridge/convention"
	"github.com/holter-iot/holter/mqttbridge/presets"
)

// vector is a message, and what it means. The vectors of a preset come one after the other.
type vector struct {
	Name     string `json:"name"`
	Topic    string `json:"topic"`
	Payload  string `json:"payload"`
	Retained bool   `json:"retained"`
	Source   string `json:"source"` // the documentation that it follows
	Want     []sign `json:"want"`
	Rejected string `json:"rejected"` // why, if it is
}

type sign struct {
	Device   string             `json:"device"`
	Meaning  convention.Meaning `json:"meaning"`
	Behind   string             `json:"behind"`
	Epoch    uint64             `json:"epoch"`
	Interval string             `json:"interval"`
	Timeout  string             `json:"timeout"` // or never
}

func signOf(s convention.Sign) sign {
	out := sign{Device: s.Device, Meaning: s.Meaning, Behind: s.Behind, Epoch: s.Epoch}
	if s.Interval != 0 {
		out.Interval = s.Interval.String()
	}
	switch s.Timeout {
	case 0:
	case convention.Never:
		out.Timeout = "never"
	default:
		out.Timeout = s.Timeout.String()
	}
	return out
}

func TestVectors(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var vectors []vector
			if err := json.Unmarshal(data, &vectors); err != nil {
				t.Fatal(err)
			}
			for _, explain := range []bool{false, true} {
				preset, err := presets.New(name)
				if err != nil {
					t.Fatal(err)
				}
				subscriptions := preset.Subscriptions()
				for _, v := range vectors {
					t.Run(v.Name, func(t *testing.T) {
						subscriptions = append(subscriptions, v.check(t, preset, subscriptions, explain)...)
					})
				}
			}
		})
	}
}

// check applies the message, and returns the subscriptions that it asks for.
func (v vector) check(t *testing.T, preset convention.Convention, subscriptions []convention.Subscription, explain bool) (more []convention.Subscription) {
	t.Helper()
	got := []sign{}
	m := convention.Message{Topic: v.Topic, Payload: []byte(v.Payload), Retained: v.Retained}
	err := preset.Apply(m, explain, func(s convention.Sign) {
		if (s.Why != "") != explain {
			t.Errorf("%s of %q because %q, asked why: %v", s.Meaning, s.Device, s.Why, explain)
		}
		if s.Meaning != convention.Ignore {
			got = append(got, signOf(s))
		}
		more = append(more, s.Subscribe...)
	})
	var rejected *convention.Rejected
	if errors.As(err, &rejected) != (v.Rejected != "") || rejected != nil && rejected.Reason != v.Rejected {
		t.Fatalf("failed with %v, want a rejection for %q", err, v.Rejected)
	}
	if !reflect.DeepEqual(got, v.Want) {
		t.Errorf("got  %+v\nwant %+v", got, v.Want)
	}
	if !strings.HasPrefix(v.Source, "https://") {
		t.Errorf("the source is %q", v.Source)
	}
	if len(v.Want) > 0 && !subscribed(subscriptions, v.Topic) {
		t.Errorf("none of the subscriptions %v gets %s", subscriptions, v.Topic)
	}
	return more
}

// subscribed reports whether a message on a topic would be received.
func subscribed(subscriptions []convention.Subscription, topic string) bool {
	return slices.ContainsFunc(subscriptions, func(s convention.Subscription) bool {
		filter, levels := strings.Split(s.Filter, "/"), strings.Split(topic, "/")
		for i, f := range filter {
			if f == "#" {
				return true
			}
			if i >= len(levels) || f != "+" && f != levels[i] {
				return false
			}
		}
		return len(filter) == len(levels)
	})
}

func TestNames(t *testing.T) {
	names := presets.Names()
	if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("Names() = %q", names)
	}
	for _, name := range names {
		preset, err := presets.New(name)
		if err != nil {
			t.Fatal(err)
		}
		if preset.Name() != name {
			t.Errorf("preset %s calls itself %s", name, preset.Name())
		}
		spec, ok := presets.Spec(name)
		if !ok {
			continue
		}
		if _, err := os.Stat("testdata/" + name + ".json"); err != nil {
			t.Error(err)
		}
		if spec.Name != name || spec.About == "" || !strings.Contains(spec.YAML(), "  - topic: ") {
			t.Errorf("Spec(%q) =\n%s", name, spec.YAML())
		}
		for line := range strings.Lines(spec.YAML()) {
			if len(line) > 160 {
				t.Errorf("%s: a line of its YAML is long: %s", name, line)
			}
		}
	}
}

func TestSubscriptions(t *testing.T) {
	for _, tt := range []struct {
		name string
		want []convention.Subscription
	}{
		{"raw", []convention.Subscription{{Filter: "+/#"}}},
		{"tasmota", []convention.Subscription{
			{Filter: "tele/#", QoS: 1},
			{Filter: "+/tele/LWT", QoS: 1},
			{Filter: "+/tele/DEEPSLEEP", QoS: 1},
			{Filter: "+/+/tele/LWT", QoS: 1},
			{Filter: "+/+/tele/DEEPSLEEP", QoS: 1},
			{Filter: "+/+/tele/STATE"},
			{Filter: "+/+/+/tele/LWT", QoS: 1},
			{Filter: "+/+/+/tele/DEEPSLEEP", QoS: 1},
			{Filter: "+/+/+/tele/STATE"},
			{Filter: "+/+/+/+/tele/LWT", QoS: 1},
			{Filter: "+/+/+/+/tele/DEEPSLEEP", QoS: 1},
			{Filter: "+/+/+/+/tele/STATE"},
			{Filter: "+/tele/+"},
			{Filter: "stat/+/+"},
			{Filter: "+/stat/+"},
			{Filter: "tasmota/discovery/+/config", QoS: 1},
		}},
		{"aws", []convention.Subscription{{Filter: "$aws/events/presence/connected/#", QoS: 1}, {Filter: "$aws/events/presence/disconnected/#", QoS: 1}}},
		{"zigbee2mqtt", []convention.Subscription{{Filter: "zigbee2mqtt/#", QoS: 1}}},
		{"esphome", []convention.Subscription{{Filter: "+/status", QoS: 1}, {Filter: "+/+/status", QoS: 1}, {Filter: "+/+/+/status", QoS: 1}, {Filter: "+/+/+/+/status", QoS: 1}}},
		{"emqx", []convention.Subscription{{Filter: "$SYS/brokers/+/clients/#", QoS: 1}}},
	} {
		preset, err := presets.New(tt.name)
		if err != nil {
			t.Fatal(err)
		}
		if got := preset.Subscriptions(); !slices.Equal(got, tt.want) {
			t.Errorf("%s: Subscriptions() = %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestUnknown(t *testing.T) {
	for _, tt := range []struct{ name, hint string }{
		{"tasmotta", `did you mean "tasmota"?`},
		{"Tasmota", `did you mean "tasmota"?`},
		{"zigbee", `did you mean "zigbee2mqtt"?`},
		{"mosquitto", "there are "},
		{"", "there are "},
	} {
		_, err := presets.New(tt.name)
		if err == nil || !strings.Contains(err.Error(), tt.hint) || !strings.Contains(err.Error(), "esphome, ") {
			t.Errorf("New(%q) failed with %v, want %q in it", tt.name, err, tt.hint)
		}
	}
	if _, ok := presets.Spec("sparkplug"); ok {
		t.Error("sparkplug is said to be data")
	}
}

// A message that one preset understands is not to be a heartbeat of another device for one that is used beside it.
func TestBesideEachOther(t *testing.T) {
	beside := map[string]bool{"chirpstack": true, "thethingsstack": true, "tasmota": true, "zigbee2mqtt": true, "esphome": true, "shelly": true, "homie": true, "emqx": true, "nats": true}
	for file := range beside {
		data, err := os.ReadFile("testdata/" + file + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var vectors []vector
		if err := json.Unmarshal(data, &vectors); err != nil {
			t.Fatal(err)
		}
		for other := range beside {
			preset, err := presets.New(other)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range vectors {
				if other == file || len(v.Want) == 0 {
					continue
				}
				m := convention.Message{Topic: v.Topic, Payload: []byte(v.Payload)}
				err := preset.Apply(m, false, func(s convention.Sign) {
					if s.Device != v.Want[0].Device {
						t.Errorf("%s of %s is for %s: %+v", v.Topic, file, other, s)
					}
				})
				if err != nil {
					t.Errorf("%s of %s: %s rejects it: %v", v.Topic, file, other, err)
				}
			}
		}
	}
}

func FuzzPresets(f *testing.F) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil {
		f.Fatal(err)
	}
	var all []convention.Convention
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		var vectors []vector
		if err := json.Unmarshal(data, &vectors); err != nil {
			f.Fatal(err)
		}
		for _, v := range vectors {
			f.Add(v.Topic, []byte(v.Payload), v.Retained)
		}
		preset, err := presets.New(strings.TrimSuffix(filepath.Base(file), ".json"))
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, preset)
	}
	f.Fuzz(func(t *testing.T, topic string, payload []byte, retained bool) {
		for _, preset := range all {
			err := preset.Apply(convention.Message{Topic: topic, Payload: payload, Retained: retained}, true, func(s convention.Sign) {
				of := s.Meaning != convention.Ignore && s.Meaning != convention.Deaf && s.Meaning != convention.Heard
				if of && liveness.ValidateID(s.Device) != nil || s.Timeout < convention.Never || s.Why == "" {
					t.Errorf("%s: %q %q: %+v", preset.Name(), topic, payload, s)
				}
			})
			var rejected *convention.Rejected
			if err != nil && !errors.As(err, &rejected) {
				t.Errorf("%s: %q %q: %v", preset.Name(), topic, payload, err)
			}
		}
	})
}
