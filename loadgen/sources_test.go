package loadgen_test

import (
	"net/netip"
	"testing"

	"github.com/holter-iot/holter/internal/loadgen/plan"
	"github.com/holter-iot/holter/loadgen"
)

func addresses(t *testing.T, texts ...string) []netip.Addr {
	t.Helper()
	var all []netip.Addr
	for _, text := range texts {
		a, err := netip.ParseAddr(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	return all
}

func TestFillSources(t *testing.T) {
	tests := []struct {
		name    string
		devices int
		targets []string
		given   []netip.Addr
		moves   bool
		least   int
		first   string
	}{
		{"few", 5000, []string{"127.0.0.1:1"}, nil, false, 0, ""},
		{"many", 500_000, []string{"127.0.0.1:1"}, nil, false, 25, "127.0.0.2"},
		{"many by name", 500_000, []string{"localhost:1"}, nil, false, 25, "127.0.0.2"},
		{"many to several", 60_000, []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "127.0.0.1:4", "127.0.0.1:5"}, nil, false, 0, ""},
		{"few that move", 10, []string{"127.0.0.1:1"}, nil, true, 2, "127.0.0.2"},
		{"given", 500_000, []string{"127.0.0.1:1"}, addresses(t, "127.0.0.9"), false, 1, "127.0.0.9"},
		{"IPv6", 500_000, []string{"[::1]:1"}, nil, false, 0, ""},
		{"no target", 500_000, nil, nil, false, 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := &plan.Plan{Devices: tt.devices, Targets: tt.targets, Sources: tt.given, Phases: []plan.Phase{{}}}
			if tt.moves {
				p.Phases[0].Acts = []plan.Act{{Kind: plan.Move}}
			}
			loadgen.FillSources(p)
			if len(p.Sources) < tt.least || tt.least == 0 && tt.name != "IPv6" && len(p.Sources) > 0 {
				t.Fatalf("Sources = %v, want at least %d", p.Sources, tt.least)
			}
			if tt.least > 0 && p.Sources[0].String() != tt.first {
				t.Errorf("the first source is %v, want %s", p.Sources[0], tt.first)
			}
		})
	}
}
