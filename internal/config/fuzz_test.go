package config_test

import (
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/judgement"
	"github.com/holter-iot/holter/mqttbridge/convention"
)

// Whatever a file holds, reading it ends in a usable configuration or in an
// error whose first line begins with the name of the file.
func FuzzLoad(f *testing.F) {
	seeds, err := filepath.Glob("testdata/mistakes/*.yaml")
	if err != nil || len(seeds) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	seeds = append(seeds, "testdata/full.yaml")
	for _, seed := range seeds {
		text, err := os.ReadFile(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add("policy: &a {timeout: 3s}\ngroups:\n- {name: x, match: '*', policy: *a}\n")
	f.Add("tls: {cert: a, key: b}\ndevices_file: d\nlisten:\n- {address: 'tls+any://:1', proxies: [10.0.0.0/8]}\n- {address: ':2', dtu: {registration: a, poll: 'hex:00'}}\n")
	f.Add("%YAML 1.2\n---\n? data\n: |\n  b\ntoken: >-\n  c\n")
	f.Fuzz(func(t *testing.T, text string) {
		cfg, err := config.ParseText("fleet.yaml", text)
		if err != nil {
			message := err.Error()
			// A default may collide with an address in the file.
			if !strings.HasPrefix(message, "fleet.yaml:") && !strings.Contains(message, "(default): ") {
				t.Errorf("error without a place: %s", message)
			}
			if !utf8.ValidString(message) || strings.ContainsAny(message, "\x00\x1b\r\t") {
				t.Errorf("error with characters that move a terminal: %q", message)
			}
			return
		}
		checkUsable(t, cfg)
	})
}

func checkUsable(t *testing.T, cfg config.Config) {
	t.Helper()
	if cfg.HTTP == "" || cfg.Data == "" || cfg.Log.Format == "" {
		t.Errorf("a default is missing: %+v", cfg)
	}
	checkListenersUsable(t, cfg)
	checkMQTTUsable(t, cfg)
	policies := []liveness.Policy{cfg.Fleet.Policy}
	for id, p := range cfg.Fleet.Devices {
		if id == "" || len(id) > 128 {
			t.Errorf("device id %q", id)
		}
		policies = append(policies, p)
	}
	for _, g := range cfg.Fleet.Groups {
		if g.Name == "" || g.Match == "" || math.IsNaN(g.Outage.Share) || g.Outage.Share < 0 || g.Outage.Share > 1 {
			t.Errorf("group %+v", g)
		}
		policies = append(policies, g.Policy)
	}
	for _, p := range policies {
		if b := p.LearnBudget; b != 0 && (b < judgement.LeastLearnBudget || b > judgement.MaxLearnBudget) {
			t.Errorf("a budget of %v", b)
		}
		if again, err := judgement.ParseQuiet(judgement.QuietWindows(p.Quiet)); err != nil || again != p.Quiet {
			t.Errorf("quiet %q is %q, %v", p.Quiet, again, err)
		}
		if p.Expect != "" {
			if again, err := judgement.ParseExpect(p.Expect, ""); err != nil || again != p.Expect {
				t.Errorf("expect %q is %q, %v", p.Expect, again, err)
			}
		}
		for _, d := range []time.Duration{p.Interval, p.Timeout, p.LateAfter, p.CloseGrace, p.SleepLimit, p.ProbeWait} {
			if d < 0 || d > 366*24*time.Hour {
				t.Errorf("policy %+v", p)
			}
		}
		if p.Timeout > 0 && (p.LateAfter >= p.Timeout || p.Interval >= p.Timeout || time.Duration(p.Probes)*p.ProbeWait >= p.Timeout) {
			t.Errorf("policy %+v", p)
		}
	}
}

func checkMQTTUsable(t *testing.T, cfg config.Config) {
	t.Helper()
	m := cfg.MQTT
	speaks := slices.ContainsFunc(cfg.Listen, func(l config.Listener) bool { return slices.Contains(l.Protocols, config.ProtocolMQTT) })
	if m.Anonymous == "" || speaks && m.Anonymous == config.AnonymousAnyone && !cfg.Open || !speaks && m.Users+m.Rules != "" {
		t.Errorf("MQTT %+v", m)
	}
	names := map[string]bool{}
	if speaks {
		names[config.ReportToBroker] = true
	}
	for _, bridge := range cfg.Bridges {
		u, err := url.Parse(bridge.URL)
		if err != nil || u.Scheme == "" || u.Hostname() == "" || u.Port() == "" || u.User != nil {
			t.Errorf("url %q: %v", bridge.URL, err)
		}
		if bridge.Name == "" || names[bridge.Name] || len(bridge.Presets)+len(bridge.Rules) == 0 {
			t.Errorf("bridge %+v", bridge)
		}
		names[bridge.Name] = true
		for _, r := range bridge.Rules {
			for _, c := range r.Cases {
				if c.Means > convention.Heard {
					t.Errorf("case %+v", c)
				}
			}
			if r.Topic == "" || r.Timeout > 0 && r.Interval >= r.Timeout {
				t.Errorf("rule %+v", r)
			}
		}
	}
	if cfg.Report.To != "" && !names[cfg.Report.To] {
		t.Errorf("report %+v", cfg.Report)
	}
}
