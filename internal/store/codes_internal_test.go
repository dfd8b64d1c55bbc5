package store

import (
	"testing"

	"github.com/holter-iot/holter/liveness"
)

// Each reason and each state that is kept reads back as itself.
func TestCodes(t *testing.T) {
	d := newDecoder()
	for r := liveness.NoReason; r.String() != "invalid"; r++ {
		if got := d.reasons[reasonCode(r)]; got != r {
			t.Errorf("reason %v reads back as %v", r, got)
		}
	}
	for s := liveness.NeverSeen; s <= liveness.Offline; s++ {
		if got := d.states[stateCode(s)]; got != s {
			t.Errorf("state %v reads back as %v", s, got)
		}
	}
}
