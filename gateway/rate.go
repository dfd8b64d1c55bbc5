package gateway

import (
	"maps"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/internal/clientprefix"
	"github.com/holter-iot/holter/liveness"
)

// rateWindow counts events by key in the current minute and the one before, and keeps a note for
// each key. It holds at most mostCounted keys a minute. The zero rateWindow is empty; its methods
// may be called concurrently.
type rateWindow[K comparable, N any] struct {
	mu      sync.Mutex // guards the fields
	minute  time.Time
	current map[K]windowCount[N]
	before  map[K]windowCount[N]
}

type windowCount[N any] struct {
	count int
	note  N
}

// add counts one event of a key, and returns the key's count.
func (t *rateWindow[K, N]) add(now time.Time, key K) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turnLocked(now)
	if e, ok := t.entryLocked(key); ok {
		e.count++
		t.current[key] = e
	}
	return t.countLocked(key)
}

// count returns the count of a key, in the worse of both minutes.
func (t *rateWindow[K, N]) count(now time.Time, key K) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.minute.IsZero() {
		return 0
	}
	t.turnLocked(now)
	return t.countLocked(key)
}

// note changes the note of a key that was counted. It returns the note from before.
func (t *rateWindow[K, N]) note(now time.Time, key K, change func(*N)) (before N) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.minute.IsZero() {
		return before
	}
	t.turnLocked(now)
	if t.countLocked(key) == 0 {
		return before
	}
	e, ok := t.entryLocked(key)
	if before = e.note; ok {
		change(&e.note)
		t.current[key] = e
	}
	return before
}

// above returns how many keys have a count of at least least.
func (t *rateWindow[K, N]) above(now time.Time, least int) (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turnLocked(now)
	for key, e := range t.current {
		if e.count >= least && t.before[key].count < least {
			n++
		}
	}
	for _, e := range t.before {
		if e.count >= least {
			n++
		}
	}
	return n
}

// entryLocked returns the entry of a key in this minute; ok is false if there is no room for it.
func (t *rateWindow[K, N]) entryLocked(key K) (e windowCount[N], ok bool) {
	if t.current == nil {
		t.current = make(map[K]windowCount[N])
	}
	if e, ok = t.current[key]; ok {
		return e, true
	}
	return windowCount[N]{note: t.before[key].note}, len(t.current) < mostCounted
}

func (t *rateWindow[K, N]) countLocked(key K) int {
	return max(t.current[key].count, t.before[key].count)
}

func (t *rateWindow[K, N]) turnLocked(now time.Time) {
	switch age := now.Sub(t.minute); {
	case age < counted:
		return
	case age < 2*counted: // the next minute began when that one ended, whenever it is asked for
		t.before, t.minute = t.current, t.minute.Add(counted)
	default:
		t.before, t.minute = nil, now
	}
	t.current = nil
}

// failures counts wrong tokens by address, altogether and for each device, and why devices were
// refused.
type failures struct {
	addresses rateWindow[netip.Prefix, struct{}]
	devices   rateWindow[guess, struct{}]
	lockouts  rateWindow[netip.Prefix, int] // with how many were told of last
	reasons   counter[string]
}

// lockout counts a hello that was refused unseen. It returns how many were from its address, and
// whether a warning is due.
func (f *failures) lockout(now time.Time, a netip.Addr) (n int, due bool) {
	from := clientprefix.Of(a)
	if n = f.lockouts.add(now, from); n&(n-1) == 0 {
		due = f.lockouts.note(now, from, func(told *int) { *told = max(*told, n) }) < n
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
	return f.addresses.count(now, from) < maxFromAddress && f.devices.count(now, guess{from, clipped(id)}) < maxFailures
}

// fail counts a wrong token. It does not keep id.
func (f *failures) fail(now time.Time, a netip.Addr, id string) {
	from := clientprefix.Of(a)
	f.addresses.add(now, from)
	f.devices.add(now, guess{from, strings.Clone(clipped(id))})
}

// clipped returns an unchecked id, cut to the longest that is allowed.
func clipped(id string) string { return id[:min(len(id), liveness.MaxID)] }

// duplicateIDs counts how often the connections of a device were replaced by others, to find ids
// that two devices use.
type duplicateIDs struct {
	rateWindow[string, contest]

	told atomic.Uint64 // warnings that were due
}

// contest is what is known of two connections that claim one id.
type contest struct {
	holder netip.Addr // of the one that came in last
	told   bool       // somebody was warned
}

// replaced counts a takeover. It is called with a lock of the registry held.
func (t *duplicateIDs) replaced(id string) { t.add(time.Now(), id) }

// opened notes the address of the connection that a device has now. It does not keep id.
func (t *duplicateIDs) opened(now time.Time, id string, a netip.Addr) {
	if t.count(now, id) > 0 {
		t.note(now, strings.Clone(id), func(r *contest) { r.holder = a })
	}
}

// contested reports whether a device was taken over so often that it keeps the connection that it
// has.
func (t *duplicateIDs) contested(now time.Time, id string) bool {
	return t.count(now, id) >= maxTakeovers
}

// refused counts a takeover that was refused, which prolongs the contest. It returns the address of
// the connection that stays, and whether this is the first refusal of the contest. It does not keep
// id.
func (t *duplicateIDs) refused(now time.Time, id string) (holder netip.Addr, first bool) {
	id = strings.Clone(id)
	t.add(now, id)
	before := t.note(now, id, func(r *contest) { r.told = true })
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
