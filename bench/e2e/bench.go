package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/holter-iot/holter/bench/internal/png"
	"github.com/holter-iot/holter/loadgen/report"
)

// bench plays scenarios.
type bench struct {
	options

	dir string // for what need not be kept
	log *os.File
}

// result is what came of a scenario.
type result struct {
	scenario

	servers int
	final   report.Final
	usage   usage
	// generator is the CPU time of holter loadgen and its workers.
	generator time.Duration
	// failed is why it does not count as passed although the generator is content; nil if it does.
	failed error
}

func (r *result) passed() bool { return r.failed == nil && r.final.Outcome.Passed }

// measure plays all scenarios, one after the other. It returns what it has also with an error.
func (b *bench) measure(ctx context.Context) ([]*result, error) {
	var results []*result
	for _, s := range b.scenarios {
		r, err := b.play(ctx, s)
		if r != nil {
			results = append(results, r)
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return results, fmt.Errorf("scenario %s: %w", s.name, err)
		}
	}
	return results, nil
}

// restartSignal is sent by the generator at each signal of its scenario; after so many of them all servers have been restarted.
const (
	restartSignal = syscall.SIGUSR1
	restarts      = 3
)

// play plays one scenario against fresh servers.
func (b *bench) play(ctx context.Context, s scenario) (_ *result, err error) {
	dir, out := filepath.Join(b.dir, s.name), filepath.Join(b.out, s.name)
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.MkdirAll(out, 0o700)); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	n := (b.connections + b.perServer - 1) / b.perServer
	_, _ = fmt.Fprintf(b.log, "%s: %d connections, %d servers\n", s.name, b.connections, n)
	free := available()
	all, err := startServers(ctx, b.program, dir, out, n)
	if err != nil {
		return nil, err
	}
	defer all.stop()
	r := &result{scenario: s, servers: n}
	rolling, end := context.WithCancel(ctx)
	rolled := make(chan error, 1)
	signals := make(chan os.Signal, restarts)
	signal.Notify(signals, restartSignal)
	go func() { rolled <- all.roll(rolling, signals, restarts) }()
	generator, err := b.generate(ctx, b.arguments(s, all, out), all, free, r)
	end()
	signal.Stop(signals)
	if err = errors.Join(err, <-rolled); err != nil {
		return nil, err
	}
	r.failed = all.died()
	if r.failed != nil {
		_, _ = fmt.Fprintln(b.log, r.failed)
	}
	if err := readFinal(filepath.Join(out, "report.json"), &r.final); err != nil {
		return nil, fmt.Errorf("holter loadgen ended with status %d and left no report: %w", generator.ExitCode(), err)
	}
	if b.pictures != "" {
		_, err := png.WriteFiles(out, &r.final)
		r.failed = errors.Join(r.failed, err)
	}
	r.generator = generator.UserTime() + generator.SystemTime()
	if r.failed == nil && generator.ExitCode() != 0 && r.final.Outcome.Passed {
		r.failed = fmt.Errorf("holter loadgen ended with status %d", generator.ExitCode())
	}
	return r, nil
}

// generate runs the generator to its end. Its exit status is in what it returns, and no error.
func (b *bench) generate(ctx context.Context, args []string, all servers, free uint64, r *result) (*os.ProcessState, error) {
	meter := startMeter(all, free)
	cmd := command(ctx, b.program, args...)
	cmd.Stdout, cmd.Stderr = b.log, b.log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	metered, end := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { meter.run(metered, b.lookEvery()) })
	err := cmd.Wait()
	end()
	wg.Wait()
	r.usage = meter.usage
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok && ctx.Err() == nil {
		return nil, fmt.Errorf("holter loadgen: %w", err)
	}
	return cmd.ProcessState, nil
}

func (b *bench) lookEvery() time.Duration {
	if b.quick {
		return time.Second
	}
	return 5 * time.Second
}

// arguments is the generator's command line.
func (b *bench) arguments(s scenario, all servers, out string) []string {
	args := b.common(s, out)
	args = append(args, "--on-signal", fmt.Sprintf("kill -%d %d", restartSignal, os.Getpid()))
	if s.p99 > 0 {
		args = append(args, "--max-latency-p99", s.p99.String())
	}
	for _, server := range all {
		args = append(args, "--target", server.devices, "--verify", server.api)
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
