package doctor

import (
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/config"
	"github.com/holter-iot/holter/internal/httpapi"
)

func TestDoctorNodes(t *testing.T) {
	node := func(name, role, version, api string, alive bool) httpapi.Node {
		return httpapi.Node{Node: name, Role: role, Version: version, API: api, Alive: alive, Term: 7}
	}
	const here, there = "http://127.0.0.1:8080", "http://10.0.0.2:8080"
	judge := node("a", "judge", "v1", "http://10.0.0.1:8080", true)
	for _, tt := range []struct {
		name, want, text string
		nodes            []httpapi.Node
	}{
		{"all well", "ok servers", "a judges (term 7), b ready to take over", []httpapi.Node{judge, node("b", "standby", "v1", there, true)}},
		{"one lost", "warn servers", "a judges (term 7), b ready to take over; lost: c", []httpapi.Node{
			judge, node("b", "standby", "v1", there, true), node("c", "standby", "v0", there, false),
		}},
		{"the other one lost", "warn servers", "a judges (term 7); lost: b", []httpapi.Node{judge, node("b", "judge", "v1", there, false)}},
		{"ears", "ok servers", "a judges (term 7), with 2 ears", []httpapi.Node{judge, node("c", "ear", "v1", "", true), node("d", "ear", "v1", "", true)}},
		{"an ear of another version", "warn servers", "their versions differ: v1, v2", []httpapi.Node{judge, node("c", "ear", "v2", "", true)}},
		{"two versions", "warn servers", "their versions differ: v1, v2", []httpapi.Node{judge, node("b", "standby", "v2", there, true)}},
		{"one nobody reaches", "warn servers", "reached at a loopback address: b", []httpapi.Node{judge, node("b", "standby", "v1", here, true)}},
		{"all on one machine", "ok servers", "", []httpapi.Node{node("a", "judge", "v1", here, true), node("b", "standby", "v1", "http://[::1]:8081", true)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := &doctor{}
			d.judgeNodes(tt.nodes)
			d.wants(t, tt.want)
			if text := d.findings[0].Text; !strings.Contains(text, tt.text) {
				t.Errorf("text %q, want %q", text, tt.text)
			}
		})
	}
}

// Nothing is claimed of a load balancer, but for ears on other machines it is said what one must do.
func TestDoctorBalancer(t *testing.T) {
	for address, want := range map[string]int{"": 0, "unix:/run/holter/link.sock": 0, "0.0.0.0:7710": 1} {
		d := &doctor{}
		d.checkBalancer(config.Config{Link: config.Link{Listen: address}})
		if len(d.findings) != want {
			t.Errorf("link %q: %d findings, want %d", address, len(d.findings), want)
		}
		for _, f := range d.findings {
			if f.Level != LevelOK || !strings.Contains(f.Text, "not checked") || !strings.Contains(f.Help, "within 10s") {
				t.Errorf("link %q: %+v", address, f)
			}
		}
	}
}
