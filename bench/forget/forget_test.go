//go:build linux

package forget

import (
	"os"
	"strings"
	"testing"

	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/internal/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(run.TestMain(m, Command())) }

// TestSoakForget floods a server and waits until the devices are forgotten. What that does to its memory is for the benchmark to say.
func TestSoakForget(t *testing.T) {
	testenv.Soak(t)
	if out := flooded(t, "-quick", "-seconds", "120"); !strings.Contains(out, "| 1,500 |") { // and those that came and went before
		t.Errorf("not all are forgotten:\n%s", out)
	}
}

// TestQuick floods a server for a moment, and waits for nothing.
func TestQuick(t *testing.T) {
	testenv.Check(t)
	if out := flooded(t, "-quick", "-seconds", "1"); !strings.Contains(out, "500 unknown devices say hello and goodbye") {
		t.Error(out)
	}
}

// flooded returns what is said of a flood.
func flooded(t *testing.T, args ...string) string {
	t.Helper()
	var out strings.Builder
	if err := run.Main(t.Context(), append([]string{"forget"}, args...), nil, &out, t.Output(), Command()); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	return out.String()
}
