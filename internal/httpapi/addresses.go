package httpapi

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/holter-iot/holter/internal/clientprefix"
)

const (
	// maxLimited bounds the callers that are limited one by one; further ones share one limit.
	maxLimited = 10_000
	sweepEvery = time.Second
)

// limits limits the rate of something for each caller.
type limits[K comparable] struct {
	limit rate.Limit
	burst int

	mu    sync.Mutex // guards the fields below
	known map[K]*rate.Limiter
	rest  *rate.Limiter // shared by the callers beyond maxLimited
	swept time.Time
}

// addresses limits the rate of something for each address.
type addresses = limits[netip.Prefix]

func newAddresses(limit float64, burst int) *addresses { return newLimits[netip.Prefix](limit, burst) }

func newLimits[K comparable](limit float64, burst int) *limits[K] {
	return &limits[K]{
		limit: rate.Limit(limit), burst: burst, known: make(map[K]*rate.Limiter), rest: rate.NewLimiter(rate.Limit(limit), burst),
	}
}

// allow reports whether the caller is within its limit, and counts the call if so.
func (a *limits[K]) allow(from K, now time.Time) bool {
	return a.of(from, now).AllowN(now, 1)
}

// exhausted reports whether the caller has used up its limit.
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

// sweepLocked removes callers that were idle recently.
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

// addressOf returns which client a request is from, by its address; the zero Prefix if it has none.
func addressOf(r *http.Request) netip.Prefix {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Prefix{}
	}
	return clientprefix.Of(at.Addr())
}
