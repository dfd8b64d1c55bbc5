//go:build linux

package replays

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/holter-iot/holter/bench/internal/run"
)

func TestMain(m *testing.M) { os.Exit(run.TestMain(m, Command())) }

// TestQuick plays a short plan, of which every verdict is compared all the same.
func TestQuick(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes most of a minute")
	}
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
