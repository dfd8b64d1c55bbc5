//go:build linux

package replays

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/internal/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(run.TestMain(m, Command())) }

// TestSoakReplay plays a short plan, which takes most of a minute, and of which every verdict is compared all the same.
func TestSoakReplay(t *testing.T) {
	testenv.Soak(t)
	var out strings.Builder
	err := run.Main(t.Context(), []string{"replay", "-quick"}, nil, &out, t.Output(), Command())
	switch {
	case errors.Is(err, errBusy):
		t.Skip(err)
	case err != nil:
		t.Fatalf("%v\n%s", err, out.String())
	}
	if !strings.Contains(out.String(), ": 0 differences.") {
		t.Error(out.String())
	}
}
