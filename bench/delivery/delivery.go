// Package delivery measures what follows a verdict: a mass of verdicts with a job for each, and webhooks
// to an endpoint on this machine.
//
// Each measurement is made in a process of its own, which may use all cores, with an SQLite database of
// its own. The endpoint is one more process, a plain server of package net/http, so that its CPU time is
// counted apart. Linux only.
package delivery

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/holter-iot/holter/bench/internal/cores"
	"github.com/holter-iot/holter/bench/internal/figures"
	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/bench/internal/run"
)

// name is the benchmark's name, the first argument of its processes.
const name = "delivery"

// measurement is a row of the tables.
type measurement struct {
	name        string
	load, quick int // events
	play        func(r *rig, ctx context.Context, load int) (result, error)
}

func measurements() []measurement {
	return []measurement{
		{"webhooks/bare", 100_000, 1000, (*rig).post},
		{"webhooks/1", 100_000, 1000, (*rig).single},
		{"webhooks/100", 100_000, 1000, (*rig).batches},
		{"latency", 1000, 5, (*rig).latency},
		{"silence", 500_000, 1000, (*rig).silence},
	}
}

// result is what a measurement has found. Each has those fields that it needs.
type result struct {
	usage

	Events        int           // that were delivered
	Delivered     time.Duration // until the last delivery
	P50, P99, Max time.Duration // of an event's arrival after its commit
}

// bench keeps the results of the measurements.
type bench struct {
	*run.Run

	results map[string][]result // by measurement, in the order of the rounds
	stalls  []float64           // of the machine, at worst in each measurement, in milliseconds
}

// Command returns the benchmark.
func Command() run.Command {
	return run.Command{
		Name: name, Help: "a mass of verdicts, and webhooks", Rounds: 3,
		Names: "webhooks/bare, webhooks/1, webhooks/100, latency, silence",
		Run: func(ctx context.Context, r *run.Run) error {
			b := &bench{Run: r, results: make(map[string][]result)}
			for range b.Rounds {
				for _, m := range measurements() {
					if err := b.measure(ctx, m); err != nil {
						return fmt.Errorf("%s: %w", m.name, err)
					}
				}
			}
			return b.Publish(ctx, "Delivery", name, b.report())
		},
		Child: child,
	}
}

// measure makes a measurement if it is wanted.
func (b *bench) measure(ctx context.Context, m measurement) error {
	if !b.Wanted(m.name, "") {
		return nil
	}
	if b.Quick {
		m.load = m.quick
	}
	var found result
	stall, err := cores.Witness(func() error {
		return measured.Call(ctx, measured.Anywhere, &found, name, m.name, strconv.Itoa(m.load))
	})
	if err != nil {
		return err
	}
	b.stalls = append(b.stalls, figures.Millis(stall))
	b.Progress("%-16s %+v; the machine stalled for %v", m.name, found, stall.Round(time.Millisecond))
	b.results[m.name] = append(b.results[m.name], found)
	return nil
}

// child starts the endpoint, or prepares a measurement.
func child(ctx context.Context, args []string) (measured.Subject, error) {
	for _, m := range measurements() {
		if len(args) != 2 || m.name != args[0] {
			continue
		}
		load, err := strconv.Atoi(args[1])
		return measured.Subject{Answer: func(string) (found any, err error) {
			r, err := open(ctx)
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, r.close()) }()
			return m.play(r, ctx, load)
		}}, err
	}
	return receive(ctx)
}
