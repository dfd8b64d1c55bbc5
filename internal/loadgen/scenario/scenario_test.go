package scenario_test

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/holter-iot/holter/internal/loadgen/plan"
	"github.com/holter-iot/holter/internal/loadgen/scenario"
	"github.com/holter-iot/holter/internal/test/testenv"
)

const (
	s = time.Second
	m = time.Minute
)

func addresses(all ...string) []netip.Addr {
	var out []netip.Addr
	for _, a := range all {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

func TestFull(t *testing.T) {
	got, err := scenario.Load("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := &plan.Plan{
		Name: "everything", Seed: 42, Devices: 5000, ID: "site/dev-%06d", Group: 25, Protocol: "mqtt",
		Targets: []string{"127.0.0.1:1883", "[::1]:1884", "broker.example:1885"},
		Sources: addresses(
			"127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.6", "127.0.0.7", "127.0.0.8", "127.0.0.9",
			"127.0.1.1", "127.0.1.2", "10.0.0.7",
		),
		User: "fleet", Token: "not-a-secret", Interval: 30 * s, Jitter: 0.1, Timeout: 90 * s, Grace: 10 * s,
		WillTopic: "fleet/{device}/status", WillPayload: "gone", BirthPayload: "here", Publish: "fleet/{device}/beat", QoS: 1,
		Ramp: 20000, Backoff: s, BackoffMax: 30 * s,
		Phases: []plan.Phase{
			{Name: "quiet", Length: m},
			{Name: "trouble", Length: 10 * m, Acts: []plan.Act{
				{Kind: plan.Bye, Share: 0.01, After: 10 * s, Within: m},
				{Kind: plan.Close, Share: 0.01, Within: m, Back: 5 * s, Times: 5, Every: 90 * s},
				{Kind: plan.Reset, Count: 40, Back: 30 * s, BackWithin: 10 * s},
				{Kind: plan.Silent, Share: 0.1, Within: m},
				{Kind: plan.Crash, Groups: 2, After: 2 * m},
				{Kind: plan.Crash, GroupShare: 0.05, After: 3 * m, Within: m, Back: 2 * m},
				{Kind: plan.Stall, Count: 10, Back: m},
				{Kind: plan.Duplicate, Share: 0.01},
				{Kind: plan.Move, Share: 0.01, After: 30 * s},
				{Kind: plan.Signal, After: 5 * m, Back: 10 * s},
			}},
			{Name: "storm", Length: 5 * m, Acts: []plan.Act{{Kind: plan.Reconnect, All: true}}},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Load = %+v\nwant %+v", got, want)
	}
	if err := got.Validate(); err != nil {
		t.Errorf("Validate: %v", err)
	}
}

func TestDefaults(t *testing.T) {
	got, err := scenario.Parse("dir/mine.yaml", "phases: [{length: 5m}]\n")
	if err != nil {
		t.Fatal(err)
	}
	want := &plan.Plan{Name: "mine", Phases: []plan.Phase{{Length: 5 * m}}}
	want.Fill()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Parse = %+v, want %+v", got, want)
	}
}

func TestReady(t *testing.T) {
	want := []string{"flapping", "reconnect-storm", "rolling-restart", "silent-10pct", "site-outage", "soak", "steady"}
	if got := scenario.Names(); !slices.Equal(got, want) {
		t.Errorf("Names() = %q, want %q", got, want)
	}
	sizes := []int{50, 1000}
	if testenv.Checks() {
		sizes = append(sizes, 1_000_000)
	}
	for _, name := range want {
		t.Run(name, func(t *testing.T) {
			summary, err := scenario.Summary(name)
			if err != nil || len(summary) < 50 || !strings.HasSuffix(summary, ".") {
				t.Errorf("Summary = %q, %v", summary, err)
			}
			for _, protocol := range []string{plan.Line, plan.MQTT} {
				for _, devices := range sizes {
					for _, interval := range []time.Duration{2 * s, 30 * s, m} {
						checkReady(t, name, plan.Plan{
							Devices: devices, Protocol: protocol, Interval: interval, Targets: []string{"127.0.0.1:7700"},
						})
					}
				}
			}
		})
	}
}

func checkReady(t *testing.T, name string, by plan.Plan) {
	t.Helper()
	p, err := scenario.Ready(name)
	if err != nil {
		t.Fatal(err)
	}
	scenario.Override(p, by, 0)
	if p.Name != name {
		t.Errorf("Name = %q", p.Name)
	}
	if err := p.Validate(); err != nil {
		t.Errorf("%+v: %v", by, err)
	}
	if notes := p.Notes(); len(notes) > 0 {
		t.Errorf("%+v: %q", by, notes)
	}
}

func TestReadyScales(t *testing.T) {
	tests := []struct {
		name    string
		devices int
		want    map[plan.Kind]int
	}{
		{"steady", 1000, map[plan.Kind]int{}},
		{"silent-10pct", 20_000, map[plan.Kind]int{plan.Silent: 2000}},
		{"site-outage", 20_000, map[plan.Kind]int{plan.Crash: 4000}},
		{"reconnect-storm", 20_000, map[plan.Kind]int{plan.Reconnect: 20_000}},
		{"flapping", 2000, map[plan.Kind]int{plan.Close: 100*12 + 100*7}},
		{"rolling-restart", 2000, map[plan.Kind]int{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := scenario.Ready(tt.name)
			if err != nil {
				t.Fatal(err)
			}
			scenario.Override(p, plan.Plan{Devices: tt.devices}, 0)
			got, fates := map[plan.Kind]int{}, p.Fates(plan.Range{To: p.Devices})
			for n := range p.Devices {
				for _, step := range fates.Of(n) {
					got[step.Kind]++
				}
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("steps: %v, want %v", got, tt.want)
			}
		})
	}
}

func TestOpen(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, file := range []string{"steady", "mine", "mine.yml", "other.yaml"} {
		if err := os.WriteFile(file, []byte("phases: [{length: 7s}]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name string
		want time.Duration
		err  string // part of it
	}{
		{"steady", 5 * m, ""},
		{"./steady", 7 * s, ""},
		{"mine.yml", 7 * s, ""},
		{"other.yaml", 7 * s, ""},
		{"mine", 0, "for the file of this name write ./mine"},
		{"steadi", 0, `unknown scenario "steadi"; did you mean "steady"? (known are flapping, `},
		{"site_outage", 0, `did you mean "site-outage"?`},
		{"xyzzy", 0, `unknown scenario "xyzzy" (known are`},
		{"none.yaml", 0, "none.yaml: cannot read the scenario: no such file"},
		{".", 0, `unknown scenario "."`},
		{"./", 0, "./: cannot read the scenario: is a directory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := scenario.Open(tt.name)
			switch {
			case tt.err == "" && (err != nil || p.Length() != tt.want):
				t.Errorf("Open = %+v, %v", p, err)
			case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
				t.Errorf("Open: %v, want %q", err, tt.err)
			}
		})
	}
	for _, name := range []string{"nothing", "../ready/steady"} {
		if _, err := scenario.Text(name); err == nil {
			t.Errorf("Text(%q) has no error", name)
		}
		if _, err := scenario.Summary(name); err == nil {
			t.Errorf("Summary(%q) has no error", name)
		}
	}
}

// Each testdata/mistakes/NAME.yaml is wrong, and NAME.txt is all that is said about it. With UPDATE_GOLDEN=1 in the environment the latter
// are written anew.
func TestMistakes(t *testing.T) {
	files, err := filepath.Glob("testdata/mistakes/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := message(t, string(text)) + "\n"
			golden := strings.TrimSuffix(file, ".yaml") + ".txt"
			if os.Getenv("UPDATE_GOLDEN") != "" {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("message\n%swant\n%s", got, want)
			}
		})
	}
}

func message(t *testing.T, text string) string {
	t.Helper()
	p, err := scenario.Parse("storm.yaml", text)
	if err == nil {
		t.Fatalf("Parse(%q) = %+v, want an error", text, p)
	}
	return err.Error()
}

// Files that are hard to keep as files.
func TestMistakesUnprintable(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"empty", "", "storm.yaml: is empty; write at least one phase, as in phases: [{length: 5m}]"},
		{"comments", "# nothing\n", "storm.yaml: is empty; write at least one phase, as in phases: [{length: 5m}]"},
		{"NUL byte", "seed: 1\nname: a\x00b\n", "storm.yaml:2: contains a NUL byte, or is not UTF-8"},
		{"not UTF-8", "name: \xff\n", "storm.yaml:1: contains a NUL byte, or is not UTF-8"},
		{"large", strings.Repeat("#\n", 200_000), "storm.yaml: is larger than 256 KiB"},
		{"many keys", "phases: [" + strings.Repeat("{a: 1},", 12_001) + "]", "storm.yaml:1:84005: more than 12000 keys"},
		{"deep", strings.Repeat("[", 40), "storm.yaml:1:33: more than 32 levels of nesting"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, _, _ := strings.Cut(message(t, tt.text), "\n"); got != tt.want {
				t.Errorf("message %q, want %q", got, tt.want)
			}
		})
	}
}

