// Package gateway measures the gateway of Holter beside a bare server, for each protocol: how fast
// connections are made, what memory they take, and how many heartbeats are answered.
//
// Each server is a child process on a core of its own with GOMAXPROCS=1: holter is the gateway with
// its registry, as holter serve makes them, without HTTP; bare is an event loop of gnet with the same
// codec, which answers every message and keeps nothing. The load generator plays the devices in this
// process, on the other core. The servers take turns, round by round, and ratios are taken within a
// round. Linux only.
package gateway

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/holter-iot/holter/bench/internal/cores"
	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/bench/internal/run"
)

// bench runs the measurements and keeps their results.
type bench struct {
	*run.Run

	connections int // that beat
	idle        int // that say nothing: near to the usual limit of 20,000 files
	idleTLS     int // fewer, since each costs a handshake
	results     map[string]map[string][]result
}

// row is a server and its fleet, and what is measured of them.
type row struct {
	server   string
	protocol string // with overTLS behind it
	batch    int    // heartbeats that a device sends in one write; 0: none
}

// batches are those that are measured.
func batches() []int { return []int{1, 16} }

// rows returns all that is measured.
func rows() (all []row) {
	for _, p := range protocols() {
		for _, server := range []string{serverHolter, serverBare} {
			for _, batch := range append(batches(), 0) {
				all = append(all, row{server, p.Name(), batch})
			}
		}
	}
	return append(all, row{server: serverHolter, protocol: "line" + overTLS})
}

// measurement returns what is measured of a row.
func (r row) measurement() string {
	if r.batch == 0 {
		return "idle"
	}
	return fmt.Sprintf("beats-%d", r.batch)
}

// name returns the name of a row in tables.
func (r row) name() string {
	if r.server == serverBare {
		return r.protocol + besideIt
	}
	return r.protocol
}

// Command returns the benchmark.
func Command() run.Command {
	b := &bench{connections: 10_000, idle: 18_000, idleTLS: 5000, results: make(map[string]map[string][]result)}
	return run.Command{
		Name: "gateway", Help: "the gateway and its protocols beside bare gnet", Rounds: 5, Seconds: 5,
		Names: "MEASUREMENT/PROTOCOL, such as beats-16/line, and\nbeats-16/line/bare for the server beside it\n" +
			"(beats-1, beats-16, idle)",
		Flags: func(f *flag.FlagSet) {
			f.IntVar(&b.connections, "connections", b.connections, "connections that beat")
		},
		Quick: func() { b.connections, b.idle, b.idleTLS = 200, 200, 50 },
		Run: func(ctx context.Context, r *run.Run) error {
			b.Run = r
			if b.connections < 1 || b.connections > 18_000 {
				return fmt.Errorf("-connections is %d, want 1 to 18000", b.connections)
			}
			if err := cores.Pin(cores.Driver); err != nil {
				return err
			}
			for round := range b.Rounds {
				if err := run.Turns(round, rows(), func(of row) error { return b.measure(ctx, of) }); err != nil {
					return err
				}
			}
			return b.Publish(ctx, "Gateway", "gateway", b.report())
		},
		Child: serveOne,
	}
}

// measure starts the server of a row and measures it, if that is wanted.
func (b *bench) measure(ctx context.Context, of row) error {
	measurement, name := of.measurement(), of.name()
	if !b.Wanted(measurement, name) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	p, err := measured.Start(ctx, measured.Alone, b.Name(), of.server, of.protocol)
	if err != nil {
		return err
	}
	defer p.Stop()
	one := b.beats
	if of.batch == 0 {
		one = b.idleMemory
	}
	r, err := one(ctx, of, p)
	if err != nil {
		return fmt.Errorf("%s, %s: %w", measurement, name, err)
	}
	if b.results[measurement] == nil {
		b.results[measurement] = make(map[string][]result)
	}
	b.results[measurement][name] = append(b.results[measurement][name], r)
	b.Progress("%-8s %-15s %8.0f/s, %.2f µs of CPU each; server busy %.0f %%, generator %.0f %%, others %.0f %%",
		measurement, name, r.rate(), r.cost(), 100*r.Share, 100*r.Driver, 100*r.Others)
	return nil
}
