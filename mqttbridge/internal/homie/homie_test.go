package homie_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holter-iot/holter/mqttbridge/convention"
	"github.com/holter-iot/holter/mqttbridge/internal/homie"
)

// message is one, and what it is to mean: "device meaning", in order.
type message struct {
	topic, payload string
	retained       bool
	want           []string
}

const (
	bridge = `{"homie":"5.0","version":7,"children":["light1","light2"],"nodes":{}}`
	light  = `{"homie":"5.0","version":7,"root":"bridge","parent":"bridge","nodes":{}}`
)

func TestTrees(t *testing.T) {
	online := []message{
		{"homie/5/bridge/$state", "ready", false, []string{"bridge online"}},
		{"homie/5/bridge/$description", bridge, false, []string{"bridge beat"}},
		{"homie/5/light1/$state", "ready", false, []string{"light1 online"}},
		{"homie/5/light2/$state", "disconnected", false, []string{"light2 bye"}},
	}
	for _, tt := range []struct {
		name     string
		messages []message
	}{
		{"the root is lost, and comes back", append(slices.Clone(online),
			message{"homie/5/bridge/$state", "lost", false, []string{"bridge offline", "light1 offline", "light2 offline"}},
			message{"homie/5/bridge/$state", "init", false, []string{"bridge online", "light1 online"}},
			message{"homie/5/bridge/$state", "ready", false, []string{"bridge online"}},
			message{"homie/5/light2/$state", "ready", false, []string{"light2 online"}})},
		{"a child is lost alone", append(slices.Clone(online), message{"homie/5/light1/$state", "lost", false, []string{"light1 offline"}})},
		{"what is retained, the will first", []message{
			{"homie/5/bridge/$state", "lost", true, []string{"bridge offline"}},
			{"homie/5/light1/$description", light, true, []string{"light1 beat"}},
			{"homie/5/light1/$state", "ready", true, []string{"light1 offline"}},
			{"homie/5/light1/$state", "ready", false, []string{"light1 online"}},
		}},
		{"what is retained, the tree last", []message{
			{"homie/5/light1/$state", "ready", true, []string{"light1 online"}},
			{"homie/5/light2/$state", "disconnected", true, []string{"light2 bye"}},
			{"homie/5/bridge/$state", "lost", true, []string{"bridge offline"}},
			{"homie/5/bridge/$description", bridge, true, []string{"bridge beat", "light1 offline"}},
		}},
		{"a removed child", append(slices.Clone(online),
			message{"homie/5/light1/$state", "", false, []string{"light1 gone"}},
			message{"homie/5/bridge/$state", "lost", false, []string{"bridge offline", "light2 offline"}})},
		{"a removed root", append(slices.Clone(online),
			message{"homie/5/bridge/$state", "", false, []string{"bridge gone"}},
			message{"homie/5/light1/$state", "lost", false, []string{"light1 offline"}})},
		{"a child that moved", append(slices.Clone(online),
			message{"homie/5/light1/$description", strings.ReplaceAll(light, "bridge", "hub"), false, []string{"light1 beat"}},
			message{"homie/5/bridge/$state", "lost", false, []string{"bridge offline", "light2 offline"}},
			message{"homie/5/hub/$state", "lost", false, []string{"hub offline", "light1 offline"}})},
		{"version 4 has no trees", []message{
			{"homie/bridge/$state", "lost", false, []string{"bridge offline"}},
			{"homie/bridge/$state", "alert", false, []string{"bridge online"}},
		}},
		{"children with impossible ids", []message{
			{"homie/5/bridge/$description", `{"children":["","a\u0000","bridge"]}`, false, []string{"bridge beat"}},
			{"homie/5/bridge/$state", "lost", false, []string{"bridge offline"}},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, err := homie.New()
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range tt.messages {
				var got []string
				err := h.Apply(convention.Message{Topic: m.topic, Payload: []byte(m.payload), Retained: m.retained}, true, func(s convention.Sign) {
					got = append(got, fmt.Sprint(s.Device, " ", s.Meaning))
					if s.Why == "" {
						t.Errorf("%s %s: %s is %s, and nothing says why", m.topic, m.payload, s.Device, s.Meaning)
					}
				})
				if err != nil || !slices.Equal(got, m.want) {
					t.Errorf("%s %s: %q, %v, want %q", m.topic, m.payload, got, err, m.want)
				}
			}
		})
	}
}

func TestMalformedDescription(t *testing.T) {
	h, err := homie.New()
	if err != nil {
		t.Fatal(err)
	}
	var rejected *convention.Rejected
	err = h.Apply(convention.Message{Topic: "homie/5/a/$description", Payload: []byte("{")}, false, func(convention.Sign) {})
	if !errors.As(err, &rejected) || rejected.Reason != "json" {
		t.Errorf("Apply() failed with %v, want a rejection", err)
	}
}

func FuzzHomie(f *testing.F) {
	f.Add("bridge", "$description", bridge, true)
	f.Add("light1", "$description", light, true)
	f.Add("bridge", "$state", "lost", false)
	f.Add("light1", "$state", "ready", true)
	f.Add("light1", "$state", "", false)
	h, err := homie.New()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, device, attribute, payload string, retained bool) {
		m := convention.Message{Topic: "homie/5/" + device + "/" + attribute, Payload: []byte(payload), Retained: retained}
		first := true
		err := h.Apply(m, false, func(s convention.Sign) {
			if first && !strings.Contains(m.Topic, "/"+s.Device+"/") {
				t.Errorf("%q: the first sign is for %q", m.Topic, s.Device)
			}
			first = false
		})
		var rejected *convention.Rejected
		if err != nil && !errors.As(err, &rejected) {
			t.Error(err)
		}
	})
}
