package delivery

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/jobs"
)

// endpoint is an endpoint with its sink. It is replaced when its settings change.
type endpoint struct {
	jobs.Endpoint

	sink    sink.Sink // nil if it cannot be made
	err     error     // why it cannot
	timeout time.Duration
	batch   int
	alone   bool     // one delivery is made after the other
	breaker *breaker // nil for the endpoint of jobs with a URL, see hosts

	counts *endpointCounts

	users sync.WaitGroup // deliveries in progress
}

// endpointCounts outlive a change of the settings.
type endpointCounts struct{ delivered, failed atomic.Uint64 }

// playbookKind is the kind of the endpoints that playbooks make for themselves.
const playbookKind = "playbook"

// newSink makes the sink of an endpoint. Its error has all mistakes that were found.
func (e *Engine) newSink(p *jobs.Endpoint) (sink.Sink, error) {
	kind, ok := e.kinds[p.Kind]
	if !ok {
		kinds := slices.DeleteFunc(slices.Sorted(maps.Keys(e.kinds)), func(kind string) bool { return kind == playbookKind })
		return nil, fmt.Errorf("kind %q: there is none such, want one of %s", p.Kind, strings.Join(kinds, ", "))
	}
	s, err := kind(p.Target, p.Settings)
	wrong := sink.Check(p.Settings)
	if err == nil && wrong != nil {
		_ = s.Close() // it has not delivered anything
	}
	return s, errors.Join(err, wrong)
}

// newEndpoint makes an endpoint, perhaps without a sink.
func (e *Engine) newEndpoint(p jobs.Endpoint, counts *endpointCounts) *endpoint {
	common := sink.Common(p.Settings)
	out := &endpoint{Endpoint: p, counts: counts, breaker: newBreaker(common.Break())}
	if out.sink, out.err = e.newSink(&p); out.err != nil {
		out.sink = nil
		e.config.Logger.Error("an endpoint cannot be used; its jobs wait", "endpoint", p.Name, "error", out.err)
		return out
	}
	out.timeout, out.batch = out.sink.Limits()
	_, out.alone = out.sink.(sink.OneAtATime)
	return out
}

// perMessage returns the endpoint of jobs with a URL.
func (e *Engine) perMessage() *endpoint {
	p := &endpoint{Endpoint: jobs.Endpoint{Kind: "webhook"}, sink: e.webhooks.PerMessage(), counts: &endpointCounts{}}
	p.timeout, p.batch = p.sink.Limits()
	return p
}

// usable reports whether deliveries may be attempted.
func (p *endpoint) usable() bool { return p.err == nil && !p.Disabled }

// same reports whether the endpoint was made of the same settings.
func (p *endpoint) same(other *jobs.Endpoint) bool {
	return p.Kind == other.Kind && p.Target == other.Target && string(p.Settings) == string(other.Settings) && p.Disabled == other.Disabled &&
		p.Name == other.Name && p.Note == other.Note
}

// record counts the results of a delivery, and reports them to the breaker. A result that is about the
// message alone shows that the endpoint works. A delivery that the engine has aborted says nothing.
func (p *endpoint) record(b *breaker, results []sink.Result, began time.Time, aborted bool) {
	failed := false
	for i := range results {
		r := &results[i]
		if r.Err != nil && aborted {
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
		b.RecordFailure(began)
	} else {
		b.RecordSuccess()
	}
}

// unusedPermit returns the permit of the breaker for a delivery that was not attempted.
func (p *endpoint) unusedPermit() {
	if p.breaker != nil && p.breaker.IsHalfOpen() {
		p.breaker.RecordFailure(time.Now()) // the breaker opens again, and the next delivery decides
	}
}

// rest returns how long the breaker stays open.
func (p *endpoint) rest() time.Duration {
	if p.breaker == nil || !p.breaker.IsOpen() {
		return 0
	}
	return p.breaker.RemainingDelay()
}

// state returns [EndpointStats.State].
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
