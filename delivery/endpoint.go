package delivery

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"

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

	sink    Sink // nil if it cannot be made
	err     error
	timeout time.Duration
	batch   int
	breaker breaker // nil where one endpoint stands for many places, see hosts

	counts *endpointCounts

	users sync.WaitGroup // deliveries that are going on
}

// endpointCounts outlive a change of the settings.
type endpointCounts struct{ delivered, failed atomic.Uint64 }

// kinds returns all kinds of endpoints that there are.
func (e *Engine) kinds() map[string]Kind {
	kinds := map[string]Kind{"webhook": e.web.kind, "mqtt": mqttKind(e.web.guard)}
	if e.config.LogDir != "" {
		kinds["log"] = e.logs.kind
	}
	if e.config.Commands {
		kinds["command"] = commandKind
	}
	maps.Copy(kinds, e.config.Kinds)
	return kinds
}

// newSink makes the sink of an endpoint, and returns its common settings.
func (e *Engine) newSink(ep *store.Endpoint) (Sink, Common, error) {
	var c Common
	kind, ok := e.kinds()[ep.Kind]
	if !ok {
		return nil, c, fmt.Errorf("kind %q: %s", ep.Kind, e.noKind(ep.Kind))
	}
	var lax struct{ Common }
	sink, err := kind(ep.Target, ep.Settings)
	if len(ep.Settings) > 0 {
		wrong := json.Unmarshal(ep.Settings, &lax)
		if wrong != nil && err == nil { // else the kind has said so in better words
			err = fmt.Errorf("settings: %w", wrong)
		}
	}
	c = lax.Common
	return sink, c, errors.Join(err, c.check())
}

// noKind says why a kind is not there.
func (e *Engine) noKind(kind string) string {
	switch kind {
	case "log":
		return "this process is not configured with a directory for log files"
	case "command":
		return "this process is not configured to run commands"
	}
	return "there is none such, want one of " + strings.Join(slices.Sorted(maps.Keys(e.kinds())), ", ")
}

// newEndpoint makes an endpoint. One that cannot be made is there nevertheless, and says why.
func (e *Engine) newEndpoint(ep store.Endpoint, counts *endpointCounts) *endpoint {
	out := &endpoint{Endpoint: ep, counts: counts}
	var c Common
	if out.sink, c, out.err = e.newSink(&ep); out.err != nil {
		e.config.Logger.Error("an endpoint cannot be used; its jobs wait", "endpoint", ep.Name, "error", out.err)
	}
	out.timeout, out.batch = c.timeout(), c.batch()
	out.breaker = newBreaker()
	return out
}

// adhoc is the endpoint of jobs that have a URL of their own.
func (e *Engine) adhoc(counts *endpointCounts) *endpoint {
	return &endpoint{Endpoint: store.Endpoint{Kind: "webhook"}, sink: e.web.sink(""), timeout: defaultTimeout, batch: 1, counts: counts}
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
func (p *endpoint) record(b breaker, results []Result, ended bool) {
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
