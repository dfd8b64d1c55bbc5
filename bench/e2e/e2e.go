// Package e2e measures the whole of Holter from end to end: holter serve in as many processes as the limit on open files requires, and
// holter loadgen, which plays the devices and checks the verdicts of every server against ground truth.
//
// Each scenario has new servers, each with a database, a device port and an API of its own, and a block of the devices, which always come
// back to it: one that came back to another, as it may behind a shared port, would rightly be offline for the first and online for the
// second.
//
// The benchmark fails unless every scenario met its targets. Linux only.
package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/bench/internal/serve"
	"github.com/holter-iot/holter/loadgen/report"
)

var errMissed = errors.New("not all scenarios met their targets")

// bench plays scenarios.
type bench struct {
	*run.Run

	connections int
	perServer   int
	ramp        float64
	interval    time.Duration
	length      time.Duration
}

// scenario is one of holter loadgen's, with its target.
type scenario struct {
	name string
	p99  time.Duration // how long after their deadlines 99 % of the verdicts may arrive; 0: not checked
}

// scenarios are those that are measured.
func scenarios() []scenario {
	return []scenario{{"steady", 0}, {"silent-10pct", 100 * time.Millisecond}, {"site-outage", 0}, {"reconnect-storm", 2 * time.Second}, {"rolling-restart", 0}}
}

// Command returns the benchmark of the line protocol.
func Command() run.Command {
	b := &bench{connections: 500_000, ramp: 10_000, interval: time.Minute}
	c := b.command("e2e", "servers and load generator end to end, with 500,000 connections", b.lines)
	flags := c.Flags
	c.Flags = func(f *flag.FlagSet) {
		flags(f)
		f.IntVar(&b.perServer, "per-server", b.perServer, "devices of each server (default 92.5 % of the open files that a process may have)")
	}
	return c
}

// Brokers returns the benchmark of MQTT clients.
func Brokers() run.Command {
	b := &bench{connections: 15_000, ramp: 3000, interval: 20 * time.Second, perServer: 1}
	return b.command("brokers", "15,000 MQTT clients of the embedded broker, and of mosquitto, end to end", b.brokers)
}

func (b *bench) command(name, help string, do func(context.Context) error) run.Command {
	var names []string
	for _, s := range scenarios() {
		names = append(names, s.name)
	}
	return run.Command{
		Name: name, Help: help, Names: strings.Join(names, ", "),
		Flags: func(f *flag.FlagSet) {
			f.IntVar(&b.connections, "connections", b.connections, "devices")
			f.Float64Var(&b.ramp, "ramp", b.ramp, "connections that are begun each second")
			f.DurationVar(&b.interval, "interval", b.interval, "time between two heartbeats of a device; its timeout is three of them")
			f.DurationVar(&b.length, "duration", b.length, "length of each scenario after its ramp (default what it says itself)")
		},
		Quick: func() {
			b.connections, b.perServer, b.ramp, b.interval, b.length = 2000, 1000, 2000, 2*time.Second, 20*time.Second
		},
		Run: func(ctx context.Context, r *run.Run) error {
			b.Run = r
			if b.perServer == 0 {
				b.perServer = openFiles() * 925 / 1000
			}
			if b.connections < 1 || b.perServer < 1 || b.ramp <= 0 || b.interval < 100*time.Millisecond || b.length < 0 {
				return errors.New("want 1 or more connections, also for each server, a ramp above 0, an interval of 100ms or more, and no negative duration")
			}
			return do(ctx)
		},
	}
}

// wanted returns the scenarios that -only asks for. A quick run proves that verdicts are right, and not that they are quick.
func (b *bench) wanted() (chosen []scenario) {
	for _, s := range scenarios() {
		if b.Wanted(s.name, "") {
			if b.Quick {
				s.p99 = 0
			}
			chosen = append(chosen, s)
		}
	}
	return chosen
}

// lines plays all scenarios with the line protocol and publishes what came of them. What is not complete is printed only.
func (b *bench) lines(ctx context.Context) error {
	var results []*result
	for _, s := range b.wanted() {
		r, err := b.play(ctx, s)
		if r != nil {
			results = append(results, r)
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			if len(results) > 0 {
				_, _ = fmt.Fprint(b.Stdout, b.report(results))
			}
			return fmt.Errorf("scenario %s: %w", s.name, err)
		}
	}
	if len(results) == 0 {
		return errors.New("-only: no scenario matches")
	}
	if err := b.Publish(ctx, "End to end", "e2e", b.report(results)); err != nil {
		return err
	}
	for _, r := range results {
		if !r.passed() {
			return errMissed
		}
	}
	return nil
}

// result is what came of a scenario.
type result struct {
	scenario

	servers int
	final   report.Final
	usage   usage
	// generator is the CPU time of holter loadgen and its workers.
	generator time.Duration
	// failed is why the scenario does not count as passed although the generator says so; nil if it does.
	failed error
}

func (r *result) passed() bool { return r.failed == nil && r.final.Outcome.Passed }

