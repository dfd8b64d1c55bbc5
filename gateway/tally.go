package gateway

import (
	"net/netip"
	"sync"
	"time"
)

// tally counts what keys did in the current minute and the one before. It holds a bounded number of keys.
type tally[K comparable] struct {
	mu      sync.Mutex // guards the fields
	minute  time.Time
	current map[K]int
	before  map[K]int
}

// add counts one for a key, and returns how many there are.
func (t *tally[K]) add(key K) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turnLocked(time.Now())
	if t.current == nil {
		t.current = make(map[K]int)
	}
	if _, known := t.current[key]; known || len(t.current) < mostCounted {
		t.current[key]++
	}
	return max(t.current[key], t.before[key])
}

// count returns how many a key has, in the worse of both minutes.
func (t *tally[K]) count(key K) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.minute.IsZero() {
		return 0
	}
	t.turnLocked(time.Now())
	return max(t.current[key], t.before[key])
}

func (t *tally[K]) turnLocked(now time.Time) {
	switch age := now.Sub(t.minute); {
	case age < counted:
		return
	case age < 2*counted:
		t.before = t.current
	default:
		t.before = nil
	}
	t.minute, t.current = now, nil
}

// failures are the wrong tokens of each address.
type failures struct{ tally[netip.Addr] }

func (f *failures) allow(a netip.Addr) bool { return f.count(a) < maxFailures }

// twins are the devices that were taken over by another connection.
type twins struct{ tally[string] }

// contested says whether a device was taken over so often that the connection which it has is to keep it.
func (t *twins) contested(id string) bool { return t.count(id) >= maxTakeovers }

// oddities count what was unusual and tolerated, by protocol.
type oddities struct {
	mu     sync.Mutex // guards counts
	counts map[Oddity]uint64
}

// Oddity is something unusual that was tolerated.
type Oddity struct {
	Protocol, What string
}

func (o *oddities) count(protocol, what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.counts == nil {
		o.counts = make(map[Oddity]uint64)
	}
	o.counts[Oddity{protocol, what}]++
}

func (o *oddities) all() map[Oddity]uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := make(map[Oddity]uint64, len(o.counts))
	for k, n := range o.counts {
		all[k] = n
	}
	return all
}
