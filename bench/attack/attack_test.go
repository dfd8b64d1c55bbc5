//go:build linux

package attack

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/internal/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(run.TestMain(m, Command())) }

// TestQuick plays some attacks for a moment.
func TestQuick(t *testing.T) {
	testenv.Check(t)
	text := attacked(t, "-quick", "-only", "flood|pings|tokens")
	for _, want := range []string{"evicted ", "slowed ", "unauthorized "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// TestSoakAttack plays all attacks, in full. HOLTER_SOAK is the length of all of them.
func TestSoakAttack(t *testing.T) {
	testenv.Soak(t)
	args := []string{"-seconds", fmt.Sprint((testenv.SoakFor(t, 75*time.Second) / 15).Seconds())}
	if _, err := exec.LookPath("haproxy"); err != nil {
		var names []string
		for _, w := range attacks() {
			names = append(names, w.name)
		}
		args = append(args, "-only", "^("+strings.Join(names, "|")+")$")
	}
	attacked(t, args...)
}

// attacked plays attacks, after which no device may be any the worse, and returns what is written about them.
func attacked(t *testing.T, args ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "reliability.md")
	var out strings.Builder
	if err := run.Main(t.Context(), append([]string{"attack", "-md", file}, args...), nil, &out, t.Output(), Command()); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| flood: ", "all heartbeats answered, server alive: met"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	return string(text)
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
