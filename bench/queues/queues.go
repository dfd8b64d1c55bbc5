// Package queues measures Holter's queue of jobs beside River, on one PostgreSQL server: jobs that are enqueued one by one and in bulk,
// jobs that do nothing and are worked, the time until a job is begun, and a backlog.
//
// Each measurement is made in a process of its own, which may use all cores as the server may, with a database of its own. It fails
// unless each job was stored once, and worked once where jobs are worked. Linux only.
package queues

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/holter-iot/holter/bench/internal/cores"
	"github.com/holter-iot/holter/bench/internal/figures"
	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/bench/internal/run"
)

// name is the benchmark's name, the first argument of its processes.
const name = "jobs"

// subject is what is measured: a queue, and how it is set.
type subject struct {
	name    string
	text    string // for the report
	workers int    // jobs that are worked at once
	conns   int    // connections that River may have
	slow    bool   // a tenth of the jobs is enough
	tuned   bool   // River's fetches follow each other as quickly as in its own benchmark
	copies  bool   // jobs are enqueued in bulk by COPY
	open    func(ctx context.Context, url string, of subject, t *tally) (queue, error)
}

// many is as many workers as River's own benchmark has.
const many = 2000

// subjects are all of them; workers and conns are the flags.
func subjects(workers, conns int) []subject {
	all := []subject{
		{name: "holter", text: "defaults", workers: workers, open: openHolter},
		{name: "holter-2000", text: "defaults", workers: many, open: openHolter},
		{name: "river", text: "defaults: a fetch each 100 ms at most", workers: workers, slow: true, open: openRiver},
		{name: "river-copy", text: "the same with InsertManyFast, which is COPY, in place of InsertMany", workers: workers, copies: true, open: openRiver},
		{name: "river-tuned", text: "FetchCooldown 2 ms and FetchPollInterval 20 ms", workers: workers, tuned: true, copies: true, open: openRiver},
		{
			name: "river-2000", text: "the same, as in River's own benchmark",
			workers: many, tuned: true, copies: true, open: openRiver,
		},
	}
	for i := range all {
		all[i].conns = conns
	}
	return all
}

// measurement is a table of the report.
type measurement struct {
	name        string
	subjects    []string
	load, quick int // jobs; of latency those of a second; 0 for as many as there is time for
	play        func(p *player, ctx context.Context) (result, error)
}

func measurements() []measurement {
	return []measurement{
		{"enqueue", []string{"holter", "river"}, 0, 0, (*player).one},
		{"bulk", []string{"holter", "river", "river-copy"}, 0, 0, (*player).bulk},
		{"work", []string{"holter", "holter-2000", "river", "river-tuned", "river-2000"}, 50_000, 1000, (*player).work},
		{"latency-200", []string{"holter", "river", "river-tuned"}, 200, 200, (*player).latency},
		{"latency-1000", []string{"holter", "river", "river-tuned"}, 1000, 1000, (*player).latency},
		{"backlog", []string{"holter", "river-2000"}, 1_000_000, 3000, (*player).backlog},
	}
}

// bench keeps the results of the measurements.
type bench struct {
	*run.Run

	server  *server
	workers int
	conns   int
	large   int                            // jobs of the backlog
	results map[string]map[string][]result // by measurement and subject, in the order of the rounds
	stalls  []float64                      // of the machine, at worst in each measurement, in milliseconds
}

// Command returns the benchmark.
func Command() run.Command {
	b := bench{workers: 100, conns: 10, results: make(map[string]map[string][]result)}
	return run.Command{
		Name: name, Help: "Holter's queue of jobs beside River, on PostgreSQL", Rounds: 3, Seconds: 3,
		Names: "enqueue, bulk, work, latency-200, latency-1000 or backlog,\n/ and the name of a queue",
		Flags: func(f *flag.FlagSet) {
			f.IntVar(&b.workers, "workers", b.workers, "jobs that are worked at once")
			f.IntVar(&b.conns, "conns", b.conns, "connections that River may have; Holter has 9")
			f.IntVar(&b.large, "backlog", b.large, "jobs of the backlog, which is measured in the first round only (default 1,000,000)")
		},
		Run: func(ctx context.Context, r *run.Run) error {
			b.Run = r
			if b.workers < 1 || b.workers > maxWorkers || b.conns < 2 || b.conns > maxConns || b.large < 0 {
				return fmt.Errorf("-workers %d -conns %d -backlog %d: want 1 to %d workers, 2 to %d connections, and no less than 0 jobs",
					b.workers, b.conns, b.large, maxWorkers, maxConns)
			}
			return b.all(ctx)
		},
		Child: child,
	}
}

// all makes all rounds.
func (b *bench) all(ctx context.Context) (err error) {
	if b.server, err = startServer(ctx); err != nil {
		return err
	}
	defer b.server.Close()
	b.Note(b.server.version)
	b.Note("River " + riverVersion())
	for round := range b.Rounds {
		for _, m := range measurements() {
			if m.name == "backlog" && round > 0 {
				continue // a million jobs take a minute, and the figures are no spread's
			}
			of := slices.DeleteFunc(subjects(b.workers, b.conns), func(s subject) bool { return !slices.Contains(m.subjects, s.name) })
			if err := run.Turns(round, of, func(s subject) error { return b.measure(ctx, m, s) }); err != nil {
				return err
			}
		}
	}
	return b.Publish(ctx, "Jobs", name, b.report())
}

// measure makes a measurement if it is wanted.
func (b *bench) measure(ctx context.Context, m measurement, s subject) error {
	if !b.Wanted(m.name, s.name) {
		return nil
	}
	if b.Quick {
		m.load = m.quick
	}
	if m.name == "backlog" && b.large > 0 {
		m.load = b.large
	}
	url, err := b.server.database(ctx)
	if err != nil {
		return err
	}
	var found result
	stall, err := cores.Witness(func() error {
		return measured.Call(ctx, measured.Anywhere, &found, name, m.name, s.name, url,
			strconv.Itoa(b.workers), strconv.Itoa(b.conns), strconv.Itoa(m.load), b.Length.String(), strconv.FormatBool(b.Quick))
	})
	if err = errors.Join(err, b.server.drop(ctx, url)); err != nil {
		return fmt.Errorf("%s/%s: %w", m.name, s.name, err)
	}
	b.stalls = append(b.stalls, figures.Millis(stall))
	b.Progress("%-12s %-12s %+v; the machine stalled for %v", m.name, s.name, found, stall.Round(time.Millisecond))
	if b.results[m.name] == nil {
		b.results[m.name] = make(map[string][]result)
	}
	b.results[m.name][s.name] = append(b.results[m.name][s.name], found)
	return nil
}

// child prepares a measurement.
func child(ctx context.Context, args []string) (measured.Subject, error) {
	if len(args) != 8 {
		return measured.Subject{}, fmt.Errorf("want a measurement, a queue and what it needs, not %q", args)
	}
	workers, err1 := strconv.Atoi(args[3])
	conns, err2 := strconv.Atoi(args[4])
	load, err3 := strconv.Atoi(args[5])
	length, err4 := time.ParseDuration(args[6])
	quick, err5 := strconv.ParseBool(args[7])
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return measured.Subject{}, err
	}
	for _, m := range measurements() {
		for _, s := range subjects(workers, conns) {
			if m.name == args[0] && s.name == args[1] {
				p := &player{subject: s, url: args[2], load: load, length: length, quick: quick}
				return measured.Subject{Answer: func(string) (any, error) { return m.play(p, ctx) }}, nil
			}
		}
	}
	return measured.Subject{}, fmt.Errorf("there is no %q", args[:2])
}
