package sockets

import (
	"testing"
	"time"
)

// TestBarrierBound: a barrier that is not asked for long holds a bounded number of instants, and then
// passes them.
func TestBarrierBound(t *testing.T) {
	var b Barrier
	at := time.Now()
	for i := range 10 * mostWaves {
		b.Note(at.Add(time.Duration(i)*nextWave), time.Duration(i), nil)
	}
	if n := len(b.waves); n != mostWaves {
		t.Errorf("%d instants are held, want %d", n, mostWaves)
	}
	if listened, ok := b.Passed(at); !ok || listened != time.Duration(mostWaves-1) || b.Waiting() {
		t.Errorf("Passed = %d, %v, want the latest that was noted", listened, ok)
	}
}
