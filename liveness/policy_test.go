package liveness_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/judgement"
)

func TestPolicyResolution(t *testing.T) {
	fleet := liveness.Config{
		Policy: liveness.Policy{Interval: 8 * s, Timeout: 80 * s, LateAfter: 50 * s, CloseGrace: 4 * s, SleepLimit: time.Hour},
		Groups: []liveness.GroupConfig{
			{Name: "seven", Match: "site-7/*", Policy: liveness.Policy{Timeout: 70 * s, CloseGrace: 7 * s}},
			{Name: "calm", Match: "*/calm", Policy: liveness.Policy{SleepLimit: 7 * time.Hour}},
			{Name: "never reached", Match: "site-7/*", Policy: liveness.Policy{Timeout: s}},
		},
		Devices: map[string]liveness.Policy{
			"own":        {Interval: 1 * s, Timeout: 10 * s, LateAfter: 2 * s, CloseGrace: 3 * s, SleepLimit: 4 * s},
			"site-7/own": {Timeout: 11 * s},
			"site-7/odd": {LateAfter: 12 * s},
		},
	}
	announced := liveness.Policy{Interval: 20 * s, Timeout: 60 * s, LateAfter: 30 * s, CloseGrace: 5 * s, SleepLimit: 9 * time.Hour}
	policy := func(interval, timeout, late, grace, sleep time.Duration) liveness.Policy {
		return liveness.Policy{Interval: interval, Timeout: timeout, LateAfter: late, CloseGrace: grace, SleepLimit: sleep, RecoverAfter: 1, Learn: judgement.LearnSuggest, LearnBudget: 1, LearnMax: 24 * time.Hour}
	}
	tests := []struct {
		name, id  string
		announced liveness.Policy
		want      liveness.Policy
		from      string
		group     string
	}{
		{"default", "x", liveness.Policy{}, policy(8*s, 80*s, 50*s, 4*s, time.Hour), "default", ""},
		{"announced", "x", announced, policy(20*s, 60*s, 30*s, 5*s, 9*time.Hour), "announced", ""},
		{
			"announced in part", "x",
			liveness.Policy{Timeout: 60 * s},
			policy(8*s, 60*s, 50*s, 4*s, time.Hour), "announced", "",
		},
		{
			"announced, but not the timeout", "x",
			liveness.Policy{Interval: 20 * s},
			policy(20*s, 80*s, 50*s, 4*s, time.Hour), "default", "",
		},
		{
			"group", "site-7/x",
			liveness.Policy{},
			policy(8*s, 70*s, 50*s, 7*s, time.Hour), "group seven", "seven",
		},
		{
			"group before announced", "site-7/x", announced,
			policy(20*s, 70*s, 30*s, 7*s, 9*time.Hour), "group seven", "seven",
		},
		{
			"group without a timeout", "site-8/calm", announced,
			policy(20*s, 60*s, 30*s, 5*s, 7*time.Hour), "announced", "calm",
		},
		{
			"the first group that matches", "site-7/calm",
			liveness.Policy{},
			policy(8*s, 70*s, 50*s, 7*s, time.Hour), "group seven", "seven",
		},
		{"device", "own", announced, policy(1*s, 10*s, 2*s, 3*s, 4*s), "device", ""},
		{
			"device before group", "site-7/own",
			liveness.Policy{},
			policy(8*s, 11*s, 50*s, 7*s, time.Hour), "device", "seven",
		},
		{
			"device without a timeout", "site-7/odd", announced,
			policy(20*s, 70*s, 12*s, 7*s, 9*time.Hour), "group seven", "seven",
		},
	}
	inRig(t, fleet, liveness.SourceConfig{}, func(r *rig) {
		for _, tt := range tests {
			w, err := r.source.Open(new(liveness.Session), tt.id, liveness.Hello{Announced: tt.announced}, nil, 0)
			tt.want.RecoverAfter = 1
			if err != nil || w.Policy != tt.want || w.From != tt.from {
				r.Errorf("%s: Open = %+v from %q, %v, want %+v from %q", tt.name, w.Policy, w.From, err, tt.want, tt.from)
			}
			if v := r.device(tt.id); v.Policy != tt.want || v.From != tt.from || v.Group != tt.group {
				r.Errorf("%s: Device = %+v from %q of %q, want %+v from %q of %q", tt.name, v.Policy, v.From, v.Group, tt.want, tt.from, tt.group)
			}
		}
		for _, e := range r.events() {
			if v := r.device(e.Subject); e.Type == liveness.DeviceOnline && e.Group != v.Group {
				r.Errorf("event %s: group %q, want %q", e.ID(), e.Group, v.Group)
			}
		}
	})
}

