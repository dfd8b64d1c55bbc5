package access

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
)

// TestTurns: those go first that follow the fewest wrong passwords, of these the oldest; if there is no
// room, those make some that follow the most.
func TestTurns(t *testing.T) {
	wrong := map[guess]int{}
	guessOf := func(address byte) guess {
		return guess{from: netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, address}), 32)}
	}
	turns := newTurns(1, func(g guess) int { return wrong[g] })
	wrong[guessOf(1)] = 1
	var entered []*waiting
	enter := func(address byte) *waiting {
		w := turns.enter(guessOf(address))
		entered = append(entered, w)
		return w
	}
	if w := enter(0); len(w.turn) != 1 || <-w.turn != nil {
		t.Fatal("the first has no turn")
	}
	for range waitingLogins / 2 {
		enter(1)
		enter(2)
	}
	if w := enter(1); !errors.Is(<-w.turn, ErrBusy) {
		t.Error("one above the room that follows as many as others has a place")
	}
	enter(3)
	enter(2)
	if youngest := entered[waitingLogins-3]; len(turns.waiting) != waitingLogins || !errors.Is(<-youngest.turn, ErrBusy) {
		t.Errorf("%d wait, want %d, without the youngest of those that follow more", len(turns.waiting), waitingLogins)
	}
	wrong[guessOf(2)] = 2
	turns.rank(guessOf(2).from)
	var order []byte
	for range waitingLogins {
		turns.pass()
		i := slices.IndexFunc(entered, func(w *waiting) bool { return len(w.turn) == 1 && <-w.turn == nil })
		order = append(order, entered[i].from.Addr().As4()[3])
	}
	if order[0] != 3 || order[1] != 1 || order[waitingLogins-1] != 2 || !slices.IsSorted(order[1:]) {
		t.Errorf("order is %v, want 3, then all of 1, then all of 2", order)
	}
}
