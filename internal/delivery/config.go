package delivery

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"time"

	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/jobs"
)

// Config configures an engine. The zero Config suits webhooks to the public internet.
type Config struct {
	// Node is the name of this process in events. Default: the name of the host.
	Node string
	// Agent is the User-Agent of webhooks. Default: "holter".
	Agent string
	// Logger gets what an operator should know, such as endpoints that are disabled, and a database
	// that fails. Default: nothing is logged.
	Logger *slog.Logger
	// Private are the networks that may be delivered to although they are not part of the public
	// internet, such as 10.0.0.0/8. Default: none.
	Private []netip.Prefix
	// Kinds are the kinds of endpoints in addition to webhook, by name. Default: none.
	Kinds map[string]sink.Kind
	// Lease is for how long jobs are claimed. It is extended while they are in memory.
	// Default: 1 min.
	Lease time.Duration
	// Poll is the maximum time between two claims of a lane that nothing has woken. Default: 10 s.
	Poll time.Duration
	// Grace is how long deliveries may go on when Run is to end. Default: 10 s.
	Grace time.Duration
	// Dead is the maximum number of dead letters; the latest are kept. Default: 100,000.
	Dead int
	// DeadAge is how long dead letters are kept. Default: 30 days.
	DeadAge time.Duration
	// Keep is how many jobs that ended can be looked up, the latest ones. Default: 1,000,000; negative:
	// none.
	Keep int
	// KeepAge is for how long after its end a job can be looked up. Default: 24 h.
	KeepAge time.Duration
}

// keyAge is how long an idempotency key is remembered.
const keyAge = 24 * time.Hour

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
		{"KeepAge", &c.KeepAge, 24 * time.Hour},
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
	if c.Keep == 0 {
		c.Keep = 1_000_000
	}
	if c.Dead < 0 {
		errs = append(errs, fmt.Errorf("delivery: Dead is %d, want 1 or more", c.Dead))
	}
	return c, errors.Join(errs...)
}

func (c *Config) retention() *jobs.Retention {
	return &jobs.Retention{Dead: c.Dead, DeadAge: c.DeadAge, KeyAge: keyAge, Ended: c.Keep, EndedAge: c.KeepAge}
}