func TestPolicyDefaults(t *testing.T) {
	tests := []struct {
		name      string
		announced liveness.Policy
		want      liveness.Policy
	}{
		{"none", liveness.Policy{}, liveness.Policy{
			Interval: 30 * s, Timeout: 90 * s, CloseGrace: 10 * s, SleepLimit: 24 * time.Hour, RecoverAfter: 1, Learn: judgement.LearnSuggest, LearnBudget: 1, LearnMax: 24 * time.Hour,
		}},
		{"short timeout", liveness.Policy{Timeout: 6 * s}, liveness.Policy{
			Interval: 2 * s, Timeout: 6 * s, CloseGrace: 3 * s, SleepLimit: 24 * time.Hour, RecoverAfter: 1, Learn: judgement.LearnSuggest, LearnBudget: 1, LearnMax: 24 * time.Hour,
		}},
		{"shorter than the least", liveness.Policy{Interval: 1, Timeout: 1}, liveness.Policy{
			Interval: 1, Timeout: s, CloseGrace: s / 2, SleepLimit: 24 * time.Hour, RecoverAfter: 1, Learn: judgement.LearnSuggest, LearnBudget: 1, LearnMax: 24 * time.Hour,
		}},
	}
	registry := newRegistry(t, discard{}, liveness.Config{})
	defer func() { start(t, registry)() }()
	source := addSource(t, registry, liveness.SourceConfig{Name: "edge"})
	for _, tt := range tests {
		w, err := source.Open(new(liveness.Session), tt.name, liveness.Hello{Announced: tt.announced}, nil, 0)
		if err != nil || w.Policy != tt.want {
			t.Errorf("%s: Open = %+v, %v, want %+v", tt.name, w.Policy, err, tt.want)
		}
	}
}

func TestBadConfig(t *testing.T) {
	group := func(g liveness.GroupConfig) liveness.Config {
		return liveness.Config{Groups: []liveness.GroupConfig{g}}
	}
	tests := []struct {
		name string
		cfg  liveness.Config
		want []string // parts of the error
	}{
		{"negative timeout", liveness.Config{Policy: liveness.Policy{Timeout: -1}}, []string{"Policy: Timeout is -1ns"}},
		{"timeout below the least", liveness.Config{Policy: liveness.Policy{Timeout: 1}}, []string{"Policy: Timeout is 1ns, want 1s or more"}},
		{
			"group's and device's timeout below the least",
			liveness.Config{
				MinTimeout: 5 * time.Second,
				Groups:     []liveness.GroupConfig{{Name: "a", Match: "*", Policy: liveness.Policy{Timeout: 4 * time.Second}}},
				Devices:    map[string]liveness.Policy{"b": {Timeout: 3 * time.Second}},
			},
			[]string{"group a: Timeout is 4s, want 5s or more", "device b: Timeout is 3s, want 5s or more"},
		},
		{"least timeout above the default", liveness.Config{MinTimeout: 91 * time.Second}, []string{"MinTimeout is 1m31s"}},
		{"negative least timeout", liveness.Config{MinTimeout: -1}, []string{"MinTimeout is -1ns"}},
		{
			"several mistakes are told together",
			liveness.Config{Policy: liveness.Policy{Interval: -1, LateAfter: -1, CloseGrace: -1, SleepLimit: 367 * 24 * time.Hour}},
			[]string{"Interval", "LateAfter", "CloseGrace", "SleepLimit"},
		},
		{"threshold too low", liveness.Config{Flapping: liveness.FlappingConfig{Threshold: 1}}, []string{"Flapping"}},
		{"negative window", liveness.Config{Flapping: liveness.FlappingConfig{Window: -1}}, []string{"Flapping"}},
		{"group without a name", group(liveness.GroupConfig{Match: "*"}), []string{"invalid"}},
		{"group without a pattern", group(liveness.GroupConfig{Name: "a"}), []string{"group a: Match"}},
		{"bad share", group(liveness.GroupConfig{Name: "a", Match: "*", Outage: liveness.OutageConfig{Share: 1.1}}), []string{"Share"}},
		{
			"share that is no number",
			group(liveness.GroupConfig{Name: "a", Match: "*", Outage: liveness.OutageConfig{Share: math.NaN()}}),
			[]string{"Share"},
		},
		{"negative outage", group(liveness.GroupConfig{Name: "a", Match: "*", Outage: liveness.OutageConfig{MinDevices: -1}}), []string{"MinDevices"}},
		{
			"groups of one name",
			liveness.Config{Groups: []liveness.GroupConfig{{Name: "a", Match: "a"}, {Name: "a", Match: "b"}}},
			[]string{"taken"},
		},
		{"bad device", liveness.Config{Devices: map[string]liveness.Policy{"\n": {Timeout: -1}}}, []string{"control", "Timeout"}},
		{"negative capacity", liveness.Config{MaxDevices: -1}, []string{"MaxDevices"}},
		{"more devices than numbers", liveness.Config{MaxDevices: 60_000_000}, []string{"MaxDevices is 60000000, want up to 50000000"}},
		{
			"more devices than capacity",
			liveness.Config{MaxDevices: 1, Devices: map[string]liveness.Policy{"a": {}, "b": {}}},
			[]string{"full"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := liveness.New(discard{}, tt.cfg)
			if err == nil {
				t.Fatal("New = nil")
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("New = %v, want it to speak of %q", err, part)
				}
			}
		})
	}
}

