package gateway

import (
	"testing"
	"time"
)

// TestArrears walks through what is owed to connections, at instants in ms.
func TestArrears(t *testing.T) {
	const ms = time.Millisecond
	a := newArrears()
	bound := func(at, want time.Duration) {
		t.Helper()
		if got := a.bound(at * ms); got != want*ms {
			t.Errorf("bound(%dms) = %v, want %dms", at, got, want)
		}
	}
	owed := func(d *debt, at, want time.Duration) {
		t.Helper()
		if got := a.owed(d, at*ms); got != want*ms {
			t.Errorf("owed at %dms = %v, want %dms", at, got, want)
		}
	}
	bound(1000, 1000)
	d := a.begin(1000 * ms) // waits to be accepted
	bound(1500, 1000)
	a.theirs(d, 1500*ms) // its first record is read
	bound(1500, 1000)
	bound(2500, 2000) // who does not go on does not make it stand still
	a.ours(d, 2400*ms)
	bound(3000, 1900)
	owed(d, 3000, 1100)
	a.theirs(d, 3000*ms)
	a.ours(d, 2900*ms) // had lain there already
	owed(d, 3100, 1200)
	bound(3100, 1900)

	prompt := a.begin(3000 * ms)
	a.theirs(prompt, 3000*ms)
	owed(prompt, 90_000, 0)
	owed(d, 90_000, 30_000)
	bound(90_000, 60_000)
	a.theirs(d, 90_000*ms)
	bound(100_000, 70_000)
	a.settle(d)
	bound(100_000, 100_000)
	a.settle(prompt)
	if len(a.held)+len(a.late) > 0 {
		t.Errorf("held %v, late %v after all are settled", a.held, a.late)
	}
}
