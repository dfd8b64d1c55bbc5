//go:build linux

package api

import (
	"os"
	"strings"
	"testing"

	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/internal/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(run.TestMain(m, Command())) }

// TestQuick asks everything of a small fleet.
func TestQuick(t *testing.T) {
	testenv.Check(t)
	var out strings.Builder
	if err := run.Main(t.Context(), []string{"api", "-quick"}, nil, &out, t.Output(), Command()); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, part := range []string{"| sort=last_seen, offline, first page |", "| no sort, all, last page |", "| /v1/fleet/map, 304 |"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("the report has no %s:\n%s", part, out.String())
		}
	}
}