// No message shows the token, nor what stands where a token was meant.
func TestMistakesHideToken(t *testing.T) {
	tests := []struct{ name, text string }{
		{"list", "token: [hunter2]\n"},
		{"mapping", "token: {hunter2: x}\n"},
		{"tag", "token: !!str hunter2\n"},
		{"with a space", "token: hunter2 hunter2\nphases: [{length: 1m}]\n"},
		{"misspelt", "tokn: hunter2\n"},
		{"misspelt otherwise", "toen: hunter2\n"},
		{"other name", "api-key: hunter2\nPassword: hunter2\nclient_secret: hunter2\n"},
		{"open quote", "token: \"hunter2\n"},
		{"colon", "token: hunter2: x\n"},
		{"next line", "token:\n  hunter2\n  hunter2: a\n"},
		{"block", "bogus: 1\ntoken: |\n  hunter2\n  hunter2: 1\n"},
		{"flow", "{bogus: 1, token: hunter2, bogus: 1}\n"},
		{"flow over lines", "{\n  token:\n  hunter2, bogus: 1\n}\n"},
		{"equals sign", "{token=hunter2, interval: 1}\n"},
		{"no space", "interval: 1\ntoken:hunter2\n"},
		{"in a target", "targets: ['u:hunter2@h:1', 'tcp://u:hunter2@h:1']\nphases: [{length: 1m}]\n"},
		{"no mistake in it", "interval: 1\ntoken: hunter2\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := message(t, tt.text); strings.Contains(got, "hunter2") {
				t.Errorf("the token is shown:\n%s", got)
			}
		})
	}
}