// restartSignal is sent by the generator at each signal of its scenario. After so many of them all servers have been restarted.
const (
	restartSignal = syscall.SIGUSR1
	restarts      = 3
)

// play plays one scenario against new servers.
func (b *bench) play(ctx context.Context, s scenario) (*result, error) {
	out := filepath.Join(b.Dir, s.name)
	if err := os.Mkdir(out, 0o700); err != nil {
		return nil, err
	}
	n := (b.connections + b.perServer - 1) / b.perServer
	b.Progress("%s: %d connections, %d servers", s.name, b.connections, n)
	m := newMeter()
	all, err := b.startServers(ctx, out, n)
	if err != nil {
		return nil, err
	}
	defer all.stop()
	rolling, end := context.WithCancel(ctx)
	rolled := make(chan error, 1) // room for its end
	signals := make(chan os.Signal, restarts)
	signal.Notify(signals, restartSignal)
	go func() { rolled <- all.roll(rolling, signals) }()
	args := append(b.arguments(s, out), "--on-signal", fmt.Sprintf("kill -%d %d", restartSignal, os.Getpid()))
	if s.p99 > 0 {
		args = append(args, "--max-latency-p99", s.p99.String())
	}
	for _, server := range all {
		args = append(args, "--target", server.Devices, "--verify", server.API)
	}
	r := &result{scenario: s, servers: n}
	err = b.generate(ctx, args, out, all, m, r)
	end()
	signal.Stop(signals)
	if err := errors.Join(err, <-rolled); err != nil {
		return nil, err
	}
	return r, nil
}

// startServers starts n servers without a broker, one after the other.
func (b *bench) startServers(ctx context.Context, out string, n int) (servers, error) {
	var all servers
	for i := range n {
		s, err := b.startServer(ctx, filepath.Join(out, fmt.Sprintf("server-%02d", i)), "off", max(1, runtime.NumCPU()/n))
		if err != nil {
			all.stop()
			return nil, fmt.Errorf("server %d of %d: %w", i+1, n, err)
		}
		all = append(all, s)
	}
	return all, nil
}

// startServer starts a server with a broker at mqtt or "off". A later Start uses the addresses that the first one got.
func (b *bench) startServer(ctx context.Context, path, mqtt string, procs int) (*serve.Server, error) {
	program, err := b.Holter(ctx)
	if err != nil {
		return nil, err
	}
	args := func(devices, http, mqtt string) []string {
		return []string{"serve", "--listen", devices, "--http", http, "--mqtt", mqtt, "--data", path, "--log-format", "json"}
	}
	s, err := serve.Holter(ctx, serve.Options{Program: program, Args: args(serve.AnyPort, serve.AnyPort, mqtt), Log: path + ".log", Procs: procs})
	if err == nil {
		s.Args = args(s.Devices, strings.TrimPrefix(s.API, "http://"), mqtt)
	}
	return s, err
}

// generate runs the generator to its end and reads its report.
func (b *bench) generate(ctx context.Context, args []string, out string, all servers, m *meter, r *result) error {
	program, err := b.Holter(ctx)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	cmd.Stdout, cmd.Stderr = b.Log, b.Log
	m.begin(all)
	if err := cmd.Start(); err != nil {
		return err
	}
	metered, end := context.WithCancel(ctx)
	var wg sync.WaitGroup
	every := 5 * time.Second
	if b.Quick {
		every = time.Second
	}
	wg.Go(func() { m.run(metered, every) })
	err = cmd.Wait()
	end()
	wg.Wait()
	r.usage, r.generator = m.usage, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited && ctx.Err() == nil {
		return fmt.Errorf("holter loadgen: %w", err)
	}
	if r.failed = all.err(); r.failed != nil {
		b.Progress("%v", r.failed)
	}
	if err := readFinal(filepath.Join(out, "report.json"), &r.final); err != nil {
		return fmt.Errorf("holter loadgen ended with status %d and left no report: %w", cmd.ProcessState.ExitCode(), err)
	}
	if status := cmd.ProcessState.ExitCode(); r.failed == nil && status != 0 && r.final.Outcome.Passed {
		r.failed = fmt.Errorf("holter loadgen ended with status %d", status)
	}
	return nil
}

// arguments is the part of the generator's command line that does not depend on the servers.
func (b *bench) arguments(s scenario, out string) []string {
	args := []string{
		"loadgen", "--scenario", s.name, "--connections", strconv.Itoa(b.connections), "--ramp", fmt.Sprintf("%g/s", b.ramp),
		"--interval", b.interval.String(), "--report", out,
	}
	if b.length > 0 {
		args = append(args, "--duration", b.length.String())
	}
	return args
}

func readFinal(name string, f *report.Final) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var head struct{ Schema string }
	if err := json.Unmarshal(text, &head); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if head.Schema != report.Schema {
		return fmt.Errorf("%s: it is a %q, want %q", name, head.Schema, report.Schema)
	}
	return json.Unmarshal(text, f)
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
