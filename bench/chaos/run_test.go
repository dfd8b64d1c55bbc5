//go:build linux

package chaos

import (
	"testing"
	"time"
)

func TestConfigErrors(t *testing.T) {
	for name, c := range map[string]Config{
		"nothing":       {},
		"database":      {Dir: "x", Database: "oracle"},
		"fault":         {Dir: "x", Faults: []FaultKind{"flood"}},
		"timeout":       {Dir: "x", Rules: Rules{TTLs: []time.Duration{time.Millisecond}}},
		"negative time": {Dir: "x", For: -1},
	} {
		if report, err := Run(t.Context(), c); err == nil {
			t.Errorf("%s: Run gave %+v", name, report)
		}
	}
}
