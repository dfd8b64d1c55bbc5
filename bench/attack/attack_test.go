//go:build linux

package attack

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holter-iot/holter/bench/internal/run"
)

func TestMain(m *testing.M) { os.Exit(run.TestMain(m, Command())) }

// TestQuick plays some attacks for a moment.
func TestQuick(t *testing.T) {
	only := "tls-refused|^loris|garbage|flood|silent|pings|tokens|^proxy"
	if _, err := exec.LookPath("haproxy"); err == nil {
		only += "|haproxy"
	}
	file := filepath.Join(t.TempDir(), "reliability.md")
	var out strings.Builder
	if err := run.Main(t.Context(), []string{"attack", "-quick", "-only", only, "-md", file}, nil, &out, t.Output(), Command()); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| flood: ", "evicted ", "slowed ", "unauthorized ", "all heartbeats answered, server alive: met"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestParse(t *testing.T) {
	for _, args := range [][]string{{"x"}, {"-seconds", "0"}, {"-seconds", "601"}, {"-scale", "2"}, {"-devices", "0"}, {"-only", "("}} {
		if err := run.Main(t.Context(), append([]string{"attack"}, args...), nil, io.Discard, io.Discard, Command()); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}

func TestGood(t *testing.T) {
	r := result{alive: true}
	if !r.good() {
		t.Error("nothing happened, and it is not good")
	}
	r.offline = 1
	if r.good() {
		t.Error("a false verdict is good")
	}
}
