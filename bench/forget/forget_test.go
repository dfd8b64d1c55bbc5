//go:build linux

package forget

import (
	"os"
	"strings"
	"testing"

	"github.com/holter-iot/holter/bench/internal/run"
)

func TestMain(m *testing.M) { os.Exit(run.TestMain(m, Command())) }

// TestQuick floods a server for a moment, and waits for nothing.
func TestQuick(t *testing.T) {
	var out strings.Builder
	if err := run.Main(t.Context(), []string{"forget", "-quick", "-seconds", "1"}, nil, &out, t.Output(), Command()); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if !strings.Contains(out.String(), "500 unknown devices say hello and goodbye") {
		t.Error(out.String())
	}
}
