package cron

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Config is the configuration of an engine. Node is required.
type Config struct {
	// Node is the name of this process among those that share the database. It must be unique, since the runs
	// of an earlier process with this name are started again at once, as that is gone, and stay the same
	// after a restart, since those of another are waited for until their lease ends.
	Node string
	// Logger receives events for the operator. Default: nothing is logged.
	Logger *slog.Logger
	// Workers is the largest number of concurrent runs, without maintenance windows. Default: 16.
	Workers int
	// Commands allows schedules of kind command. Whoever may change schedules can then run any
	// program as the user of this process. Default: false.
	Commands bool
	// Lease is how long a claim of a run is valid; it is extended during the run. After that time
	// other processes start the runs of a process that died again. Default: 1 min.
	Lease time.Duration
	// Poll is the interval at which the database is read when nothing is known to be due, and at
	// which maintenance windows look for new devices. Default: 10 s.
	Poll time.Duration
	// Grace is how long commands may continue when Run is told to end. Default: 10 s.
	Grace time.Duration
	// History is how long ended runs are kept, at most the latest 100 of each schedule. Default: 30
	// days.
	History time.Duration
	// Now reads the clock that all users of the database share. Default: the database's clock.
	Now func(ctx context.Context) (time.Time, error)
}

func (c Config) withDefaults() (Config, error) {
	var errs []error
	if c.Node == "" {
		errs = append(errs, errors.New("cron: Node is empty, want a name of this process that no other on the database has"))
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

// prefix returns the common prefix of the owners of all runs of this node.
func (c *Config) prefix() string { return c.Node[:min(len(c.Node), maxNode)] + "/" }

// owner returns a name for this process, different after each start.
func (c *Config) owner() string { return c.prefix() + rand.Text()[:12] }
