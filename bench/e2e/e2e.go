// Package e2e measures the whole of Holter from end to end: holter serve, in one process with one port,
// and holter loadgen, which plays the devices and checks the verdicts against ground truth. With -ears
// the port is that of some processes of holter ear, of which the server is the judge; another server
// stands by, and there are two more scenarios, in which the judge or an ear is killed. With -protocol
// mqtt the devices are clients of the broker inside: a heartbeat is a PINGREQ or a message, and another
// scenario ends their sessions in all ways.
//
// Each scenario has new processes.
//
// The benchmark fails unless every scenario met its targets. Linux only.
package e2e

import (
	"context"
	"embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/internal/loadgen/plan"
)

var errMissed = errors.New("not all scenarios met their targets")

// bench plays scenarios.
type bench struct {
	*run.Run

	connections int
	ears        int
	protocol    string
	qos         int // of heartbeats that are messages; pings: they are PINGREQ
	interval    time.Duration
	length      time.Duration
}

// Heartbeats over MQTT.
const (
	pings = -1                      // PINGREQ, instead of a QoS
	beats = "devices/{device}/beat" // the topic of messages
)

// mqtt reports whether devices speak MQTT.
func (b *bench) mqtt() bool { return b.protocol == plan.MQTT || b.protocol == plan.MQTT5 }

// scenario is one of holter loadgen's, or one of files, with its target.
type scenario struct {
	name  string
	p99   time.Duration // how long after their deadlines 99 % of the verdicts may arrive; 0: not checked
	kills victim
	file  string // "": the scenario is loadgen's
}

// victim is which process is killed in a scenario.
type victim int

const (
	nobody victim = iota
	judge
	anEar
)

// files are the scenarios that holter loadgen does not have.
//
//go:embed *.yaml
var files embed.FS

const (
	killedFile = "killed.yaml" // a process is killed
	endsFile   = "ends.yaml"   // sessions end
)

// scenarios are those that are measured.
func (b *bench) scenarios() []scenario {
	all := []scenario{
		{name: "steady"}, {name: "silent-10pct", p99: 100 * time.Millisecond}, {name: "site-outage"}, {name: "reconnect-storm", p99: 2 * time.Second},
	}
	if b.mqtt() {
		all = append(all, scenario{name: "session-ends", file: endsFile})
	}
	if b.ears == 0 {
		return all
	}
	for i := range all {
		if all[i].p99 > 0 {
			all[i].p99 += rounds
		}
	}
	return append(all,
		scenario{"judge-killed", 8 * time.Second, judge, killedFile},
		scenario{"ear-killed", 4 * time.Second, anEar, killedFile},
	)
}

// rounds is for how long a verdict may wait for ears: two rounds of theirs.
const rounds = 200 * time.Millisecond

// Command returns the benchmark.
func Command() run.Command {
	b := &bench{connections: 500_000, protocol: plan.Line, qos: pings, interval: time.Minute}
	return run.Command{
		Name: "e2e", Help: "servers and load generator end to end, with 500,000 connections",
		Names: "steady, silent-10pct, site-outage, reconnect-storm; with MQTT session-ends; with -ears judge-killed and ear-killed",
		Flags: func(f *flag.FlagSet) {
			f.IntVar(&b.connections, "connections", b.connections, "devices")
			f.IntVar(&b.ears, "ears", b.ears, "processes of holter ear, which share one port; 0: the port is the server's own")
			f.StringVar(&b.protocol, "protocol", b.protocol, "what devices speak: line, mqtt (3.1.1) or mqtt5")
			f.IntVar(&b.qos, "qos", b.qos, "with MQTT: heartbeats are messages with this QoS, 0 or 1; -1: they are pings")
			f.DurationVar(&b.interval, "interval", b.interval, "time between two heartbeats of a device; its timeout is three of them")
			f.DurationVar(&b.length, "duration", b.length, "length of each scenario after its ramp (default what it says itself)")
		},
		Quick: func() { b.connections, b.interval, b.length = 2000, 2*time.Second, 20*time.Second },
		Run: func(ctx context.Context, r *run.Run) error {
			b.Run = r
			if err := b.check(); err != nil {
				return err
			}
			return b.playAll(ctx)
		},
	}
}

// check rejects wrong flags.
func (b *bench) check() error {
	switch {
	case b.connections < 1 || b.ears < 0 || b.interval < 100*time.Millisecond || b.length < 0:
		return errors.New("want 1 or more connections, no negative number of ears, an interval of 100ms or more, and " +
			"no negative duration")
	case !b.mqtt() && b.protocol != plan.Line:
		return fmt.Errorf("-protocol %s: want %s, %s or %s", b.protocol, plan.Line, plan.MQTT, plan.MQTT5)
	case b.qos < pings || b.qos > 1 || b.qos != pings && !b.mqtt():
		return fmt.Errorf("-qos %d: want 0 or 1, with MQTT", b.qos)
	}
	return nil
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
	if b.mqtt() {
		title, name = title+", over MQTT", name+"-mqtt"
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
	if err := os.CopyFS(out, files); err != nil {
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
