package archtest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestImportsPointDown(t *testing.T) {
	for _, v := range directions().violations(loadModule(t)) {
		t.Error(v)
	}
}

func TestPackageNames(t *testing.T) {
	for _, v := range vague(loadModule(t), vagueNames()) {
		t.Error(v)
	}
}

func TestTimerPullsInLittle(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./timer")
	cmd.Dir = moduleRoot(t)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("list the dependencies of timer: %v", err)
	}
	deps := strings.Fields(string(out))
	if !slices.Contains(deps, module+"/timer") {
		t.Fatalf("the dependencies of timer do not name timer itself: %v", deps)
	}
	for _, v := range strangers("timer", deps, timerNeeds()) {
		t.Error(v)
	}
}

func TestViolations(t *testing.T) {
	tests := []struct {
		name string
		pkg  pkg
		want string // part of the one violation, "" for none
	}{
		{name: "engine on engine", pkg: pkg{path: "timer", imports: []string{"dualmap"}}},
		{name: "domain on engine", pkg: pkg{path: "liveness", imports: []string{"dualmap", "timer"}}},
		{name: "service on domain", pkg: pkg{path: "internal/store/sqlite", imports: []string{"liveness", "internal/store"}}},
		{name: "edge on service", pkg: pkg{path: "internal/httpapi", imports: []string{"liveness", "internal/store"}}},
		{name: "delivery on store", pkg: pkg{path: "internal/delivery", imports: []string{"liveness", "internal/store"}}},
		{name: "gateway on its codec", pkg: pkg{path: "gateway", imports: []string{"gateway/codec/line", "liveness"}}},
		{name: "own subfolder", pkg: pkg{path: "timer", imports: []string{"timer/internal/heap"}}},
		{name: "cmd on the command line", pkg: pkg{path: "cmd/holter", imports: []string{"internal/cli"}}},
		{name: "command line on all", pkg: pkg{path: "internal/cli", imports: []string{"gateway", "internal/httpapi", "internal/doctor", "internal/server", "loadgen"}}},
		{name: "server on edges", pkg: pkg{path: "internal/server", imports: []string{"gateway", "internal/httpapi", "internal/config"}}},

		{name: "helper of a test", pkg: pkg{path: "timer", imports: []string{"internal/test/testenv"}}},
		{name: "helper of tests outside of them", pkg: pkg{path: "timer", imports: []string{"internal/test/testenv"}, code: []string{"internal/test/testenv"}}, want: "timer imports internal/test/testenv,"},

		{name: "dualmap on timer", pkg: pkg{path: "dualmap", imports: []string{"timer"}}, want: "dualmap imports timer,"},
		{name: "dualmap on internal", pkg: pkg{path: "dualmap", imports: []string{"internal/pad"}}, want: "dualmap imports internal/pad,"},
		{name: "timer on liveness", pkg: pkg{path: "timer", imports: []string{"dualmap", "liveness"}}, want: "timer imports liveness,"},
		{name: "liveness on store", pkg: pkg{path: "liveness", imports: []string{"internal/store"}}, want: "liveness imports internal/store,"},
		{name: "liveness on gateway", pkg: pkg{path: "liveness", imports: []string{"gateway"}}, want: "liveness imports gateway,"},
		{name: "service on service", pkg: pkg{path: "internal/store", imports: []string{"internal/delivery"}}, want: "internal/store imports internal/delivery,"},
		{name: "service on edge", pkg: pkg{path: "internal/store", imports: []string{"internal/httpapi"}}, want: "internal/store imports internal/httpapi,"},
		{name: "edge on edge", pkg: pkg{path: "gateway", imports: []string{"internal/httpapi"}}, want: "gateway imports internal/httpapi,"},
		{name: "edge below an edge", pkg: pkg{path: "internal/mqttreport", imports: []string{"gateway/codec/jt808"}}, want: "internal/mqttreport imports gateway/codec/jt808,"},
		{name: "edge on a codec", pkg: pkg{path: "internal/httpapi", imports: []string{"gateway/codec/line"}}, want: "internal/httpapi imports gateway/codec/line,"},
		{name: "codec on event loop", pkg: pkg{path: "gateway/codec/line", imports: []string{"internal/net/eventloop"}}, want: "gateway/codec/line imports internal/net/eventloop,"},
		{name: "codec on gateway", pkg: pkg{path: "gateway/codec/line", imports: []string{"gateway"}}, want: "gateway/codec/line imports gateway,"},
		{name: "codec on liveness", pkg: pkg{path: "gateway/codec/line", imports: []string{"liveness"}}, want: "gateway/codec/line imports liveness,"},
		{name: "edge on cmd", pkg: pkg{path: "gateway", imports: []string{"cmd/holter/flags"}}, want: "gateway imports cmd/holter/flags,"},
		{name: "edge on loadgen", pkg: pkg{path: "gateway", imports: []string{"loadgen"}}, want: "gateway imports loadgen,"},
		{name: "cmd on an edge", pkg: pkg{path: "cmd/holter", imports: []string{"gateway"}}, want: "cmd/holter imports gateway,"},
		{name: "server on the command line", pkg: pkg{path: "internal/server", imports: []string{"internal/cli"}}, want: "internal/server imports internal/cli,"},
		{name: "API client on the store", pkg: pkg{path: "internal/apiclient", imports: []string{"internal/store"}}, want: "internal/apiclient imports internal/store,"},
		{name: "cmd on bench", pkg: pkg{path: "cmd/holter", imports: []string{"bench/fleet"}}, want: "cmd/holter imports bench/fleet,"},
		{name: "loadgen on bench", pkg: pkg{path: "loadgen", imports: []string{"bench"}}, want: "loadgen imports bench,"},
		{name: "internal on timer", pkg: pkg{path: "internal/duration", imports: []string{"timer"}}, want: "internal/duration imports timer,"},
		{name: "liveness on config", pkg: pkg{path: "liveness", imports: []string{"internal/config"}}, want: "liveness imports internal/config,"},
		{name: "edge on config", pkg: pkg{path: "gateway", imports: []string{"internal/config"}}, want: "gateway imports internal/config,"},
		{name: "internal on config", pkg: pkg{path: "internal/duration", imports: []string{"internal/config"}}, want: "internal/duration imports internal/config,"},
		{name: "config on the command line", pkg: pkg{path: "internal/config", imports: []string{"internal/cli"}}, want: "internal/config imports internal/cli,"},
		{name: "engine on the root", pkg: pkg{path: "timer", imports: []string{"."}}, want: "timer imports .,"},
		{name: "unknown package", pkg: pkg{path: "telemetry", imports: []string{"timer"}}, want: "package telemetry is not in the table"},
		{name: "unknown import", pkg: pkg{path: "gateway", imports: []string{"telemetry"}}, want: "gateway imports telemetry,"},
		{name: "name that begins alike", pkg: pkg{path: "timer", imports: []string{"dualmapper"}}, want: "timer imports dualmapper,"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			checkSentences(t, directions().violations([]pkg{tt.pkg}), tt.want)
		})
	}
}