func TestMistakesAreJoined(t *testing.T) {
	_, err := scenario.Parse("storm.yaml", "interval: 0\nphases: [{}]\nqos: 9\n")
	joined, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](err)
	if !ok || len(joined.Unwrap()) != 3 {
		t.Errorf("%v is not three joined errors", err)
	}
}

// Whatever a file holds, reading it ends in a plan that can be played or in an error whose first line begins with the name of the file.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/mistakes/*.yaml", "testdata/full.yaml", "ready/*.yaml"} {
		seeds, err := filepath.Glob(pattern)
		if err != nil || len(seeds) == 0 {
			f.Fatalf("no seeds: %v", err)
		}
		for _, seed := range seeds {
			text, err := os.ReadFile(seed)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(string(text))
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := scenario.Parse("storm.yaml", text)
		if err != nil {
			message := err.Error()
			if !strings.HasPrefix(message, "storm.yaml:") {
				t.Errorf("error without a place: %s", message)
			}
			if !utf8.ValidString(message) || strings.ContainsAny(message, "\x00\x1b\r\t") {
				t.Errorf("error with characters that move a terminal: %q", message)
			}
			return
		}
		scenario.Override(p, plan.Plan{Devices: max(p.Devices, 1000), Targets: []string{"[::1]:1"}}, p.Length())
		if again := p.Length(); again <= 0 {
			t.Errorf("length %v", again)
		}
		_, _ = p.Notes(), p.Signals()
		fates := p.Fates(plan.Range{To: p.Devices})
		for n := range 3 {
			last := time.Duration(0)
			for _, step := range fates.Of(n) {
				if step.At < last || step.Back != 0 && step.Back <= step.At && step.Back != max(step.At, 1) {
					t.Errorf("device %d: %+v", n, fates.Of(n))
					break
				}
				last = step.At
			}
		}
	})
}
