// Package learn measures the deadlines that package internal/habit learns, beside a fixed timeout, RFC 6298,
// φ-accrual and NFD-E: how soon a death is detected, and how often and for how long a device that lives is
// suspected. All of them judge the same simulated heartbeats, so the figures do not depend on the machine.
package learn

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/holter-iot/holter/bench/internal/run"
)

const (
	name    = "learn"
	mixed   = "mix"
	longest = 365 // days
)

// bench keeps the results of the rounds.
type bench struct {
	*run.Run

	days       int
	devices    int // of each stream, in each group
	contenders []contender

	mu      sync.Mutex          // guards the field below
	results map[string][]result // by group; one for each round, in no order
}

// result is what one round has found of a group.
type result struct {
	all     []quality   // by contender
	streams [][]quality // by contender and stream of the group
}

// Command returns the benchmark.
func Command() run.Command {
	b := &bench{days: 30, devices: 60, results: make(map[string][]result)}
	charts := ""
	return run.Command{
		Name: name, Help: "learned deadlines beside RFC 6298, φ-accrual and NFD-E", Rounds: 5,
		Names: "the letter of a stream, or " + mixed,
		Quick: func() { b.days, b.devices = 5, 5 },
		Flags: func(f *flag.FlagSet) {
			f.IntVar(&b.days, "days", b.days, "simulated days")
			f.IntVar(&b.devices, "n", b.devices, "devices of each stream in a group")
			f.StringVar(&charts, "svg", "", "draw the charts into this `directory`")
		},
		Run: func(ctx context.Context, r *run.Run) error {
			b.Run = r
			if warm := int(warmup / day); b.days <= warm || b.days > longest || b.devices < 1 {
				return fmt.Errorf("-days %d -n %d: want %d to %d days and 1 or more devices", b.days, b.devices, warm+1, longest)
			}
			b.contenders = contenders()
			if err := b.all(ctx); err != nil {
				return err
			}
			err := b.Publish(ctx, "Learned deadlines", name, b.report())
			if charts != "" {
				err = errors.Join(err, b.draw(charts))
			}
			return err
		},
	}
}

// all simulates every group in every round, each with a seed of its own, on all cores.
func (b *bench) all(ctx context.Context) error {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(runtime.GOMAXPROCS(0))
	for round := range b.Rounds {
		groups := map[string][]stream{mixed: streams()}
		names := []string{mixed} // the longest first
		for _, s := range streams() {
			groups[s.name] = []stream{s}
			names = append(names, s.name)
		}
		for _, of := range names {
			if !b.Wanted(of, "") {
				continue
			}
			work.Go(func() error { return b.simulate(ctx, of, groups[of], round+1) })
		}
	}
	return work.Wait()
}

// simulate simulates a group once.
func (b *bench) simulate(ctx context.Context, of string, members []stream, seed int) error {
	s := simulation{streams: members, devices: b.devices, outages: of == mixed, seed: uint64(seed), days: b.days, contenders: b.contenders}
	tallies, err := s.run(ctx)
	if err != nil {
		return err
	}
	var found result
	for _, each := range tallies {
		var sum tally
		var qualities []quality
		for i := range each {
			sum.add(&each[i])
			qualities = append(qualities, each[i].quality())
		}
		found.all, found.streams = append(found.all, sum.quality()), append(found.streams, qualities)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.results[of] = append(b.results[of], found)
	b.Progress("%-4s seed %d done", of, seed)
	return nil
}
