package httpapi

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// maxLimited bounds the callers whose rates are watched one by one; all further ones share one.
	maxLimited = 10_000
	sweepEvery = time.Second
)

// limits limits how often something happens per caller.
type limits[K comparable] struct {
	limit rate.Limit
	burst int

	mu    sync.Mutex // guards the fields below
	known map[K]*rate.Limiter
	rest  *rate.Limiter // of the callers for which there is no room
	swept time.Time
}

// addresses limits how often something happens per address.
type addresses = limits[netip.Prefix]

func newAddresses(limit float64, burst int) *addresses { return newLimits[netip.Prefix](limit, burst) }

func newLimits[K comparable](limit float64, burst int) *limits[K] {
	return &limits[K]{
		limit: rate.Limit(limit), burst: burst, known: make(map[K]*rate.Limiter), rest: rate.NewLimiter(rate.Limit(limit), burst),
	}
}

// allow reports whether it may happen now, and counts it if so.
func (a *limits[K]) allow(from K, now time.Time) bool {
	return a.of(from, now).AllowN(now, 1)
}

// exhausted reports whether it may not happen now.
func (a *limits[K]) exhausted(from K, now time.Time) bool {
	a.mu.Lock()
	l := a.known[from]
	if l == nil && len(a.known) >= maxLimited {
		l = a.rest
	}
	a.mu.Unlock()
	return l != nil && l.TokensAt(now) < 1
}

func (a *limits[K]) of(from K, now time.Time) *rate.Limiter {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l := a.known[from]; l != nil {
		return l
	}
	if len(a.known) >= maxLimited {
		a.sweepLocked(now)
	}
	if len(a.known) >= maxLimited {
		return a.rest
	}
	l := rate.NewLimiter(a.limit, a.burst)
	a.known[from] = l
	return l
}

// sweepLocked forgets the callers that did nothing of late.
func (a *limits[K]) sweepLocked(now time.Time) {
	if now.Sub(a.swept) < sweepEvery {
		return
	}
	a.swept = now
	for from, l := range a.known {
		if l.TokensAt(now) >= float64(a.burst) {
			delete(a.known, from)
		}
	}
}

// addressOf returns whom a request is from: an IPv4 address, or the 64 bits of an IPv6 address that name a network. It is the zero Prefix
// for what has neither.
func addressOf(r *http.Request) netip.Prefix {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Prefix{}
	}
	bits, address := 64, at.Addr().Unmap().WithZone("")
	if address.Is4() {
		bits = 32
	}
	p, _ := address.Prefix(bits) // of such an address it always is one
	return p
}
