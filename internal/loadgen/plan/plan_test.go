package plan_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holter-iot/holter/internal/loadgen/plan"
)

func twoSources() []netip.Addr {
	return []netip.Addr{netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.3")}
}

func TestNumberIsTheInverseOfDeviceID(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &plan.Plan{
			ID: rapid.StringMatching(`[a-z/0-9-]{0,5}`).Draw(t, "prefix") +
				rapid.SampledFrom([]string{"%d", "%07d", "%01d", "%012d", "%024d"}).Draw(t, "verb") + rapid.StringMatching(`[a-z0-9]{0,3}`).Draw(t, "suffix"),
			Devices: rapid.IntRange(1, 100_000_000).Draw(t, "devices"),
		}
		n := rapid.IntRange(0, p.Devices-1).Draw(t, "n")
		id := p.DeviceID(n)
		if want := fmt.Sprintf(p.ID, n); id != want {
			t.Fatalf("DeviceID(%d) = %q, want %q", n, id, want)
		}
		if got := string(p.AppendID([]byte("x"), n)); got != "x"+id {
			t.Fatalf("AppendID(%d) = %q", n, got)
		}
		if got, ok := p.Number(id); !ok || got != n {
			t.Fatalf("Number(%q) = %d, %v, want %d", id, got, ok, n)
		}
	})
}

func TestNumberOfStrangers(t *testing.T) {
	tests := []struct {
		format, id string
		devices    int
	}{
		{"dev-%04d", "", 10},
		{"dev-%04d", "dev-", 10},
		{"dev-%04d", "dev-1", 10},
		{"dev-%04d", "dev-00001", 10},
		{"dev-%04d", "dev-0010", 10},
		{"dev-%04d", "dev-000x", 10},
		{"dev-%04d", "dev-+001", 10},
		{"dev-%04d", "dew-0001", 10},
		{"dev-%04d", "dev-0001 ", 10},
		{"dev-%d", "dev-01", 10},
		{"dev-%d", "dev-99999999999999999999999999", 10},
		{"dev-%d-x", "dev-x", 10},
		{"a%da", "a", 10},
		{"a%da", "aa", 10},
		{"dev", "dev", 10},
	}
	for _, tt := range tests {
		p := &plan.Plan{ID: tt.format, Devices: tt.devices}
		if n, ok := p.Number(tt.id); ok {
			t.Errorf("Number(%q) of %q = %d, want none", tt.id, tt.format, n)
		}
	}
}

func TestSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &plan.Plan{Devices: rapid.IntRange(0, 1000).Draw(t, "devices")}
		parts := rapid.IntRange(-1, 60).Draw(t, "parts")
		got := p.Split(parts)
		if want := min(max(parts, 1), max(p.Devices, 1)); len(got) != want {
			t.Fatalf("Split(%d) of %d has %d parts, want %d", parts, p.Devices, len(got), want)
		}
		next := 0
		for _, r := range got {
			if r.From != next || r.Len() < p.Devices/len(got) || r.Len() > p.Devices/len(got)+1 {
				t.Fatalf("Split(%d) of %d = %v", parts, p.Devices, got)
			}
			next = r.To
		}
		if next != p.Devices {
			t.Fatalf("Split(%d) of %d = %v", parts, p.Devices, got)
		}
	})
}

func TestPhaseAt(t *testing.T) {
	const s = time.Second
	p := &plan.Plan{Phases: []plan.Phase{{Length: 10 * s}, {Length: 20 * s}}}
	tests := []struct {
		at, began time.Duration
		index     int
	}{{-1, 0, -1}, {0, 0, 0}, {10*s - 1, 0, 0}, {10 * s, 10 * s, 1}, {30 * s, 10 * s, 1}, {time.Hour, 10 * s, 1}}
	for _, tt := range tests {
		if index, began := p.PhaseAt(tt.at); index != tt.index || began != tt.began {
			t.Errorf("PhaseAt(%v) = %d, %v, want %d, %v", tt.at, index, began, tt.index, tt.began)
		}
	}
	if index, _ := new(plan.Plan).PhaseAt(0); index != -1 {
		t.Errorf("PhaseAt(0) without phases = %d", index)
	}
}

