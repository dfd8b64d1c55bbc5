//go:build linux

package chaos_test

import (
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/fleet/chaos"
)

func TestConfigErrors(t *testing.T) {
	for name, c := range map[string]chaos.Config{
		"nothing":       {},
		"database":      {Dir: "x", Database: "oracle"},
		"fault":         {Dir: "x", Faults: []chaos.FaultKind{"flood"}},
		"timeout":       {Dir: "x", Rules: chaos.Rules{TTLs: []time.Duration{time.Millisecond}}},
		"negative time": {Dir: "x", For: -1},
	} {
		if report, err := chaos.Run(t.Context(), c); err == nil {
			t.Errorf("%s: Run gave %+v", name, report)
		}
	}
}
