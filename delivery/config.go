package delivery

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"time"

	"github.com/holter-iot/holter/delivery/sink"
	"github.com/holter-iot/holter/store"
)

// Config describes an engine. The zero Config is good for webhooks to the internet.
type Config struct {
	// Node is the name under which this process tells of events. Default: the host's name.
	Node string
	// Agent is the User-Agent of webhooks. Default: "holter".
	Agent string
	// Logger gets what an operator should know: endpoints that are disabled, a database that fails. Default: nothing is logged.
	Logger *slog.Logger
	// Private lists the networks that may be delivered to although they are not part of the public internet, as 127.0.0.0/8 and
	// 10.0.0.0/8 are not. Default: none.
	Private []netip.Prefix
	// Kinds are the kinds of endpoints beside webhook, by name. Default: none.
	Kinds map[string]sink.Kind
	// Lease is for how long jobs are claimed at a time; it is extended while they are worked on. Default: 1 min.
	Lease time.Duration
	// Poll is how often a lane is looked at of which nobody said that it has new jobs, at most. Default: 10 s.
	Poll time.Duration
	// Grace is how long deliveries may go on when Run is to end. Default: 10 s.
	Grace time.Duration
	// Dead is how many dead letters are kept, the latest. Default: 100,000.
	Dead int
	// DeadAge is how long they are kept. Default: 30 days.
	DeadAge time.Duration
}

// uniqueFor is how long an idempotency key is remembered.
const uniqueFor = 24 * time.Hour

func (c Config) withDefaults() (Config, error) {
	var errs []error
	if c.Node == "" {
		host, err := os.Hostname()
		if err != nil {
			errs = append(errs, fmt.Errorf("delivery: Node is not set, and the host has no name: %w", err))
		}
		c.Node = host
	}
	if c.Agent == "" {
		c.Agent = "holter"
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	for _, d := range []struct {
		name string
		set  *time.Duration
		to   time.Duration
	}{
		{"Lease", &c.Lease, time.Minute},
		{"Poll", &c.Poll, 10 * time.Second},
		{"Grace", &c.Grace, 10 * time.Second},
		{"DeadAge", &c.DeadAge, 30 * 24 * time.Hour},
	} {
		if *d.set == 0 {
			*d.set = d.to
		}
		if *d.set < 0 {
			errs = append(errs, fmt.Errorf("delivery: %s is %v, want more than 0", d.name, *d.set))
		}
	}
	if c.Dead == 0 {
		c.Dead = 100_000
	}
	if c.Dead < 0 {
		errs = append(errs, fmt.Errorf("delivery: Dead is %d, want 1 or more", c.Dead))
	}
	return c, errors.Join(errs...)
}

func (c *Config) retention() store.Retention {
	return store.Retention{Dead: c.Dead, DeadAge: c.DeadAge, KeyAge: uniqueFor}
}
