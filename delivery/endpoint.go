package delivery

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"

	"github.com/holter-iot/holter/delivery/sink"
	"github.com/holter-iot/holter/store"
)

const (
	// breakAfter is how many deliveries in a row fail before an endpoint is given a rest, and breakFor how long that is.
	breakAfter = 5
	breakFor   = 10 * time.Second
)

type breaker = circuitbreaker.CircuitBreaker[any]

func newBreaker() breaker {
	return circuitbreaker.NewBuilder[any]().WithFailureThreshold(breakAfter).WithSuccessThreshold(1).WithDelay(breakFor).Build()
}

// hosts are the breakers of the places that jobs with a URL of their own go to.
type hosts struct {
	mu       sync.Mutex // guards breakers
	breakers map[string]breaker
}

// maxHosts bounds them; those that have nothing to tell are forgotten first.
const maxHosts = 4096

// breaker returns that of the host of a URL.
func (h *hosts) breaker(place string) breaker {
	if u, err := url.Parse(place); err == nil {
		place = u.Host
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	b := h.breakers[place]
	if b == nil {
		if len(h.breakers) >= maxHosts {
			maps.DeleteFunc(h.breakers, func(_ string, b breaker) bool { return b.IsClosed() })
		}
		if h.breakers == nil || len(h.breakers) >= maxHosts {
			h.breakers = make(map[string]breaker)
		}
		b = newBreaker()
		h.breakers[place] = b
	}
	return b
}

// restingText says why a job waits although nothing came of it.
const restingText = "deliveries to its host failed several times in a row, and are tried again later"

// endpoint is an endpoint at work. It lives as long as its settings do.
type endpoint struct {
	store.Endpoint

	sink    sink.Sink // nil if it cannot be made
	err     error
	timeout time.Duration
	batch   int
	breaker breaker // nil where one endpoint stands for many places, see hosts

	counts *endpointCounts

	users sync.WaitGroup // deliveries that are going on
}

// endpointCounts outlive a change of the settings.
type endpointCounts struct{ delivered, failed atomic.Uint64 }

// newSink makes the sink of an endpoint.
func (e *Engine) newSink(p *store.Endpoint) (sink.Sink, error) {
	kind, ok := e.kinds[p.Kind]
	if !ok {
		return nil, fmt.Errorf("kind %q: there is none such, want one of %s", p.Kind, strings.Join(slices.Sorted(maps.Keys(e.kinds)), ", "))
	}
	return kind(p.Target, p.Settings)
}

// newEndpoint makes an endpoint. One whose sink cannot be made has the error instead.
func (e *Engine) newEndpoint(ep store.Endpoint, counts *endpointCounts) *endpoint {
	out := &endpoint{Endpoint: ep, counts: counts, breaker: newBreaker()}
	if out.sink, out.err = e.newSink(&ep); out.err != nil {
		e.config.Logger.Error("an endpoint cannot be used; its jobs wait", "endpoint", ep.Name, "error", out.err)
		return out
	}
	out.timeout, out.batch = out.sink.Limits()
	return out
}

// adhoc is the endpoint of jobs that have a URL of their own.
func (e *Engine) adhoc(counts *endpointCounts) *endpoint {
	out := &endpoint{Endpoint: store.Endpoint{Kind: "webhook"}, sink: e.webhooks.PerMessage(), counts: counts}
	out.timeout, out.batch = out.sink.Limits()
	return out
}

// usable says whether jobs may be delivered to it at all.
func (p *endpoint) usable() bool { return p.err == nil && !p.Disabled }

// same says whether settings are those that the endpoint has.
func (p *endpoint) same(other *store.Endpoint) bool {
	return p.Kind == other.Kind && p.Target == other.Target && string(p.Settings) == string(other.Settings) && p.Disabled == other.Disabled &&
		p.Name == other.Name && p.Note == other.Note
}

// record tells the breaker how a delivery went. An answer that is about the message only shows that the endpoint is there. Of one that we have
// ended nothing is known.
func (p *endpoint) record(b breaker, results []sink.Result, ended bool) {
	failed := false
	for i := range results {
		r := &results[i]
		if r.Err != nil && ended {
			return
		}
		if r.Err != nil {
			p.counts.failed.Add(1)
			failed = failed || !r.Permanent
		} else if r.Again.IsZero() {
			p.counts.delivered.Add(1)
		}
	}
	if failed {
		b.RecordFailure()
	} else {
		b.RecordSuccess()
	}
}

// skip says that a delivery for which the breaker gave a permit was not made.
func (p *endpoint) skip() {
	if p.breaker != nil && p.breaker.IsHalfOpen() {
		p.breaker.RecordFailure() // the next one tells
	}
}

// rest returns for how long nothing is to be sent there.
func (p *endpoint) rest() time.Duration {
	if p.breaker == nil || !p.breaker.IsOpen() {
		return 0
	}
	return p.breaker.RemainingDelay()
}

// state says what the breaker does.
func (p *endpoint) state() string {
	switch {
	case p.err != nil:
		return "broken"
	case p.Disabled:
		return "disabled"
	case p.breaker == nil:
		return "closed"
	}
	return p.breaker.State().String()
}
