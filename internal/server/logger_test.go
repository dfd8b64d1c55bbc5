package server

import (
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/config"
)

// In JSON, what is a duration has seconds in its name, whatever it was called, and each line names the node.
func TestLogger(t *testing.T) {
	var out strings.Builder
	log := newLogs(config.Log{Format: config.LogJSON}, "a", &out).logger().With("gap", time.Minute)
	log.Info("restored", "took", 1500*time.Millisecond, "devices", 3, slog.Group("clock", "behind", time.Microsecond))
	var got map[string]any
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil {
		t.Fatal(err)
	}
	keys := slices.Sorted(maps.Keys(got))
	if want := []string{"clock", "devices", "gap_seconds", "level", "msg", "node", "time", "took_seconds"}; !slices.Equal(keys, want) {
		t.Errorf("keys %v, want %v", keys, want)
	}
	if got["took_seconds"] != 1.5 || got["gap_seconds"] != 60.0 || got["node"] != "a" || got["clock"].(map[string]any)["behind_seconds"] != 1e-6 {
		t.Errorf("%v", got)
	}
	out.Reset()
	newLogs(config.Log{Format: config.LogText}, "a", &out).logger().Info("restored", "took", 1500*time.Millisecond)
	if !strings.HasSuffix(out.String(), "restored took=1.5s\n") {
		t.Errorf("text for people is %q", out.String())
	}
}
