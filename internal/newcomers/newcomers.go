// Package newcomers holds the connections to a server that have not shown yet who they are, by their
// addresses, and picks those that make room when there are too many. It closes none itself. Every
// operation takes constant time, but for [Queue.Surplus].
package newcomers

import (
	"container/list"
	"net/netip"
	"sync"
	"time"

	"github.com/holter-iot/holter/internal/clientprefix"
)

// Queue holds newcomers of one kind, the oldest first. Make one with [New]. Its methods may be called
// concurrently.
type Queue[C comparable] struct {
	mu                sync.Mutex // guards the fields below
	limit, perAddress int
	all               list.List // of *newcomer[C], the oldest first
	addresses         map[netip.Prefix]*list.List
	known             map[C]*newcomer[C] // nil for one that Hold has taken off, until it leaves
}

// newcomer is a connection in its place in the queue of all, and in that of its address.
type newcomer[C comparable] struct {
	connection C
	from       netip.Prefix
	since      time.Time
	all, own   *list.Element
}

// New returns a queue with room for a number of newcomers, and with the share of each address (for
// IPv6, a network of 64 bits) while there is none.
func New[C comparable](limit, perAddress int) *Queue[C] {
	return &Queue[C]{limit: limit, perAddress: perAddress, addresses: make(map[netip.Prefix]*list.List), known: make(map[C]*newcomer[C])}
}

// SetLimits changes the limits; those that are too many go as others come.
func (q *Queue[C]) SetLimits(limit, perAddress int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.limit, q.perAddress = limit, perAddress
}

// Enter adds a connection from an address, which is not valid if it is not known yet. It takes off and
// returns those that have to go, if they have been there for some time: up to two, so that there are
// fewer again soon. They are the oldest: of the address if that has more than its share, else of all.
func (q *Queue[C]) Enter(c C, address netip.Addr, now time.Time, within time.Duration) (goes []C) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.addLocked(c, address, now)
	for len(goes) < 2 && q.all.Len() > q.limit {
		queue := q.queueLocked(address)
		if now.Sub(queue.Front().Value.(*newcomer[C]).since) < within {
			break
		}
		goes = append(goes, q.takeLocked(queue))
	}
	return goes
}

// Hold adds a connection, unless it is there, and reports whether it is then. Where its address has its
// share, or all have taken the limit, the oldest there has to go if it has been there for some time, and
// is returned; else there is no room. For one that had to go there is none before it leaves.
func (q *Queue[C]) Hold(c C, address netip.Addr, now time.Time, within time.Duration) (goes []C, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if it, known := q.known[c]; known {
		return nil, it != nil
	}
	full := q.addresses[clientprefix.Of(address)]
	switch {
	case full != nil && full.Len() >= q.perAddress:
	case q.all.Len() >= q.limit:
		full = &q.all
	default:
		full = nil
	}
	if full != nil {
		if now.Sub(full.Front().Value.(*newcomer[C]).since) < within {
			return nil, false
		}
		oldest := q.takeLocked(full)
		q.known[oldest] = nil // it may send more before it is closed
		goes = append(goes, oldest)
	}
	q.addLocked(c, address, now)
	return goes, true
}

// Back adds a connection as the youngest, or makes it that. Nobody has to go for it.
func (q *Queue[C]) Back(c C, address netip.Addr, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.addLocked(c, address, now)
}

// Oldest takes the one off that is to go for one from an address; the zero C if there is none.
func (q *Queue[C]) Oldest(address netip.Addr) C {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.takeLocked(q.queueLocked(address))
}

// Surplus returns the oldest of the address that has the most, if these are more than its share, and
// if the oldest has been there for some time. It stays in the queue. It looks at each address.
func (q *Queue[C]) Surplus(now time.Time, within time.Duration) (c C, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	most := &list.List{}
	for from, own := range q.addresses {
		if from.IsValid() && own.Len() > max(most.Len(), q.perAddress) {
			most = own
		}
	}
	if most.Len() == 0 {
		return c, false
	}
	oldest := most.Front().Value.(*newcomer[C])
	return oldest.connection, now.Sub(oldest.since) >= within
}

// Renew makes a connection the youngest, if it is there.
func (q *Queue[C]) Renew(c C, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if it := q.known[c]; it != nil {
		it.since = now
		q.all.MoveToBack(it.all)
		q.addresses[it.from].MoveToBack(it.own)
	}
}

// Leave drops a connection that has shown who it is, or has ended.
func (q *Queue[C]) Leave(c C) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dropLocked(c)
}

// Len returns how many there are.
func (q *Queue[C]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.all.Len()
}

// queueLocked returns the queue whose first is to go when one comes from an address: that of the
// address, if it has more than its share.
func (q *Queue[C]) queueLocked(address netip.Addr) *list.List {
	if own := q.addresses[clientprefix.Of(address)]; address.IsValid() && own != nil && own.Len() > q.perAddress {
		return own
	}
	return &q.all
}

// addLocked adds a connection as the youngest.
func (q *Queue[C]) addLocked(c C, address netip.Addr, now time.Time) {
	q.dropLocked(c)
	from := clientprefix.Of(address)
	own := q.addresses[from]
	if own == nil {
		own = list.New()
		q.addresses[from] = own
	}
	it := &newcomer[C]{connection: c, from: from, since: now}
	it.all, it.own = q.all.PushBack(it), own.PushBack(it)
	q.known[c] = it
}

// takeLocked takes the first of a queue off.
func (q *Queue[C]) takeLocked(queue *list.List) (c C) {
	if first := queue.Front(); first != nil {
		c = first.Value.(*newcomer[C]).connection
		q.dropLocked(c)
	}
	return c
}

func (q *Queue[C]) dropLocked(c C) {
	it := q.known[c]
	delete(q.known, c)
	if it == nil {
		return
	}
	q.all.Remove(it.all)
	own := q.addresses[it.from]
	if own.Remove(it.own); own.Len() == 0 {
		delete(q.addresses, it.from)
	}
}
