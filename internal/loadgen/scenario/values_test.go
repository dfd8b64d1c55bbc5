package scenario_test

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holter-iot/holter/internal/loadgen/plan"
	"github.com/holter-iot/holter/internal/loadgen/scenario"
)

func TestParseShare(t *testing.T) {
	tests := []struct {
		text string
		want float64 // -1: an error
	}{
		{"10%", 0.1},
		{"7 %", 0.07},
		{"0.1%", 0.001},
		{"100%", 1},
		{"0.5", 0.5},
		{"1", 1},
		{"0", 0},
		{"1e-3", 0.001},
		{"10", -1},
		{"101%", -1},
		{"-1%", -1},
		{"NaN", -1},
		{"%", -1},
		{"", -1},
		{"a%", -1},
		{"inf%", -1},
	}
	for _, tt := range tests {
		got, err := scenario.ParseShare(tt.text)
		if err != nil {
			got = -1
		}
		if got != tt.want {
			t.Errorf("ParseShare(%q) = %v, %v, want %v", tt.text, got, err, tt.want)
		}
	}
}

func TestParseRate(t *testing.T) {
	tests := []struct {
		text string
		want float64 // 0: an error
	}{
		{"20000/s", 20000}, {"20_000", 20000}, {"0.5/s", 0.5}, {"0", 0}, {"-1/s", 0}, {"20000/m", 0}, {"NaN", 0}, {"", 0}, {"/s", 0},
	}
	for _, tt := range tests {
		if got, err := scenario.ParseRate(tt.text); got != tt.want || (err == nil) != (tt.want > 0) {
			t.Errorf("ParseRate(%q) = %v, %v, want %v", tt.text, got, err, tt.want)
		}
	}
}

func TestParseTarget(t *testing.T) {
	tests := []struct{ text, want string }{
		{"a:1", "a:1"}, {"tcp://a:1", "a:1"}, {"TCP://a:1/", "a:1"}, {"mqtt://[::1]:2", "[::1]:2"}, {"http://a:1", ""},
	}
	for _, tt := range tests {
		if got, err := scenario.ParseTarget(tt.text); got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("ParseTarget(%q) = %q, %v, want %q", tt.text, got, err, tt.want)
		}
	}
}

func TestParseSources(t *testing.T) {
	tests := []struct {
		text        string
		number      int // 0: an error
		first, last string
	}{
		{"127.0.0.2", 1, "127.0.0.2", "127.0.0.2"},
		{"127.0.0.2-127.0.0.40", 39, "127.0.0.2", "127.0.0.40"},
		{"127.0.0.2 - 127.0.1.1", 256, "127.0.0.2", "127.0.1.1"},
		{"10.1.0.77/24", 254, "10.1.0.1", "10.1.0.254"},
		{"10.1.0.0/31", 2, "10.1.0.0", "10.1.0.1"},
		{"10.1.0.5/32", 1, "10.1.0.5", "10.1.0.5"},
		{"10.1.0.0/16", 65534, "10.1.0.1", "10.1.255.254"},
		{"255.255.255.255", 1, "255.255.255.255", "255.255.255.255"},
		{"255.255.255.254-255.255.255.255", 2, "255.255.255.254", "255.255.255.255"},
		{"fd00::/126", 4, "fd00::", "fd00::3"},
		{"::1", 1, "::1", "::1"},
		{"10.0.0.0/8", 0, "", ""},
		{"10.0.0.0-10.255.0.0", 0, "", ""},
		{"127.0.0.9-127.0.0.2", 0, "", ""},
		{"127.0.0.9-::1", 0, "", ""},
		{"127.0.0.9-", 0, "", ""},
		{"127.0.0.9/33", 0, "", ""},
		{"localhost", 0, "", ""},
		{"", 0, "", ""},
	}
	for _, tt := range tests {
		got, err := scenario.ParseSources(tt.text)
		if len(got) != tt.number || (err == nil) != (tt.number > 0) {
			t.Errorf("ParseSources(%q) has %d, %v, want %d", tt.text, len(got), err, tt.number)
			continue
		}
		if tt.number > 0 && (got[0].String() != tt.first || got[len(got)-1].String() != tt.last) {
			t.Errorf("ParseSources(%q) = %v to %v", tt.text, got[0], got[len(got)-1])
		}
	}
}

