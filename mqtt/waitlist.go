package mqtt

import (
	"sync"
	"sync/atomic"
)

// waitlist has connections wait until a number is reached. The zero waitlist has reached 0.
type waitlist struct {
	reached atomic.Uint64

	mu      sync.Mutex // guards waiting, and awaiting of the connections
	waiting []*Conn
}

// awaits reports whether a number is not reached yet. If so, the connection is woken when the next
// one is.
func (w *waitlist) awaits(c *Conn, number uint64) bool {
	if w.reached.Load() >= number {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reached.Load() >= number {
		return false
	}
	if !c.awaiting {
		c.awaiting = true
		w.waiting = append(w.waiting, c)
	}
	return true
}

// reach says that a number is reached.
func (w *waitlist) reach(number uint64) {
	w.mu.Lock()
	waiting := w.waiting
	w.waiting = nil
	w.reached.Store(number)
	for _, c := range waiting {
		c.awaiting = false
	}
	w.mu.Unlock()
	for _, c := range waiting {
		c.wire.Wake()
	}
}

// awaits reports whether a connection has to wait for a number: of a group of the journal, or of a
// message to the upstream broker.
func (b *Broker) awaits(c *Conn, number uint64) bool {
	switch {
	case number == 0:
		return false
	case b.upstream != nil:
		return b.upstream.taken.awaits(c, number)
	default:
		return b.journal.commits.awaits(c, number)
	}
}
