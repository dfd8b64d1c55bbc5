package delivery

import (
	"maps"
	"net/url"
	"sync"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"

	"github.com/holter-iot/holter/internal/delivery/sink"
)

// breaker keeps deliveries from an endpoint that fails. It opens after some failures in a row, if some time
// has passed since the first of them began, or since the last success: many that fail within a moment say
// no more than one does. While it is half-open, one delivery decides.
type breaker struct {
	circuitbreaker.CircuitBreaker[any]

	rule sink.Break

	mu       sync.Mutex // guards the fields below
	failures int        // in a row
	since    time.Time  // when the first of them began, or the last success was
	worked   time.Time  // the last success
}

func newBreaker(rule sink.Break) *breaker {
	return &breaker{CircuitBreaker: circuitbreaker.NewBuilder[any]().WithSuccessThreshold(1).WithDelay(rule.For).Build(), rule: rule}
}

// RecordFailure notes a delivery that failed, and when it began.
func (b *breaker) RecordFailure(began time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, from := time.Now(), latest(began, b.worked)
	if b.failures++; b.failures == 1 || from.Before(b.since) {
		b.since = from
	}
	switch {
	case !b.IsClosed():
		b.CircuitBreaker.RecordFailure()
	case b.failures >= b.rule.After && now.Sub(b.since) >= b.rule.Over:
		b.Open()
	}
}

// RecordSuccess notes a delivery that did not fail.
func (b *breaker) RecordSuccess() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures, b.worked = 0, time.Now()
	b.CircuitBreaker.RecordSuccess()
}

// Close forgets all failures.
func (b *breaker) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures, b.worked = 0, time.Now()
	b.CircuitBreaker.Close()
}

// hosts are the breakers of the hosts of jobs with a URL.
type hosts struct {
	mu       sync.Mutex // guards breakers
	breakers map[string]*breaker
}

// maxHosts is the maximum number of breakers. Closed ones are dropped first.
const maxHosts = 4096

// hostFails is the error of a job that was not attempted because the breaker of its host is open.
const hostFails = "deliveries to its host failed several times in a row, and are retried later"

// breaker returns the breaker of the host of a URL.
func (h *hosts) breaker(host string) *breaker {
	if u, err := url.Parse(host); err == nil {
		host = u.Host
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	b := h.breakers[host]
	if b == nil {
		if len(h.breakers) >= maxHosts {
			maps.DeleteFunc(h.breakers, func(_ string, b *breaker) bool { return b.IsClosed() })
		}
		if h.breakers == nil || len(h.breakers) >= maxHosts {
			h.breakers = make(map[string]*breaker)
		}
		b = newBreaker(new(sink.Settings).Break())
		h.breakers[host] = b
	}
	return b
}
