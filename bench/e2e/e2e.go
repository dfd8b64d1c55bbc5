// Package e2e measures the whole of Holter from end to end: holter serve, in one process with one port,
// and holter loadgen, which plays the devices and checks the verdicts against ground truth. With -ears
// the port is that of some processes of holter ear, of which the server is the judge; another server
// stands by, and there are two more scenarios, in which the judge or an ear is killed.
//
// Each scenario has new processes.
//
// The benchmark fails unless every scenario met its targets. Linux only.
package e2e

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/bench/internal/run"
)

var errMissed = errors.New("not all scenarios met their targets")

// bench plays scenarios.
type bench struct {
	*run.Run

	connections int
	ears        int
	interval    time.Duration
	length      time.Duration
}

// scenario is one of holter loadgen's, or killed, with its target.
type scenario struct {
	name  string
	p99   time.Duration // how long after their deadlines 99 % of the verdicts may arrive; 0: not checked
	kills victim
}

// victim is which process is killed in a scenario.
type victim int

const (
	nobody victim = iota
	judge
	anEar
)

// killed is the scenario in which a process is killed, and killedFile its name.
//
//go:embed killed.yaml
var killed []byte

const killedFile = "killed.yaml"

// scenarios are those that are measured.
func (b *bench) scenarios() []scenario {
	all := []scenario{
		{"steady", 0, nobody}, {"silent-10pct", 100 * time.Millisecond, nobody}, {"site-outage", 0, nobody}, {"reconnect-storm", 2 * time.Second, nobody},
	}
	if b.ears == 0 {
		return all
	}
	for i := range all {
		if all[i].p99 > 0 {
			all[i].p99 += rounds
		}
	}
	return append(all, scenario{"judge-killed", 8 * time.Second, judge}, scenario{"ear-killed", 4 * time.Second, anEar})
}

// rounds is for how long a verdict may wait for ears: two rounds of theirs.
const rounds = 200 * time.Millisecond

// Command returns the benchmark.
func Command() run.Command {
	b := &bench{connections: 500_000, interval: time.Minute}
	return run.Command{
		Name: "e2e", Help: "servers and load generator end to end, with 500,000 connections",
		Names: "steady, silent-10pct, site-outage, reconnect-storm; with -ears judge-killed and ear-killed",
		Flags: func(f *flag.FlagSet) {
			f.IntVar(&b.connections, "connections", b.connections, "devices")
			f.IntVar(&b.ears, "ears", b.ears, "processes of holter ear, which share one port; 0: the port is the server's own")
			f.DurationVar(&b.interval, "interval", b.interval, "time between two heartbeats of a device; its timeout is three of them")
			f.DurationVar(&b.length, "duration", b.length, "length of each scenario after its ramp (default what it says itself)")
		},
		Quick: func() { b.connections, b.interval, b.length = 2000, 2*time.Second, 20*time.Second },
		Run: func(ctx context.Context, r *run.Run) error {
			b.Run = r
			if b.connections < 1 || b.ears < 0 || b.interval < 100*time.Millisecond || b.length < 0 {
				return errors.New("want 1 or more connections, no negative number of ears, an interval of 100ms or more, and " +
					"no negative duration")
			}
			return b.playAll(ctx)
		},
	}
}

// playAll plays all scenarios that are wanted and publishes what came of them. What is not complete
// is printed only.
func (b *bench) playAll(ctx context.Context) error {
	var results []*result
	passed := true
	for _, s := range b.scenarios() {
		if !b.Wanted(s.name, "") {
			continue
		}
		r, err := b.play(ctx, s)
		if err == nil {
			results, passed = append(results, r), passed && r.passed()
			err = ctx.Err()
		}
		if err != nil {
			if len(results) > 0 {
				_, _ = fmt.Fprint(b.Stdout, b.report(results))
			}
			return fmt.Errorf("scenario %s: %w", s.name, err)
		}
	}
	if len(results) == 0 {
		return errors.New("-only: no scenario matches")
	}
	title, name := "End to end", "e2e"
	if b.ears > 0 {
		title, name = "End to end, with ears", "ears"
	}
	if err := b.Publish(ctx, title, name, b.report(results)); err != nil {
		return err
	}
	if !passed {
		return errMissed
	}
	return nil
}

// play plays one scenario against a new server.
func (b *bench) play(ctx context.Context, s scenario) (*result, error) {
	out := filepath.Join(b.Dir, s.name)
	if err := os.Mkdir(out, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(out, killedFile), killed, 0o600); err != nil {
		return nil, err
	}
	program, err := b.Holter(ctx)
	if err != nil {
		return nil, err
	}
	b.Progress("%s: %d connections, %d ears", s.name, b.connections, b.ears)
	r := &result{scenario: s}
	before, _ := measured.Available()
	t, err := b.startTarget(ctx, program, out, s.kills)
	defer t.stop()
	if err != nil {
		return nil, err
	}
	return r, b.generate(ctx, program, out, t, before, r)
}