func TestOverride(t *testing.T) {
	base := func() *plan.Plan {
		p := &plan.Plan{
			Phases: []plan.Phase{
				{Name: "a", Length: m},
				{Name: "b", Length: 3 * m, Acts: []plan.Act{
					{Kind: plan.Silent, Share: 0.1, After: 30 * s, Within: m, Back: 40 * s},
					{Kind: plan.Close, Share: 0.1, Within: 20 * s, Back: 5 * s, Times: 9, Every: 20 * s},
				}},
			},
		}
		p.Fill()
		return p
	}
	tests := []struct {
		name   string
		by     plan.Plan
		length time.Duration
		change func(*plan.Plan)
	}{
		{"nothing", plan.Plan{}, 0, func(*plan.Plan) {}},
		{
			"plain",
			plan.Plan{
				Devices: 5, Seed: 6, ID: "x%d", Group: 7, Protocol: "mqtt", Targets: []string{"a:1"}, Sources: addresses("::1"),
				Token: "t", User: "u", Publish: "p", Jitter: 0.5, Ramp: 9, Grace: s, Timeout: 10 * m,
			},
			0,
			func(p *plan.Plan) {
				p.Devices, p.Seed, p.ID, p.Group, p.Protocol, p.Targets = 5, 6, "x%d", 7, "mqtt", []string{"a:1"}
				p.Sources = []netip.Addr{netip.IPv6Loopback()}
				p.Token, p.User, p.Publish, p.Jitter, p.Ramp, p.Grace, p.Timeout = "t", "u", "p", 0.5, 9, s, 10*m
			},
		},
		{"interval", plan.Plan{Interval: m}, 0, func(p *plan.Plan) { p.Interval, p.Timeout = m, 3*m }},
		{"short interval", plan.Plan{Interval: 2 * s}, 0, func(p *plan.Plan) { p.Interval, p.Timeout, p.Grace = 2*s, 6*s, 3*s }},
		{"timeout", plan.Plan{Timeout: 35 * s}, 0, func(p *plan.Plan) { p.Timeout = 35 * s }},
		{
			"half as long", plan.Plan{}, 2 * m, func(p *plan.Plan) {
				p.Phases[0].Length, p.Phases[1].Length = 30*s, 90*s
				a := p.Phases[1].Acts
				a[0].After, a[0].Within = 15*s, 30*s
				a[1].Within, a[1].Times = 10*s, 5
			},
		},
		{
			"very short", plan.Plan{}, 4 * s, func(p *plan.Plan) {
				p.Phases[0].Length, p.Phases[1].Length = s, 3*s
				a := p.Phases[1].Acts
				a[0].After, a[0].Within = s/2, s
				a[1].Within, a[1].Times, a[1].Every = s/3, 1, 0
			},
		},
		{
			"longer", plan.Plan{}, 40 * m, func(p *plan.Plan) {
				p.Phases[0].Length, p.Phases[1].Length = 10*m, 30*m
				a := p.Phases[1].Acts
				a[0].After, a[0].Within = 5*m, 10*m
				a[1].Within, a[1].Times = 200*s, 81
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, want := base(), base()
			scenario.Override(got, tt.by, tt.length)
			tt.change(want)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("Apply: %+v\nwant %+v", got, want)
			}
		})
	}
}

func TestOverrideKeepsAGraceThatWasChosen(t *testing.T) {
	p := &plan.Plan{Grace: 4 * s}
	p.Fill()
	scenario.Override(p, plan.Plan{Interval: 2 * s}, 0)
	if p.Grace != 4*s {
		t.Errorf("Grace = %v", p.Grace)
	}
}

// A stretched scenario takes exactly as long as asked for, and what fitted into its phases still does.
func TestDuration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, err := scenario.Ready(rapid.SampledFrom(scenario.Names()).Draw(t, "name"))
		if err != nil {
			t.Fatal(err)
		}
		long := time.Duration(rapid.Int64Range(int64(s), int64(300*24*time.Hour)).Draw(t, "duration"))
		scenario.Override(p, plan.Plan{Targets: []string{"a:1"}}, long)
		if p.Length() != long {
			t.Fatalf("Length() = %v, want %v", p.Length(), long)
		}
		if err := p.Validate(); err != nil && strings.Contains(err.Error(), "after the beginning of its phase") {
			t.Fatal(err)
		}
	})
}

func ExampleOverride() {
	p, err := scenario.Ready("silent-10pct")
	if err != nil {
		fmt.Println(err)
		return
	}
	scenario.Override(p, plan.Plan{Devices: 500_000, Interval: time.Minute, Targets: []string{"127.0.0.1:7700"}}, 0)
	fmt.Println(p.Validate(), p.Devices, p.Interval, p.Timeout, p.Length())
	// Output: <nil> 500000 1m0s 3m0s 5m0s
}
