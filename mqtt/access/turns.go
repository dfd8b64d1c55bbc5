package access

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/holter-iot/holter/internal/ratewindow"
)

// waitingLogins is how many may wait for the check of a password.
const waitingLogins = 512

// guess is which user's password is tried, and from where. The name is hashed: it may be long.
type guess struct {
	from netip.Prefix
	user uint64
}

// wrongs counts wrong passwords.
type wrongs struct {
	addresses ratewindow.Window[netip.Prefix, struct{}]
	users     ratewindow.Window[guess, struct{}]
}

func (w *wrongs) add(now time.Time, g guess) {
	w.addresses.Add(now, g.from)
	w.users.Add(now, g)
}

// of returns how many came from an address lately, and twice those for this user.
func (w *wrongs) of(now time.Time, g guess) int {
	return w.addresses.Count(now, g.from) + w.users.Count(now, g)
}

// turns has logins take turns. Those wait the shortest that follow the fewest wrong passwords.
type turns struct {
	wrong func(guess) int // how many wrong passwords a login follows

	mu      sync.Mutex // guards the fields below
	free    int
	waiting []*waiting // at most waitingLogins, the oldest first
}

// waiting is a login that waits.
type waiting struct {
	guess

	wrong int
	turn  chan error // has room for one: nil, or ErrBusy if another login takes the place
}

func newTurns(atOnce int, wrong func(guess) int) *turns {
	return &turns{free: atOnce, wrong: wrong}
}

// wait returns when a login has its turn, which pass ends. Errors: [ErrBusy], that of ctx.
func (t *turns) wait(ctx context.Context, g guess) error {
	w := t.enter(g)
	select {
	case err := <-w.turn:
		return err
	case <-ctx.Done():
	}
	if !t.leave(w) && <-w.turn == nil {
		t.pass()
	}
	return fmt.Errorf("access: login: %w", ctx.Err())
}

// enter lets a login wait, if there is room or it follows fewer wrong passwords than another one.
func (t *turns) enter(g guess) *waiting {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := &waiting{guess: g, wrong: t.wrong(g), turn: make(chan error, 1)}
	if t.free > 0 {
		t.free--
		w.turn <- nil
		return w
	}
	t.waiting = append(t.waiting, w)
	if len(t.waiting) > waitingLogins {
		last := w // of those that follow the most, the youngest
		for _, other := range slices.Backward(t.waiting) {
			if other.wrong > last.wrong {
				last = other
			}
		}
		t.takeLocked(last)
		last.turn <- ErrBusy
	}
	return w
}

// pass ends a turn, and begins that of the next.
func (t *turns) pass() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) == 0 {
		t.free++
		return
	}
	next := slices.MinFunc(t.waiting, byWrong) // of those with the fewest, the oldest
	t.takeLocked(next)
	next.turn <- nil
}

// rank looks again at the logins from an address that had one more wrong password.
func (t *turns) rank(from netip.Prefix) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range t.waiting {
		if w.from == from {
			w.wrong = t.wrong(w.guess)
		}
	}
}

// leave reports whether a login was still waiting; it is not any longer.
func (t *turns) leave(w *waiting) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.takeLocked(w)
}

func (t *turns) takeLocked(w *waiting) bool {
	i := slices.Index(t.waiting, w)
	if i < 0 {
		return false
	}
	t.waiting = slices.Delete(t.waiting, i, i+1)
	return true
}

func byWrong(a, b *waiting) int { return a.wrong - b.wrong }