// Another process gets the same plan.
func TestPlanAsJSON(t *testing.T) {
	p := steady(1000, plan.Act{Kind: plan.Move, Share: 0.1, Back: time.Second})
	p.Sources = twoSources()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var q plan.Plan
	if err := json.Unmarshal(text, &q); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(*p, q) {
		t.Errorf("%+v became %+v", *p, q)
	}
}

func TestKinds(t *testing.T) {
	for k := plan.Bye; k <= plan.Signal; k++ {
		if got, ok := plan.ParseKind(strings.ToUpper(k.String())); got != k || !ok || k.String() == "" {
			t.Errorf("ParseKind(%q) = %v, %t", k, got, ok)
		}
	}
	if k, ok := plan.ParseKind("Kind(0)"); ok {
		t.Errorf("ParseKind(Kind(0)) = %v", k)
	}
	if got := plan.Kind(99).String(); got != "Kind(99)" {
		t.Errorf("Kind(99) = %s", got)
	}
}

func TestFill(t *testing.T) {
	var p plan.Plan
	p.Fill()
	want := plan.Plan{
		Devices: 1000, ID: "dev-%07d", Group: 100, Protocol: "line", Interval: 30 * time.Second, Timeout: 90 * time.Second,
		Grace: 10 * time.Second, Ramp: 5000, Backoff: time.Second, BackoffMax: 30 * time.Second,
	}
	if !reflect.DeepEqual(p, want) {
		t.Errorf("Fill: %+v, want %+v", p, want)
	}
	p = plan.Plan{Interval: 5 * time.Second, Backoff: time.Minute}
	p.Fill()
	if p.Timeout != 15*time.Second || p.Grace != 7500*time.Millisecond || p.BackoffMax != time.Minute {
		t.Errorf("Fill: %+v", p)
	}
}

