package gateway

import (
	"maps"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/internal/clientprefix"
	"github.com/holter-iot/holter/internal/ratewindow"
	"github.com/holter-iot/holter/liveness"
)

// failures counts wrong tokens by address, altogether and for each device, and why devices were
// refused.
type failures struct {
	addresses ratewindow.Window[netip.Prefix, struct{}]
	devices   ratewindow.Window[guess, struct{}]
	lockouts  ratewindow.Window[netip.Prefix, int] // with how many were told of last
	reasons   counter[string]
}

// lockout counts a hello that was refused unseen. It returns how many were from its address, and
// whether a warning is due.
func (f *failures) lockout(now time.Time, a netip.Addr) (n int, due bool) {
	from := clientprefix.Of(a)
	if n = f.lockouts.Add(now, from); n&(n-1) == 0 {
		due = f.lockouts.Note(now, from, func(told *int) { *told = max(*told, n) }) < n
	}
	return n, due
}

// guess is where a wrong token came from, and for which device it was.
type guess struct {
	from netip.Prefix
	id   string
}

// allow reports whether a token from an address is to be looked at.
func (f *failures) allow(now time.Time, a netip.Addr, id string) bool {
	from := clientprefix.Of(a)
	return f.addresses.Count(now, from) < maxFromAddress && f.devices.Count(now, guess{from, clipped(id)}) < maxFailures
}

// fail counts a wrong token. It does not keep id.
func (f *failures) fail(now time.Time, a netip.Addr, id string) {
	from := clientprefix.Of(a)
	f.addresses.Add(now, from)
	f.devices.Add(now, guess{from, strings.Clone(clipped(id))})
}

// clipped returns an unchecked id, cut to the longest that is allowed.
func clipped(id string) string { return id[:min(len(id), liveness.MaxID)] }

// duplicateIDs counts how often the connections of a device were replaced by others, to find ids
// that two devices use.
type duplicateIDs struct {
	ratewindow.Window[string, contest]

	told atomic.Uint64 // warnings that were due
}

// contest is what is known of two connections that claim one id.
type contest struct {
	holder netip.Addr // of the one that came in last
	told   bool       // somebody was warned
}

// replaced counts a takeover. It is called with a lock of the registry held.
func (t *duplicateIDs) replaced(id string) { t.Add(time.Now(), id) }

// opened notes the address of the connection that a device has now. It does not keep id.
func (t *duplicateIDs) opened(now time.Time, id string, a netip.Addr) {
	if t.Count(now, id) > 0 {
		t.Note(now, strings.Clone(id), func(r *contest) { r.holder = a })
	}
}

// contested reports whether a device was taken over so often that it keeps the connection that it
// has.
func (t *duplicateIDs) contested(now time.Time, id string) bool {
	return t.Count(now, id) >= maxTakeovers
}

// refused counts a takeover that was refused, which prolongs the contest. It returns the address of
// the connection that stays, and whether this is the first refusal of the contest. It does not keep
// id.
func (t *duplicateIDs) refused(now time.Time, id string) (holder netip.Addr, first bool) {
	id = strings.Clone(id)
	t.Add(now, id)
	before := t.Note(now, id, func(r *contest) { r.told = true })
	return before.holder, !before.told
}

// counter counts events of few kinds.
type counter[K comparable] struct {
	mu     sync.Mutex // guards counts
	counts map[K]uint64
}

// count counts one event of a kind, and returns the kind's count.
func (c *counter[K]) count(what K) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = make(map[K]uint64)
	}
	c.counts[what]++
	return c.counts[what]
}

func (c *counter[K]) all() map[K]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.counts)
}

// Oddity is something unusual in a protocol that was tolerated.
type Oddity struct {
	Protocol, What string
}