func TestVague(t *testing.T) {
	tests := []struct {
		name string
		pkg  pkg
		want string
	}{
		{name: "good", pkg: pkg{path: "timer", name: "timer"}},
		{name: "good as part of a word", pkg: pkg{path: "gateway/utility", name: "utility"}},
		{name: "folder", pkg: pkg{path: "timer/util", name: "util"}, want: "package timer/util is called util"},
		{name: "parent folder", pkg: pkg{path: "pkg/timer", name: "timer"}, want: "package pkg/timer is called pkg"},
		{name: "name only", pkg: pkg{path: "timer/things", name: "types"}, want: "package timer/things is called types"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			checkSentences(t, vague([]pkg{tt.pkg}, vagueNames()), tt.want)
		})
	}
}

func TestStrangers(t *testing.T) {
	tests := []struct {
		name string
		dep  string
		want string
	}{
		{name: "timer", dep: module + "/timer"},
		{name: "below timer", dep: module + "/timer/internal/heap"},
		{name: "dualmap", dep: module + "/dualmap"},
		{name: "ants", dep: "github.com/panjf2000/ants/v2"},
		{name: "below ants", dep: "github.com/panjf2000/ants/v2/pkg/sync"},
		{name: "what ants needs", dep: "golang.org/x/sync/errgroup"},
		{name: "liveness", dep: module + "/liveness", want: "pulls in " + module + "/liveness"},
		{name: "older ants", dep: "github.com/panjf2000/ants", want: "pulls in github.com/panjf2000/ants:"},
		{name: "metrics", dep: "github.com/prometheus/client_golang/prometheus", want: "pulls in github.com/prometheus"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			checkSentences(t, strangers("timer", []string{tt.dep}, timerNeeds()), tt.want)
		})
	}
}

func TestLoadGraph(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":                "module " + module + "\n",
		"doc.go":                "package holter\n",
		"timer/timer.go":        "package timer\n\nimport (\n\t_ \"fmt\"\n\t_ \"" + module + "/dualmap\"\n)\n",
		"timer/in_test.go":      "package timer\n\nimport _ \"" + module + "/liveness\"\n",
		"timer/out_test.go":     "package timer_test\n\nimport (\n\t_ \"" + module + "\"\n\t_ \"" + module + "/timer\"\n)\n",
		"onlytests/x_test.go":   "package onlytests_test\n\nimport _ \"" + module + "/timer\"\n",
		"empty/README.md":       "nothing to see\n",
		"bench/go.mod":          "module bench\n",
		"bench/timer/rivals.go": "package timer\n",
		"timer/testdata/bad.go": "package bad\n",
		".cache/x/x.go":         "package x\n",
	} {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	got, err := loadGraph(root)
	if err != nil {
		t.Fatal(err)
	}
	want := []pkg{
		{path: ".", name: "holter"},
		{path: "onlytests", name: "onlytests", imports: []string{"timer"}},
		{path: "timer", name: "timer", imports: []string{".", "dualmap", "liveness", "timer"}},
	}
	equal := func(a, b pkg) bool {
		return a.path == b.path && a.name == b.name && slices.Equal(a.imports, b.imports)
	}
	if !slices.EqualFunc(got, want, equal) {
		t.Errorf("loadGraph = %v, want %v", got, want)
	}
}

// loadModule reads this module, and makes sure that it found itself there.
func loadModule(t *testing.T) []pkg {
	t.Helper()
	pkgs, err := loadGraph(moduleRoot(t))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(pkgs, func(p pkg) bool { return p.path == "internal/archtest" }) {
		t.Fatalf("the graph misses this very package: %v", pkgs)
	}
	return pkgs
}

// moduleRoot returns the folder of go.mod, which it also opens: the cached
// result of `go test` then depends on the versions that go.mod asks for.
func moduleRoot(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(mod), "module "+module+"\n") {
		t.Fatalf("%s is not the module %s", root, module)
	}
	return root
}

// checkSentences checks that got holds one sentence with want in it, or none
// if want is empty.
func checkSentences(t *testing.T, got []string, want string) {
	t.Helper()
	switch {
	case want == "" && len(got) > 0:
		t.Errorf("got %q, want none", got)
	case want != "" && (len(got) != 1 || !strings.Contains(got[0], want)):
		t.Errorf("got %q, want one with %q", got, want)
	}
}