func TestValidate(t *testing.T) {
	const s = time.Second
	act := func(a plan.Act) func(*plan.Plan) {
		return func(p *plan.Plan) { p.Phases[0].Acts = []plan.Act{a} }
	}
	acts := func(all ...plan.Act) func(*plan.Plan) {
		return func(p *plan.Plan) { p.Phases[0].Acts = all }
	}
	tests := []struct {
		name   string
		change func(*plan.Plan)
		want   []string // fields that are wrong; nil: none
	}{
		{"nothing", func(*plan.Plan) {}, nil},
		{"no devices", func(p *plan.Plan) { p.Devices = 0 }, []string{"devices"}},
		{"id without a number", func(p *plan.Plan) { p.ID = "dev" }, []string{"id"}},
		{"id with a text", func(p *plan.Plan) { p.ID = "%s" }, []string{"id"}},
		{"id with two", func(p *plan.Plan) { p.ID = "%d-%d" }, []string{"id"}},
		{"id filled with spaces", func(p *plan.Plan) { p.ID = "%7d" }, []string{"id"}},
		{"id that ends", func(p *plan.Plan) { p.ID = "dev-%07" }, []string{"id"}},
		{"id with a space", func(p *plan.Plan) { p.ID = "dev %d" }, []string{"id"}},
		{"long id", func(p *plan.Plan) { p.ID = "%0129d" }, []string{"id"}},
		{"id for no topic", func(p *plan.Plan) { p.Protocol, p.ID = plan.MQTT, "a+%d" }, []string{"id"}},
		{"unknown protocol", func(p *plan.Plan) { p.Protocol = "udp" }, []string{"protocol"}},
		{"no target", func(p *plan.Plan) { p.Targets = nil }, []string{"targets"}},
		{
			"targets", func(p *plan.Plan) {
				p.Targets = []string{"a:1", "[::1]:2", "::1", ":7", "a", "a:0", "a:70000", "a:x", "tcp://a:7", "u:p@a:7"}
			},
			[]string{"targets[2]", "targets[3]", "targets[4]", "targets[5]", "targets[6]", "targets[7]", "targets[8]", "targets[9]"},
		},
		{"sources", func(p *plan.Plan) { p.Sources = []netip.Addr{{}, netip.IPv4Unspecified()} }, []string{"sources[0]", "sources[1]"}},
		{"token of two words", func(p *plan.Plan) { p.Token = "a b" }, []string{"token"}},
		{"token of two words in mqtt", func(p *plan.Plan) { p.Protocol, p.Token = plan.MQTT, "a b" }, nil},
		{"no ramp", func(p *plan.Plan) { p.Ramp = 0 }, []string{"ramp"}},
		{"interval longer than timeout", func(p *plan.Plan) { p.Interval = 2 * time.Minute }, []string{"timeout"}},
		{"interval with jitter", func(p *plan.Plan) { p.Timeout, p.Jitter = 40*s, 0.4 }, []string{"timeout"}},
		{"jitter", func(p *plan.Plan) { p.Jitter = -1 }, []string{"jitter"}},
		{"no interval", func(p *plan.Plan) { p.Interval = 0 }, []string{"interval"}},
		{"short timeout in mqtt", func(p *plan.Plan) { p.Protocol, p.Interval, p.Timeout = plan.MQTT, s/2, s }, []string{"timeout"}},
		{"back-off", func(p *plan.Plan) { p.BackoffMax = s / 2 }, []string{"backoff_max"}},
		{"qos", func(p *plan.Plan) { p.QoS = 2 }, []string{"qos"}},
		{"topics", func(p *plan.Plan) { p.Publish, p.WillTopic = "a/{dev}", "a/+/{device}" }, []string{"will_topic", "publish"}},
		{"will without a topic", func(p *plan.Plan) { p.WillPayload = "x" }, []string{"will_topic"}},
		{"no phases", func(p *plan.Plan) { p.Phases = nil }, []string{"phases"}},
		{"phase without length", func(p *plan.Plan) { p.Phases[0].Length = 0 }, []string{"phases[0].length"}},
		{"no kind", act(plan.Act{All: true}), []string{"phases[0].acts[0].kind"}},
		{"nobody", act(plan.Act{Kind: plan.Bye}), []string{"phases[0].acts[0]"}},
		{"in two ways", act(plan.Act{Kind: plan.Bye, All: true, Share: 1}), []string{"phases[0].acts[0]"}},
		{"share", act(plan.Act{Kind: plan.Bye, Share: 1.1}), []string{"phases[0].acts[0]"}},
		{"count", act(plan.Act{Kind: plan.Bye, Count: -1}), []string{"phases[0].acts[0]"}},
		{"more than there are", act(plan.Act{Kind: plan.Bye, Count: 1001}), []string{"phases[0].acts[0]"}},
		{"share of nobody", act(plan.Act{Kind: plan.Bye, Share: 0.0001}), []string{"phases[0].acts[0]"}},
		{"groups of nobody", act(plan.Act{Kind: plan.Bye, GroupShare: 0.001}), []string{"phases[0].acts[0]"}},
		{"more groups than there are", act(plan.Act{Kind: plan.Bye, Groups: 101}), []string{"phases[0].acts[0]"}},
		{"no groups", func(p *plan.Plan) { p.Group = 0; act(plan.Act{Kind: plan.Bye, Groups: 1})(p) }, []string{"phases[0].acts[0]"}},
		{"signal to somebody", act(plan.Act{Kind: plan.Signal, All: true}), []string{"phases[0].acts[0]"}},
		{"signal", act(plan.Act{Kind: plan.Signal, Back: s}), nil},
		{"signal that takes a while", act(plan.Act{Kind: plan.Signal, Within: s}), []string{"phases[0].acts[0]"}},
		{"negative", act(plan.Act{Kind: plan.Bye, All: true, After: -1, Back: -1}), []string{"phases[0].acts[0].after", "phases[0].acts[0].back"}},
		{"too late", act(plan.Act{Kind: plan.Bye, All: true, After: 9 * time.Minute, Within: 2 * time.Minute}), []string{"phases[0].acts[0]"}},
		{"too often", act(plan.Act{Kind: plan.Move, All: true, Times: 100, Every: time.Minute}), []string{"phases[0].acts[0]"}},
		{"much too often", act(plan.Act{Kind: plan.Move, All: true, Times: 100_000, Every: time.Hour}), []string{"phases[0].acts[0].times"}},
		{"every without times", act(plan.Act{Kind: plan.Bye, All: true, Every: s}), []string{"phases[0].acts[0].every"}},
		{"times without every", act(plan.Act{Kind: plan.Bye, All: true, Back: s, Times: 2}), []string{"phases[0].acts[0].every"}},
		{"twice for good", act(plan.Act{Kind: plan.Bye, All: true, Times: 2, Every: s}), []string{"phases[0].acts[0].back"}},
		{"again before it is back", act(plan.Act{Kind: plan.Bye, All: true, Back: s, Times: 2, Every: s}), []string{"phases[0].acts[0].every"}},
		{"back within without back", act(plan.Act{Kind: plan.Bye, All: true, BackWithin: s}), []string{"phases[0].acts[0].back_within"}},
		{"back within at once", act(plan.Act{Kind: plan.Reconnect, All: true, BackWithin: s}), nil},
		{"sleep for good", act(plan.Act{Kind: plan.Sleep, All: true}), []string{"phases[0].acts[0].back"}},
		{"sleep in mqtt", func(p *plan.Plan) {
			p.Protocol = plan.MQTT
			act(plan.Act{Kind: plan.Sleep, All: true, Back: s})(p)
		}, []string{"phases[0].acts[0].kind"}},
		{"move to nowhere", func(p *plan.Plan) {
			p.Sources = nil
			act(plan.Act{Kind: plan.Move, All: true})(p)
		}, []string{"phases[0].acts[0].kind"}},
		{"after all are gone", acts(plan.Act{Kind: plan.Bye, All: true}, plan.Act{Kind: plan.Move, All: true, After: s}), []string{"phases[0].acts[1]"}},
		{"more than are left", acts(plan.Act{Kind: plan.Bye, Share: 0.6}, plan.Act{Kind: plan.Close, Share: 0.6, After: s}), []string{"phases[0].acts[1]"}},
		{"when they are back", acts(plan.Act{Kind: plan.Bye, Share: 0.6, Back: s}, plan.Act{Kind: plan.Close, Share: 0.6, After: s}), nil},
		{"a moment before they are back", acts(plan.Act{Kind: plan.Bye, Share: 0.6, Back: s}, plan.Act{Kind: plan.Close, Share: 0.6, After: s - 1}), []string{"phases[0].acts[1]"}},
		{"groups twice", acts(plan.Act{Kind: plan.Bye, GroupShare: 0.6, Back: s}, plan.Act{Kind: plan.Close, GroupShare: 0.6, After: s}), []string{"phases[0].acts[1]"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := steady(1000)
			p.Sources = twoSources()
			tt.change(p)
			err := p.Validate()
			var got []string
			if joined, ok := errors.AsType[interface {
				error
				Unwrap() []error
			}](err); ok {
				for _, e := range joined.Unwrap() {
					if f, ok := errors.AsType[*plan.FieldError](e); ok && f.Error() == f.Field+": "+f.Text {
						got = append(got, f.Field)
					}
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("Validate() names %q, want %q: %v", got, tt.want, err)
			}
		})
	}
}

func TestValidateHidesTheToken(t *testing.T) {
	p := steady(10)
	p.Token = "hunter2 hunter2"
	if err := p.Validate(); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("Validate() = %v", err)
	}
}