// The registry keeps no map of its caller.
func TestConfigIsCopied(t *testing.T) {
	devices := map[string]liveness.Policy{"a": {Timeout: 5 * unit}}
	inRig(t, liveness.Config{Devices: devices}, liveness.SourceConfig{}, func(r *rig) {
		clear(devices)
		r.open("a")
		if got := r.device("a").Policy.Timeout; got != 5*unit {
			r.Errorf("Timeout = %v, want %v", got, 5*unit)
		}
	})
}

func TestPolicyOf(t *testing.T) {
	fleet := liveness.Config{
		Policy:  liveness.Policy{Timeout: 30 * s},
		Groups:  []liveness.GroupConfig{{Name: "g", Match: "g/*", Policy: liveness.Policy{Interval: 2 * s}}, {Name: "h", Match: "h/*", Policy: liveness.Policy{LateAfter: 5 * s}}},
		Devices: map[string]liveness.Policy{"own": {Timeout: 20 * s}},
	}
	inRig(t, fleet, liveness.SourceConfig{}, func(r *rig) {
		said := liveness.Policy{Timeout: 60 * s, Interval: 10 * s}
		for _, id := range []string{"free", "g/x", "h/x", "own", "later"} {
			r.openAs(id, liveness.Hello{Announced: said}, nil)
		}
		r.open("mute")
		if err := r.registry.SetPolicy("later", liveness.Policy{Timeout: 70 * s}); err != nil {
			r.Fatal(err)
		}
		for _, tt := range []struct {
			id                string
			said              liveness.Policy
			timeout, interval time.Duration
		}{
			{"free", said, 60 * s, 10 * s},
			{"h/x", said, 60 * s, 10 * s},
			{"mute", liveness.Policy{}, 30 * s, 10 * s},
			{"g/x", said, 60 * s, 2 * s},
			{"own", said, 20 * s, 10 * s},
			{"later", said, 70 * s, 10 * s},
			{"unknown", liveness.Policy{}, 0, 0},
		} {
			said, holds := liveness.Announced(r.registry, tt.id), r.registry.Operator().PolicyOf(tt.id)
			if said != tt.said || holds.Timeout != tt.timeout || holds.Interval != tt.interval {
				r.Errorf("PolicyOf(%s) = %+v, announced %+v", tt.id, holds, said)
			}
		}
	})
}
