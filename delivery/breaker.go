package delivery

import (
	"maps"
	"net/url"
	"sync"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
)

const (
	// breakAfter is how many deliveries in a row must fail for a breaker to open.
	breakAfter = 5
	// breakFor is how long it stays open.
	breakFor = 10 * time.Second
)

type breaker = circuitbreaker.CircuitBreaker[any]

func newBreaker() breaker {
	return circuitbreaker.NewBuilder[any]().WithFailureThreshold(breakAfter).WithSuccessThreshold(1).WithDelay(breakFor).Build()
}

// hosts are the breakers of the hosts of jobs with a URL.
type hosts struct {
	mu       sync.Mutex // guards breakers
	breakers map[string]breaker
}

// maxHosts is the maximum number of breakers. Closed ones are dropped first.
const maxHosts = 4096

// hostFails is the error of a job that was not attempted because the breaker of its host is open.
const hostFails = "deliveries to its host failed several times in a row, and are retried later"

// breaker returns the breaker of the host of a URL.
func (h *hosts) breaker(host string) breaker {
	if u, err := url.Parse(host); err == nil {
		host = u.Host
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	b := h.breakers[host]
	if b == nil {
		if len(h.breakers) >= maxHosts {
			maps.DeleteFunc(h.breakers, func(_ string, b breaker) bool { return b.IsClosed() })
		}
		if h.breakers == nil || len(h.breakers) >= maxHosts {
			h.breakers = make(map[string]breaker)
		}
		b = newBreaker()
		h.breakers[host] = b
	}
	return b
}
