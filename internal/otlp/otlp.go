// Package otlp sends spans to a collector of OpenTelemetry, as protobuf over HTTP (OTLP 1.x,
// https://opentelemetry.io/docs/specs/otlp/). It is no SDK: whoever makes a span knows its ids and times.
//
// An [Exporter] never makes its callers wait: spans go into a bounded queue, and what finds no room there,
// or what the collector does not take, is dropped and counted.
package otlp

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// room is how many spans wait at most; each takes some 400 bytes.
	room = 8192
	// most is how many spans one request has at most.
	most = 512
	// gather is how long a span waits for others.
	gather = time.Second
	// farewell is how long the last spans may take at the end.
	farewell = time.Second
)

// Config configures an exporter.
type Config struct {
	URL    string      // of the collector's traces, such as http://collector:4318/v1/traces; required
	Header http.Header // added to each request; may be nil
	// Resource describes the process, such as service.name.
	Resource []Attribute
	// Scope and Version name the program that makes the spans.
	Scope, Version string
	// Logger gets when the collector fails, and when it works again. Required.
	Logger *slog.Logger
}

// Span is something that took time. The zero Parent is none.
type Span struct {
	Trace      [16]byte
	ID, Parent [8]byte
	Client     bool // it is a call of another service
	Name       string
	Start, End time.Time
	Attributes []Attribute
	Error      string // empty if it went well
}

// Attribute says something about a span, or the process. Its value is a string, bool, int64 or float64.
type Attribute struct {
	Key   string
	Value any
}

// Stats counts spans.
type Stats struct {
	Sent    uint64 // that the collector took
	Dropped uint64 // that found no room, or that the collector did not take
	Queued  int    // that wait
}

// Exporter sends spans. Its methods may be called concurrently. Make one with [New].
type Exporter struct {
	config  Config
	client  http.Client
	queue   chan Span // never closed; what finds no room is dropped
	sent    atomic.Uint64
	dropped atomic.Uint64
	failing bool // used by Run only
}

// New returns an exporter, and starts nothing.
func New(c Config) *Exporter {
	return &Exporter{config: c, queue: make(chan Span, room), client: http.Client{
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConns: 1, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true},
		Timeout:   patience,
		// A redirect would take the headers, and so the secrets, elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Add hands over a span, which the exporter owns from then on. It never waits.
func (e *Exporter) Add(s Span) {
	select {
	case e.queue <- s:
	default:
		e.dropped.Add(1)
	}
}

// Full reports whether there is no room for a span now, so that nobody need make one; it counts n as
// dropped then.
func (e *Exporter) Full(n int) bool {
	if len(e.queue) < cap(e.queue) {
		return false
	}
	e.dropped.Add(uint64(n))
	return true
}

// Stats returns what became of the spans so far.
func (e *Exporter) Stats() Stats {
	return Stats{Sent: e.sent.Load(), Dropped: e.dropped.Load(), Queued: len(e.queue)}
}

// Run sends spans until ctx is done, and then, for a second at most, those that wait. Call it once.
func (e *Exporter) Run(ctx context.Context) error {
	defer e.client.CloseIdleConnections()
	for ctx.Err() == nil {
		if batch := e.collect(ctx); len(batch) > 0 {
			e.deliver(ctx, batch)
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	for len(e.queue) > 0 && last.Err() == nil {
		e.deliver(last, e.take(nil))
	}
	e.dropped.Add(uint64(len(e.queue)))
	return nil
}

// collect waits for a span, and then for others: until there are enough for a request, for a second, or
// until ctx is done.
func (e *Exporter) collect(ctx context.Context) (batch []Span) {
	select {
	case s := <-e.queue:
		batch = append(batch, s)
	case <-ctx.Done():
		return nil
	}
	timer := time.NewTimer(gather)
	defer timer.Stop()
	for len(batch) < most {
		select {
		case s := <-e.queue:
			batch = append(batch, s)
		case <-timer.C:
			return batch
		case <-ctx.Done():
			return e.take(batch)
		}
	}
	return batch
}

// take adds spans that wait to a batch, as far as they fit.
func (e *Exporter) take(batch []Span) []Span {
	for len(batch) < most {
		select {
		case s := <-e.queue:
			batch = append(batch, s)
		default:
			return batch
		}
	}
	return batch
}
