package cron

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"
)

// Config describes an engine. The zero Config is a good one.
type Config struct {
	// Node is the name of this process, which it keeps when it is started again and no other one has. Default: the host's name.
	Node string
	// Logger gets what an operator should know. Default: nothing is logged.
	Logger *slog.Logger
	// Workers is the most runs that go on at a time, maintenance windows not counted. Default: 16.
	Workers int
	// Commands allows schedules of kind command: whoever may change schedules can run any program then, as the user that this process
	// runs as. Default: there can be none of that kind.
	Commands bool
	// Lease is for how long a run is claimed at a time; it is extended while the run goes on. What a process that died was at is begun again
	// by others after that long. Default: 1 min.
	Lease time.Duration
	// Poll is how often the database is looked at when nothing is known to be due, and how often maintenance windows look for devices
	// that have come since. Default: 10 s.
	Poll time.Duration
	// Grace is how long commands may go on when Run is to end. Default: 10 s.
	Grace time.Duration
	// History is how long runs that have ended are kept; of each schedule no more than the latest 100 are. Default: 30 days.
	History time.Duration
	// Now reads the clock that all who use the database share. Default: the database's.
	Now func(ctx context.Context) (time.Time, error)
}

func (c Config) withDefaults() (Config, error) {
	var errs []error
	if c.Node == "" {
		host, err := os.Hostname()
		if err != nil {
			errs = append(errs, fmt.Errorf("cron: Node is not set, and the host has no name: %w", err))
		}
		c.Node = host
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Workers == 0 {
		c.Workers = 16
	}
	if c.Workers < 0 || c.Workers > 10_000 {
		errs = append(errs, fmt.Errorf("cron: Workers is %d, want 1 to 10,000", c.Workers))
	}
	for _, d := range []struct {
		name string
		set  *time.Duration
		to   time.Duration
	}{
		{"Lease", &c.Lease, time.Minute},
		{"Poll", &c.Poll, 10 * time.Second},
		{"Grace", &c.Grace, 10 * time.Second},
		{"History", &c.History, 30 * 24 * time.Hour},
	} {
		if *d.set == 0 {
			*d.set = d.to
		}
		if *d.set < 0 {
			errs = append(errs, fmt.Errorf("cron: %s is %v, want more than 0", d.name, *d.set))
		}
	}
	return c, errors.Join(errs...)
}

// maxNode keeps the owner of a run within its column.
const maxNode = 200

// prefix is what the owners of runs of all lives of this process begin with.
func (c *Config) prefix() string { return c.Node[:min(len(c.Node), maxNode)] + "/" }

// owner returns a name for one life of this process.
func (c *Config) owner() string { return c.prefix() + rand.Text()[:12] }
