package broker

import "sync"

// turns lets the connections of one id begin and end one at a time. The zero turns is ready.
type turns struct {
	mu   sync.Mutex // guards the fields below
	byID map[string]*turn
}

type turn struct {
	mu   sync.Mutex // held by the one whose turn it is
	want int        // who has it or waits; guarded by turns.mu
}

// take waits for the turn of an id, and returns the func that gives it back, which may be called once.
func (t *turns) take(id string) (release func()) {
	t.mu.Lock()
	if t.byID == nil {
		t.byID = make(map[string]*turn)
	}
	mine := t.byID[id]
	if mine == nil {
		mine = &turn{}
		t.byID[id] = mine
	}
	mine.want++
	t.mu.Unlock()
	mine.mu.Lock()
	return func() {
		mine.mu.Unlock()
		t.mu.Lock()
		defer t.mu.Unlock()
		if mine.want--; mine.want == 0 {
			delete(t.byID, id)
		}
	}
}
