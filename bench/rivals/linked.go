package rivals

// element is a timer in a doubly linked ring, and what else a stand-in keeps of it. A ring has one
// element more, which is no timer and stands before the first and after the last. Whoever owns the
// ring guards its elements.
type element[V any] struct {
	prev, next *element[V] // nil in no ring
	value      V
}

// newRings returns empty rings.
func newRings[V any](n int) []element[V] {
	rings := make([]element[V], n)
	for i := range rings {
		rings[i].clear()
	}
	return rings
}

// clear makes it a ring of its own.
func (e *element[V]) clear() { e.prev, e.next = e, e }

// first returns the first timer of a ring; nil if there is none.
func (e *element[V]) first() *element[V] {
	if e.next == e {
		return nil
	}
	return e.next
}

// push adds a timer that is in no ring to this one, as the last.
func (e *element[V]) push(timer *element[V]) {
	timer.prev, timer.next = e.prev, e
	e.prev.next, e.prev = timer, timer
}

// take moves all timers of another ring to the end of this one.
func (e *element[V]) take(from *element[V]) {
	if from.first() == nil {
		return
	}
	from.next.prev, e.prev.next = e.prev, from.next
	from.prev.next, e.prev = e, from.prev
	from.clear()
}

// remove takes a timer out of its ring, and reports whether it was in one.
func (e *element[V]) remove() bool {
	if e.next == nil {
		return false
	}
	e.prev.next, e.next.prev = e.next, e.prev
	e.prev, e.next = nil, nil
	return true
}
