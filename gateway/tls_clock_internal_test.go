package gateway

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestArrears walks through what is owed to connections, at instants in ms.
func TestArrears(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	a := newArrears()
	bound := func(at, want int) {
		t.Helper()
		if got := a.bound(ms(at)); got != ms(want) {
			t.Errorf("bound(%dms) = %v, want %dms", at, got, want)
		}
	}
	owed := func(d *debt, at, want int) {
		t.Helper()
		if got := a.owed(d, ms(at)); got != ms(want) {
			t.Errorf("owed at %dms = %v, want %dms", at, got, want)
		}
	}
	bound(1000, 1000)
	d := a.begin(ms(1000)) // waits to be accepted
	bound(1500, 1000)
	a.theirs(d, ms(1500)) // its first record is read
	bound(1500, 1000)
	bound(2500, 2000) // who does not go on does not make it stand still
	a.ours(d, ms(2400))
	bound(3000, 1900)
	owed(d, 3000, 1100)
	a.theirs(d, ms(3000))
	a.ours(d, ms(2900)) // had lain there already
	owed(d, 3100, 1200)
	bound(3100, 1900)

	prompt := a.begin(ms(3000))
	a.theirs(prompt, ms(3000))
	owed(prompt, 200_000, 0)
	owed(d, 200_000, 120_000)
	bound(200_000, 80_000)
	a.theirs(d, ms(200_000))
	bound(300_000, 180_000)
	a.settle(d)
	bound(300_000, 180_000) // it does not jump
	bound(350_000, 280_000)
	a.settle(prompt)
	bound(420_000, 420_000)
	bound(500_000, 500_000)
	if len(a.held)+len(a.late) > 0 {
		t.Errorf("held %v, late %v after all are settled", a.held, a.late)
	}
}

// TestHandshakeLimiter: those that were begun go first; the others in their order, until they have
// waited so long that the last may be served better than the first.
func TestHandshakeLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		s := handshakeLimiter{free: 1}
		wait := func(name string, begun bool) {
			go func() {
				s.enter(begun)
				order = append(order, name)
			}()
			synctest.Wait()
		}
		next := func(n int) {
			for range n {
				s.leave()
				synctest.Wait()
			}
		}
		wait("a", false)
		for _, name := range []string{"b", "c", "d", "e"} {
			wait(name, false)
		}
		wait("begun", true)
		next(2)
		time.Sleep(longWait + 1)
		wait("f", false)
		wait("begun late", true)
		next(5)
		if want := []string{"a", "begun", "b", "begun late", "f", "e", "d", "c"}; !slices.Equal(order, want) {
			t.Errorf("order = %v, want %v", order, want)
		}
		next(1)
		if s.free != 1 {
			t.Errorf("free = %d at the end, want 1", s.free)
		}
	})
}
