// Package schedules measures the crontab expressions of package schedule beside robfig/cron: what it takes to read one, and to find its
// next instant, and the memory of many. It also compares the instants of both with a naive model of Vixie cron, for random expressions
// in zones whose clocks change.
//
// Each measurement is made in a process of its own, which may use all cores. Linux only.
package schedules

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"time"

	"github.com/holter-iot/holter/bench/internal/cores"
	"github.com/holter-iot/holter/bench/internal/figures"
	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/bench/internal/run"
)

// name is the benchmark's name, the first argument of its processes.
const name = "schedules"

// bench keeps the results of the measurements.
type bench struct {
	*run.Run

	held        int // schedules of one engine
	expressions int // random ones in each zone, of each kind
	instants    int // at which each is asked for its next one
	seed        uint64

	speeds   map[string]map[string][]speed // by library and expression
	memories map[string][]memory           // by library and kind
	compared map[string][]compared         // by zone
	stalls   []float64                     // of the machine, at worst in each measurement, in milliseconds
}

// Command returns the benchmark.
func Command() run.Command {
	b := &bench{
		held: 100_000, expressions: 150, instants: 100, seed: 1,
		speeds: make(map[string]map[string][]speed), memories: make(map[string][]memory), compared: make(map[string][]compared),
	}
	return run.Command{
		Name: name, Help: "crontab expressions beside robfig/cron, and both beside a model of Vixie cron", Rounds: 5, Seconds: 0.1,
		Names: "speed or memory, / and holter or robfig;\nor oracle / and a time zone",
		Quick: func() { b.held, b.expressions, b.instants = 1000, 2, 20 },
		Flags: func(f *flag.FlagSet) {
			f.IntVar(&b.held, "n", b.held, "schedules of one engine")
			f.IntVar(&b.expressions, "expressions", b.expressions, "random expressions of each kind in each zone")
			f.IntVar(&b.instants, "instants", b.instants, "random instants for each of them")
			f.Uint64Var(&b.seed, "seed", b.seed, "of what is random")
		},
		Run: func(ctx context.Context, r *run.Run) error {
			b.Run = r
			if b.held < 1 || b.expressions < 1 || b.instants < 1 {
				return fmt.Errorf("-n %d -expressions %d -instants %d: want 1 or more", b.held, b.expressions, b.instants)
			}
			if err := b.all(ctx); err != nil {
				return err
			}
			return errors.Join(b.Publish(ctx, "Schedules", name, b.report()), b.verdict())
		},
		Child: child,
	}
}

// all makes all rounds, and the comparison once.
func (b *bench) all(ctx context.Context) error {
	b.Note("robfig/cron " + robfigVersion())
	for round := range b.Rounds {
		if err := run.Turns(round, libraries(), func(of library) error { return b.round(ctx, of) }); err != nil {
			return err
		}
	}
	for _, z := range zones() {
		var found compared
		args := []string{"oracle", z.name, strconv.Itoa(b.expressions), strconv.Itoa(b.instants), strconv.FormatUint(b.seed, 10)}
		if done, err := b.call(ctx, &found, args...); err != nil || !done {
			if err != nil {
				return err
			}
			continue
		}
		b.compared[z.name] = append(b.compared[z.name], found)
	}
	return nil
}

// round measures a library once.
func (b *bench) round(ctx context.Context, of library) error {
	var speeds map[string]speed
	if _, err := b.call(ctx, &speeds, "speed", of.name, b.Length.String()); err != nil {
		return err
	}
	if b.speeds[of.name] == nil {
		b.speeds[of.name] = make(map[string][]speed)
	}
	for text, s := range speeds {
		b.speeds[of.name][text] = append(b.speeds[of.name][text], s)
	}
	var m memory
	done, err := b.call(ctx, &m, "memory", of.name, strconv.Itoa(b.held))
	if done {
		b.memories[of.name] = append(b.memories[of.name], m)
	}
	return err
}

// call makes a measurement if it is wanted, and reports whether it did.
func (b *bench) call(ctx context.Context, found any, args ...string) (done bool, err error) {
	if !b.Wanted(args[0], args[1]) {
		return false, nil
	}
	stall, err := cores.Witness(func() error {
		return measured.Call(ctx, measured.Anywhere, found, append([]string{name}, args...)...)
	})
	if err != nil {
		return false, fmt.Errorf("%s/%s: %w", args[0], args[1], err)
	}
	b.stalls = append(b.stalls, figures.Millis(stall))
	b.Progress("%-8s %-22s done; the machine stalled for %v", args[0], args[1], stall.Round(time.Millisecond))
	return true, nil
}

// child prepares a measurement.
func child(ctx context.Context, args []string) (measured.Subject, error) {
	if len(args) == 5 && args[0] == "oracle" {
		expressions, err1 := strconv.Atoi(args[2])
		instants, err2 := strconv.Atoi(args[3])
		seed, err3 := strconv.ParseUint(args[4], 10, 64)
		for _, z := range zones() {
			if z.name == args[1] {
				return measured.Subject{Answer: func(string) (any, error) { return z.compare(expressions, instants, seed) }}, errors.Join(err1, err2, err3)
			}
		}
	}
	for _, of := range libraries() {
		switch {
		case len(args) != 3 || args[1] != of.name:
		case args[0] == "speed":
			length, err := time.ParseDuration(args[2])
			return measured.Subject{Answer: func(string) (any, error) { return of.speeds(length) }}, err
		case args[0] == "memory":
			n, err := strconv.Atoi(args[2])
			return measured.Subject{Answer: func(string) (any, error) { return of.memory(ctx, n) }}, err
		}
	}
	return measured.Subject{}, fmt.Errorf("there is no %q", args)
}
