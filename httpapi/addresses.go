package httpapi

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// maxAddresses bounds the addresses whose rates are watched one by one; all further ones share one.
	maxAddresses = 10_000
	sweepEvery   = time.Second
)

// addresses limits how often something happens per address.
type addresses struct {
	limit rate.Limit
	burst int

	mu    sync.Mutex // guards the fields below
	known map[netip.Prefix]*rate.Limiter
	rest  *rate.Limiter // of the addresses for which there is no room
	swept time.Time
}

func newAddresses(limit float64, burst int) *addresses {
	return &addresses{
		limit: rate.Limit(limit), burst: burst, known: make(map[netip.Prefix]*rate.Limiter), rest: rate.NewLimiter(rate.Limit(limit), burst),
	}
}

// allow says whether it may happen now, and counts it if so.
func (a *addresses) allow(from netip.Prefix, now time.Time) bool {
	return a.of(from, now).AllowN(now, 1)
}

// exhausted says whether it may not happen now.
func (a *addresses) exhausted(from netip.Prefix, now time.Time) bool {
	a.mu.Lock()
	l := a.known[from]
	if l == nil && len(a.known) >= maxAddresses {
		l = a.rest
	}
	a.mu.Unlock()
	return l != nil && l.TokensAt(now) < 1
}

func (a *addresses) of(from netip.Prefix, now time.Time) *rate.Limiter {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l := a.known[from]; l != nil {
		return l
	}
	if len(a.known) >= maxAddresses {
		a.sweepLocked(now)
	}
	if len(a.known) >= maxAddresses {
		return a.rest
	}
	l := rate.NewLimiter(a.limit, a.burst)
	a.known[from] = l
	return l
}

// sweepLocked forgets the addresses that did nothing of late.
func (a *addresses) sweepLocked(now time.Time) {
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
