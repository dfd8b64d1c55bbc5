package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/holter-iot/holter/internal/cores"
)

// latencyEvents is how many events are stored one at a time.
const latencyEvents = 1000

// bench runs the measurements and keeps their results, in the order of the rounds.
type bench struct {
	config config
	log    io.Writer

	silent  map[string][]Silent
	rates   map[string][]Rate
	latency []Latency
	claims  map[string][]Claims
	stalls  []time.Duration // of the machine, at worst in each measurement
}

func (b *bench) measure(ctx context.Context) error {
	b.silent, b.rates, b.claims = make(map[string][]Silent), make(map[string][]Rate), make(map[string][]Claims)
	for round := range b.config.rounds {
		for _, name := range []string{webhooksBare, webhooksSingle, webhooksBatch} {
			if err := one(ctx, b, round, name, b.config.webhooks, func(r Rate) { b.rates[name] = append(b.rates[name], r) }); err != nil {
				return err
			}
		}
		if err := one(ctx, b, round, latency, latencyEvents, func(r Latency) { b.latency = append(b.latency, r) }); err != nil {
			return err
		}
		for _, name := range []string{claimSQLite, claimPostgres, claimMariaDB} {
			if err := one(ctx, b, round, name, b.config.claims, func(r Claims) { b.claims[name] = append(b.claims[name], r) }); err != nil {
				return err
			}
		}
		for _, name := range []string{silentHeld, silentDelivered} {
			if err := one(ctx, b, round, name, b.config.devices, func(r Silent) { b.silent[name] = append(b.silent[name], r) }); err != nil {
				return err
			}
		}
		if err := one(ctx, b, round, recovery, b.config.devices, func(r Rate) { b.rates[recovery] = append(b.rates[recovery], r) }); err != nil {
			return err
		}
	}
	return nil
}

// one makes a measurement, if it was asked for, and keeps what it found.
func one[R any](ctx context.Context, b *bench, round int, name string, n int, keep func(R)) error {
	if !b.config.only.MatchString(name) {
		return nil
	}
	o := order{Name: name, N: n}
	if b.config.profiles != "" {
		path, err := filepath.Abs(filepath.Join(b.config.profiles, fmt.Sprintf("%s.%d.pprof", strings.ReplaceAll(name, "/", "-"), round+1)))
		if err != nil {
			return err
		}
		o.Profile = path
	}
	var result R
	w := cores.StartWitness(0, 1)
	err := measureApart(ctx, o, &result)
	stall, witnessErr := w.Stop()
	if err != nil {
		return err
	}
	if witnessErr != nil {
		return witnessErr
	}
	b.stalls = append(b.stalls, stall)
	_, _ = fmt.Fprintf(b.log, "%-16s %+v; the machine stalled for %v\n", name, result, stall.Round(time.Millisecond))
	keep(result)
	return nil
}
