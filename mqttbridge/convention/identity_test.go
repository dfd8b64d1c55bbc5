package convention_test

import (
	"strings"
	"testing"

	"github.com/holter-iot/holter/mqttbridge/convention"
)

func TestMAC(t *testing.T) {
	for digits, want := range map[string]string{
		"3C71BFF01A7C": "3c:71:bf:f0:1a:7c", "3c71bff01a7c": "3c:71:bf:f0:1a:7c", "3C:71:BF:F0:1A:7C": "", "3C71BFF01A7": "", "3C71BFF01A7C00": "",
		"3C71BFF01A7X": "", "": "",
	} {
		got, ok := convention.MAC(digits)
		if got.Value != want || ok != (want != "") || ok && got.Kind != "mac" {
			t.Errorf("MAC(%q) = %v, %v, want %q", digits, got, ok, want)
		}
	}
}

func TestIdentityCheck(t *testing.T) {
	long := strings.Repeat("x", 256)
	for _, id := range []convention.Identity{{Value: "a"}, {Kind: "mac", Value: "a"}, {Value: long[1:]}, {Value: "ä b"}} {
		if err := id.Check(); err != nil {
			t.Errorf("%v: %v", id, err)
		}
	}
	for _, id := range []convention.Identity{{}, {Kind: "mac"}, {Value: long}, {Kind: long, Value: "a"}, {Value: "\xff"}, {Value: "a\nb"}, {Kind: "\x00", Value: "a"}} {
		if id.Check() == nil {
			t.Errorf("%v is taken", id)
		}
	}
}

func TestDeviceOf(t *testing.T) {
	rules, err := convention.New(convention.Spec{Name: "x", Rules: []convention.Rule{
		{Topic: "a/bridge/state", Behind: "a", Cases: []convention.Case{{Means: convention.Deaf}}},
		{Topic: "a/{device...}/set", Cases: []convention.Case{{Means: convention.Ignore}}},
		{Topic: "a/{device...}/state"},
		{Topic: "b/{room}/{name}", Device: "{name}@{room}"},
		{Topic: "c/announce", DeviceJSON: "/id"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for topic, want := range map[string]string{
		"a/lamp/state": "lamp", "a/house/lamp/state": "house/lamp", "b/hall/lamp": "lamp@hall",
		"a/bridge/state": "", "a/lamp/set": "", "c/announce": "", "d": "", "": "", "a/" + strings.Repeat("x", 200) + "/state": "",
	} {
		if got, ok := rules.DeviceOf(topic); ok != (want != "") || ok && got != want {
			t.Errorf("DeviceOf(%q) = %q, %v, want %q", topic, got, ok, want)
		}
	}
}
