// Command e2e measures the whole of Holter from end to end: holter serve in as many processes as the limit on open files asks for, and
// holter loadgen, which plays the devices, knows the truth about each, and reads the verdicts of every server.
//
//	go run ./bench/e2e -connections 500000 -md docs/numbers/benchmarks.md
//	go run ./bench/e2e -brokers -connections 15000 -interval 20s -md docs/numbers/benchmarks.md
//	go run ./bench/e2e -quick
//
// Each scenario has fresh servers, each with a database, a device port and an API of its own, and a block of the devices, which always come
// back to it: one that came back to another, as it may behind a shared port, would rightly be offline for
// the first and online for the second, and nobody could say which verdict is wrong.
//
// The exit status is 0 only if every scenario held what it should. Linux only.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/bench/internal/figures"
	"github.com/holter-iot/holter/bench/internal/program"
	"github.com/holter-iot/holter/internal/section"
)

var errMissed = errors.New("not all scenarios held what they should")

func main() {
	// Children are started by this goroutine and are killed by the kernel when its thread ends, whatever ended it.
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench/e2e:", err)
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	connections int
	perServer   int
	scenarios   []scenario
	ramp        float64
	interval    time.Duration
	length      time.Duration
	program     string
	out         string
	markdown    string
	pictures    string
	quick       bool
	brokers     bool
}

// scenario is one of holter loadgen's, with what it should hold.
type scenario struct {
	name string
	p99  time.Duration // how long after their deadlines 99 % of the verdicts should be there; 0: not checked
}

// all are the scenarios that are measured.
func all() []scenario {
	return []scenario{{"steady", 0}, {"silent-10pct", 100 * time.Millisecond}, {"site-outage", 0}, {"reconnect-storm", 2 * time.Second}, {"rolling-restart", 0}}
}

func run(ctx context.Context, args []string, stdout, stderr *os.File) (err error) {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "holter-e2e-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if o.out == "" {
		o.out = filepath.Join(dir, "reports")
	}
	if o.program == "" {
		if o.program, err = program.Build(ctx, dir); err != nil {
			return err
		}
	}
	b := &bench{options: o, dir: dir, log: stderr}
	header := time.Now().Format(time.DateOnly) + "; " +
		figures.Host(context.WithoutCancel(ctx), "go run ./bench/e2e "+strings.Join(args, " ")) + "\n\n"
	if o.brokers {
		all, err := b.compare(ctx)
		if err != nil {
			return err
		}
		return o.publish(stdout, section.Section{Title: "## Brokers end to end", Name: "e2e-brokers"}, b.compareReport(header, all))
	}
	results, err := b.measure(ctx)
	if len(results) == 0 {
		return err
	}
	text := b.report(header, results)
	if err != nil {
		_, writeErr := io.WriteString(stdout, text)
		return errors.Join(err, writeErr) // what is not complete is shown, but not published
	}
	charts, err := b.charts(results)
	if err != nil {
		return err
	}
	if err := o.publish(stdout, section.Section{Title: "## End to end", Name: "e2e"}, text+charts); err != nil {
		return err
	}
	for _, r := range results {
		if !r.passed() {
			return errMissed
		}
	}
	return nil
}

// publish shows what was measured, and writes it into a document if there is one.
func (o *options) publish(stdout io.Writer, where section.Section, text string) error {
	if _, err := io.WriteString(stdout, text); err != nil || o.markdown == "" {
		return err
	}
	return where.Write(o.markdown, text)
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench/e2e", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.connections, "connections", 500_000, "devices")
	flags.IntVar(&o.perServer, "per-server", 0, "devices of each server (default 92.5 % of the open files that a process may have)")
	names := flags.String("scenarios", "", "only these scenarios, with commas between; default all of\n"+strings.Join(namesOf(all()), ","))
	flags.Float64Var(&o.ramp, "ramp", 10_000, "connections that are begun each second")
	flags.DurationVar(&o.interval, "interval", time.Minute, "time between two heartbeats of a device; its timeout is three of them")
	flags.DurationVar(&o.length, "duration", 0, "length of each scenario after its ramp (default what it says itself)")
	flags.StringVar(&o.program, "program", "", "the program, ready built (default: it is built from ./cmd/holter)")
	flags.StringVar(&o.out, "out", "", "keep logs and reports of all scenarios in this `directory`")
	flags.StringVar(&o.markdown, "md", "", "write the tables into the section End to end of this Markdown `file`")
	flags.StringVar(&o.pictures, "png", "", "draw charts into this `directory`, and show them in the section")
	flags.BoolVar(&o.brokers, "brokers", false, "measure MQTT clients of the broker inside holter serve, and of mosquitto, in the section Brokers end to end")
	flags.BoolVar(&o.quick, "quick", false, "see in a minute or two that it works: 2,000 devices of two servers that beat every 2s, scenarios of 20s")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if o.quick {
		o.connections, o.perServer, o.ramp, o.interval, o.length = 2000, 1000, 2000, 2*time.Second, 20*time.Second
	}
	if o.perServer == 0 {
		o.perServer = openFiles() * 925 / 1000
	}
	if o.connections < 1 || o.perServer < 1 || o.ramp <= 0 || o.interval < 100*time.Millisecond || o.length < 0 {
		return o, errors.New("want 1 or more connections, also for each server, a ramp above 0, an interval of 100ms or more, and no negative duration")
	}
	var err error
	o.scenarios, err = choose(*names)
	for i := range o.scenarios {
		if o.quick { // where it is run nobody has the machine alone, so it proves that verdicts are right, not that they are quick
			o.scenarios[i].p99 = 0
		}
	}
	return o, err
}

// choose finds scenarios by their names.
func choose(names string) ([]scenario, error) {
	if names == "" {
		return all(), nil
	}
	var chosen []scenario
	for name := range strings.SplitSeq(names, ",") {
		s, err := find(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		chosen = append(chosen, s)
	}
	return chosen, nil
}

func find(name string) (scenario, error) {
	for _, s := range all() {
		if s.name == name {
			return s, nil
		}
	}
	return scenario{}, fmt.Errorf("-scenarios: %q is not measured; there are %s", name, strings.Join(namesOf(all()), ", "))
}

func namesOf(list []scenario) (names []string) {
	for _, s := range list {
		names = append(names, s.name)
	}
	return names
}

// openFiles is how many files a process may open.
func openFiles() int {
	const most = 1 << 20
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return most
	}
	return int(min(limit.Max, most))
}
