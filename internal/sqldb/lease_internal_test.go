package sqldb

import (
	"testing"
	"time"
)

// A connection that hangs is given up and the lease renewed over another one before it lapses. A server
// that takes 2 s for each statement keeps its connection.
func TestPatience(t *testing.T) {
	times := defaultLease()
	if spent := times.every + times.patience; spent >= times.length*8/10 {
		t.Errorf("a connection that hangs is given up %v after the latest renewal, and the lease lapses at %v", spent, times.length*8/10)
	}
	for _, it := range []struct{ took, want time.Duration }{
		{time.Millisecond, times.patience},
		{2 * time.Second, 4 * time.Second},
		{times.patience, 2 * times.patience},
		{9 * time.Second, mostPatience},
		{mostPatience, mostPatience},
	} {
		if got := times.patienceAfter(it.took); got != it.want {
			t.Errorf("patienceAfter(%v) = %v, want %v", it.took, got, it.want)
		}
	}
}
