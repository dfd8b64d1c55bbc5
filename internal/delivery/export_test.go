package delivery

import (
	"context"
	"math"
	"net/netip"
	"time"

	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/jobs"
)

// Wait returns how long to wait after the n-th failed attempt.
func Wait(q jobs.Queue, n int, asked time.Duration, random float64) time.Duration {
	p := policyOf(&q)
	return p.wait(n, asked, math.MaxInt64, random)
}

// Decide returns the outcome of a job after an attempt.
func Decide(q jobs.Queue, before int, created, deadline time.Time, r sink.Result, now time.Time, random float64) (jobs.Outcome, time.Time, string) {
	p := policyOf(&q)
	return p.decide(attempt{before: before, created: created, deadline: deadline, result: r}, now, random)
}

// Expired returns why a job is too old.
func Expired(q jobs.Queue, created, deadline, now time.Time) string {
	p := policyOf(&q)
	return p.expired(attempt{created: created, deadline: deadline}, now)
}

// Breaker is the breaker of an endpoint.
type Breaker = breaker

// NewBreaker returns a closed one.
func NewBreaker(rule sink.Break) *Breaker { return newBreaker(rule) }

// Counting is a histogram that is being counted.
type Counting struct{ *histogram }

// NewHistogram returns an empty one.
func NewHistogram(bounds ...time.Duration) Counting { return Counting{newHistogram(bounds...)} }

// Add counts a duration.
func (c Counting) Add(d time.Duration) { c.add(d) }

// Read returns a snapshot.
func (c Counting) Read() Histogram { return c.read() }

// FindOldest looks for the oldest jobs at an instant.
func (e *Engine) FindOldest(ctx context.Context, now time.Time) error { return e.findOldest(ctx, now) }

// HostsOf is hostsOf.
var HostsOf = hostsOf

// LookUp makes the engine look up hosts by a function.
func (e *Engine) LookUp(f func(ctx context.Context, network, host string) ([]netip.Addr, error)) {
	e.lookup = f
}
