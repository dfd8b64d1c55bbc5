// Package delivery measures what follows a verdict: a mass of verdicts with a job for each, webhooks to an endpoint on this machine,
// claiming and settling beside the bare database, and a backlog that is delivered after a restart.
//
// Each measurement is made in a process of its own, which may use all cores, with a database of its own. The endpoint is one more process,
// a plain server of package net/http, so that its CPU time is counted apart. Linux only.
package delivery

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/holter-iot/holter/bench/internal/cores"
	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/bench/internal/run"
)

// name is the benchmark's name, the first argument of its processes.
const name = "delivery"

// bench runs the measurements and keeps their results, by measurement and in the order of the rounds.
type bench struct {
	*run.Run

	devices  int // that fall silent, and jobs of the backlog
	webhooks int // events that are delivered to measure the rate
	claims   int // jobs that are claimed and settled
	timed    int // events that are stored one at a time

	silent  map[string][]silent
	rates   map[string][]rate
	latency []latency
	claimed map[string][]claims
	stalls  []float64 // of the machine, at worst in each measurement, in milliseconds
}

// Command returns the benchmark.
func Command() run.Command {
	b := &bench{
		devices: 500_000, webhooks: 100_000, claims: 200_000, timed: 1000,
		silent: make(map[string][]silent), rates: make(map[string][]rate), claimed: make(map[string][]claims),
	}
	return run.Command{
		Name: name, Help: "a mass of verdicts, webhooks, claims and a backlog", Rounds: 3,
		Names: "silent/held, silent/delivered, webhooks/1, webhooks/100,\nwebhooks/bare, latency, claim/SQLite, claim/PostgreSQL, claim/MariaDB, recovery",
		Flags: func(f *flag.FlagSet) {
			f.IntVar(&b.devices, "devices", b.devices, "devices that fall silent, and jobs of the backlog")
			f.IntVar(&b.webhooks, "webhooks", b.webhooks, "events that are delivered to measure the rate")
			f.IntVar(&b.claims, "claims", b.claims, "jobs that are claimed and settled")
		},
		Quick: func() { b.devices, b.webhooks, b.claims, b.timed = 1000, 1000, 1000, 5 },
		Run: func(ctx context.Context, r *run.Run) error {
			b.Run = r
			if b.devices < 1000 || b.webhooks < 1000 || b.claims < claimSize {
				return fmt.Errorf("want 1000 or more devices and webhooks, and %d or more claims", claimSize)
			}
			if err := b.measure(ctx); err != nil {
				return err
			}
			return b.Publish(ctx, "Delivery", name, b.report())
		},
		Child: child,
	}
}

func (b *bench) measure(ctx context.Context) error {
	for range b.Rounds {
		err := errors.Join(
			each(ctx, b, b.rates, b.webhooks, webhooksBare, webhooksSingle, webhooksBatch),
			each(ctx, b, b.claimed, b.claims, claimNames()...),
			each(ctx, b, b.silent, b.devices, silentHeld, silentDelivered),
			each(ctx, b, b.rates, b.devices, recovery),
		)
		timed := make(map[string][]latency)
		if err = errors.Join(err, each(ctx, b, timed, b.timed, timedWebhooks)); err != nil {
			return err
		}
		b.latency = append(b.latency, timed[timedWebhooks]...)
	}
	return nil
}

// each makes those of some measurements that are wanted, and adds what they found to the results.
func each[R any](ctx context.Context, b *bench, results map[string][]R, n int, measurements ...string) error {
	for _, measurement := range measurements {
		if !b.Wanted(measurement, "") {
			continue
		}
		var result R
		stall, err := cores.Witness(func() error {
			return measured.Call(ctx, measured.Anywhere, &result, name, measurement, strconv.Itoa(n))
		})
		if err != nil {
			return fmt.Errorf("%s: %w", measurement, err)
		}
		b.stalls = append(b.stalls, float64(stall)/float64(time.Millisecond))
		b.Progress("%-16s %+v; the machine stalled for %v", measurement, result, stall.Round(time.Millisecond))
		results[measurement] = append(results[measurement], result)
	}
	return nil
}

// workspace is where a measurement is made.
type workspace struct {
	n   int
	dir string // of the database; empty at the beginning, and removed in the end
}

// child starts the endpoint, or prepares a measurement.
func child(ctx context.Context, args []string) (measured.Subject, error) {
	if len(args) == 1 && args[0] == receiverName {
		return receive(ctx)
	}
	if len(args) != 2 || measurements()[args[0]] == nil {
		return measured.Subject{}, fmt.Errorf("cannot measure %q", args)
	}
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return measured.Subject{}, err
	}
	return measured.Subject{Answer: func(string) (result any, err error) {
		s := &workspace{n: n}
		if s.dir, err = os.MkdirTemp("", "holter-delivery-"); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(s.dir)) }()
		return measurements()[args[0]](ctx, s)
	}}, nil
}

// measurements are all that there are, by name.
func measurements() map[string]func(context.Context, *workspace) (any, error) {
	all := map[string]func(context.Context, *workspace) (any, error){
		silentHeld:      func(ctx context.Context, s *workspace) (any, error) { return s.silent(ctx, false) },
		silentDelivered: func(ctx context.Context, s *workspace) (any, error) { return s.silent(ctx, true) },
		webhooksSingle:  func(ctx context.Context, s *workspace) (any, error) { return s.webhooks(ctx, 1) },
		webhooksBatch:   func(ctx context.Context, s *workspace) (any, error) { return s.webhooks(ctx, manyAtOnce) },
		webhooksBare:    func(ctx context.Context, s *workspace) (any, error) { return s.bareWebhooks(ctx) },
		timedWebhooks:   func(ctx context.Context, s *workspace) (any, error) { return s.latency(ctx) },
		recovery:        func(ctx context.Context, s *workspace) (any, error) { return s.recovery(ctx) },
	}
	for _, d := range databases() {
		all[claimPrefix+d.name] = func(ctx context.Context, s *workspace) (any, error) { return s.claim(ctx, d.open) }
	}
	return all
}
