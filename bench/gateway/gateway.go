// Package gateway measures the gateway of Holter beside a bare server, for each protocol: how fast
// connections are made, what memory they take, and how many heartbeats are answered.
//
// Each server is a child process on a core of its own with GOMAXPROCS=1: holter is the gateway with
// its registry, as holter serve makes them, without HTTP; echo is an event loop of gnet that sends
// back what it reads. The client is this process, on the other core. The servers take turns, round by
// round, and ratios are taken within a round. Linux only.
package gateway

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/holter-iot/holter/bench/internal/cores"
	"github.com/holter-iot/holter/bench/internal/loopback"
	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/bench/internal/run"
)

const (
	stepLife = 3 * time.Minute // bounds how long a server may live
	beating  = 10_000          // connections that beat, at most
	secure   = 5000            // connections of TLS, at most, since each costs a handshake
)

// batches are how many messages a device sends in one write.
func batches() []int { return []int{1, 16} }

// row is a server, and the dialect that its devices speak.
type row struct {
	dialect

	server string
}

// rows returns all that is measured.
func rows() (all []row) {
	for _, d := range dialects() {
		if all = append(all, row{d, serverHolter}); d.transport != overTLS {
			all = append(all, row{d, serverEcho})
		}
	}
	return all
}

// name returns the name of a row in tables.
func (r row) name() string {
	if r.server == serverEcho {
		return r.String() + besideIt
	}
	return r.String()
}

// Command returns the benchmark.
func Command() run.Command {
	connections := 18_000 // near to the usual limit of 20,000 files
	return run.Command{
		Name: "gateway", Help: "the gateway and its protocols beside bare gnet", Rounds: 5, Seconds: 5,
		Names: "PROTOCOL, such as line, and line/echo for the server beside it",
		Flags: func(f *flag.FlagSet) {
			f.IntVar(&connections, "connections", connections, "connections of each server")
		},
		Quick: func() { connections = 200 },
		Run: func(ctx context.Context, r *run.Run) error {
			if connections < 1 || connections > 18_000 {
				return fmt.Errorf("-connections is %d, want 1 to 18000", connections)
			}
			if err := cores.Pin(cores.Driver); err != nil {
				return err
			}
			results := make(map[string][]result)
			for round := range r.Rounds {
				err := run.Turns(round, rows(), func(of row) error {
					if !r.Wanted(of.name(), "") {
						return nil
					}
					one, err := play(ctx, r, of, connections)
					if err != nil {
						return fmt.Errorf("%s: %w", of.name(), err)
					}
					results[of.name()] = append(results[of.name()], one)
					return nil
				})
				if err != nil {
					return err
				}
			}
			return r.Publish(ctx, "Gateway", "gateway", report(results, r.Rounds, connections))
		},
		Child: serveOne,
	}
}

// play starts the server of a row and measures it.
func play(ctx context.Context, r *run.Run, of row, connections int) (one result, err error) {
	ctx, cancel := context.WithTimeout(ctx, stepLife)
	defer cancel()
	p, err := measured.Start(ctx, measured.Alone, r.Name(), of.server, of.String())
	if err != nil {
		return one, err
	}
	defer p.Stop()
	client, err := loopback.New(p.Addr)
	if err != nil {
		return one, err
	}
	client.Packets = of.transport == overUDP
	if of.transport == overTLS {
		connections = min(connections, secure)
	}
	f := newFleet(of, p, client, connections)
	defer f.close()
	if one.memory, err = f.idle(ctx, &one.connecting, r.Quick); err != nil {
		return one, err
	}
	r.Progress("%-13s %8.0f connections/s, %6.0f bytes each", of.name(), one.connecting.rate(), one.each(one.memory.Resident))
	if of.transport == overTLS {
		return one, nil
	}
	for _, batch := range batches() {
		l, err := f.beat(ctx, batch, r.Length)
		if err != nil {
			return one, err
		}
		one.beats = append(one.beats, l)
		r.Progress("%-13s %8.0f messages/s, %d per write, %.2f µs of CPU each; others had %.0f %% of a core",
			of.name(), l.rate(), batch, l.cost(), 100*l.Others)
	}
	return one, nil
}