func TestNotes(t *testing.T) {
	const m = time.Minute // the plan takes 10 of them, the timeout 1.5, the grace 10 s
	tests := []struct {
		name  string
		act   plan.Act
		noted bool
	}{
		{"in time", plan.Act{Kind: plan.Silent, All: true, After: 8 * m, Within: m / 2}, false},
		{"too late", plan.Act{Kind: plan.Silent, All: true, After: 8 * m, Within: m}, true},
		{"too late again", plan.Act{Kind: plan.Crash, All: true, After: m, Times: 2, Every: 8 * m, Back: 3 * m}, true},
		{"back before the verdict", plan.Act{Kind: plan.Silent, All: true, After: 9 * m, Back: m}, false},
		{"close", plan.Act{Kind: plan.Close, All: true, After: 9*m + m/2}, false},
		{"close at the end", plan.Act{Kind: plan.Reset, All: true, After: 10 * m}, true},
		{"bye at the end", plan.Act{Kind: plan.Bye, All: true, After: 10 * m}, false},
		{"nothing to judge", plan.Act{Kind: plan.Reconnect, All: true, After: 10 * m}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := steady(10, tt.act)
			if err := p.Validate(); err != nil {
				t.Fatal(err)
			}
			if notes := p.Notes(); (len(notes) > 0) != tt.noted {
				t.Errorf("Notes() = %q", notes)
			}
		})
	}
}
