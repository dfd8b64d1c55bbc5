package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/holter-iot/holter/bench/internal/cores"
	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/bench/internal/serve"
	"github.com/holter-iot/holter/loadgen/report"
)

// servers are all of one scenario.
type servers []*serve.Server

// startServers starts n servers for so many devices each, one after the other. Those of an error have
// to be stopped, too.
func startServers(ctx context.Context, program, out string, n, devices int) (all servers, err error) {
	settings := filepath.Join(out, "holter.yaml")
	most := devices + devices/50 + 100 // who comes back may be there before the server has seen it leave
	if err := os.WriteFile(settings, fmt.Appendf(nil, "gateway: {max_connections: %d}\n", most), 0o600); err != nil {
		return nil, err
	}
	for i := range n {
		path := filepath.Join(out, fmt.Sprintf("server-%02d", i))
		s, err := serve.Holter(ctx, serve.Options{
			Program: program, Log: path + ".log", Procs: max(1, runtime.NumCPU()/n),
			Args: []string{
				"serve", "--listen", serve.AnyPort, "--http", serve.AnyPort, "--mqtt", "off", "--data", path, "--log-format", "json", "--config", settings,
			},
		})
		if err != nil {
			return all, fmt.Errorf("server %d of %d: %w", i+1, n, err)
		}
		all = append(all, s)
	}
	return all, nil
}

// stop ends all servers.
func (all servers) stop() {
	var wg sync.WaitGroup
	for _, s := range all {
		wg.Go(s.Stop)
	}
	wg.Wait()
}

// sum adds up what is read of all processes. What a process of /proc no longer tells counts as nothing.
func sum[T int | time.Duration](all servers, read func(pid int) (T, error)) (sum T) {
	for _, s := range all {
		one, _ := read(s.PID())
		sum += one
	}
	return sum
}

// usage is what was used of the machine while a scenario was played.
type usage struct {
	servers   int           // bytes of memory of all servers together, at most
	machine   int           // bytes that less was available on the whole machine than before, at most
	cpu       time.Duration // of all servers,
	generator time.Duration // of holter loadgen and its workers,
	busy      time.Duration // and of all cores together, whatever used them
	elapsed   time.Duration
}

// watch looks every so often at the memory, until ctx ends. To read that of a server takes it some
// milliseconds.
func (u *usage) watch(ctx context.Context, all servers, available int) {
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		now, _ := measured.Available()
		u.machine = max(u.machine, available-now)
		u.servers = max(u.servers, sum(all, measured.Proportional))
		if ctx.Err() != nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// generate runs the generator to its end and reads its report. Before the servers were started, so
// many bytes of memory were available.
func (b *bench) generate(ctx context.Context, program, out string, all servers, available int, r *result) error {
	cmd := exec.CommandContext(ctx, program, b.arguments(r.scenario, out, all)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	cmd.Stdout, cmd.Stderr = b.Log, b.Log
	began, cpu := time.Now(), sum(all, cores.CPUTime)
	busy, _ := cores.BusyTime()
	var wg sync.WaitGroup
	watched, end := context.WithCancel(ctx)
	wg.Go(func() { r.usage.watch(watched, all, available) })
	err := cmd.Run()
	end()
	wg.Wait()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited && ctx.Err() == nil {
		return fmt.Errorf("holter loadgen: %w", err)
	}
	after, _ := cores.BusyTime()
	r.usage.elapsed, r.usage.busy, r.usage.cpu = time.Since(began), after-busy, sum(all, cores.CPUTime)-cpu
	r.usage.generator = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	for _, server := range all {
		r.failed = errors.Join(r.failed, server.Err())
	}
	return r.read(out, cmd.ProcessState.ExitCode())
}

// read reads the report of a generator that ended with a status.
func (r *result) read(out string, status int) error {
	if err := readFinal(filepath.Join(out, report.JSONFile), &r.final); err != nil {
		return fmt.Errorf("holter loadgen ended with status %d and left no report: %w", status, err)
	}
	if r.failed == nil && status != 0 && r.final.Outcome.Passed {
		r.failed = fmt.Errorf("holter loadgen ended with status %d", status)
	}
	r.digest()
	return nil
}

// arguments is the generator's command line. A quick run proves that verdicts are right, and not that
// they are quick.
func (b *bench) arguments(s scenario, out string, all servers) []string {
	args := []string{
		"loadgen", "--scenario", s.name, "--connections", strconv.Itoa(b.connections), "--ramp", "10000/s",
		"--interval", b.interval.String(), "--report", out,
	}
	if b.length > 0 {
		args = append(args, "--duration", b.length.String())
	}
	if s.p99 > 0 && !b.Quick {
		args = append(args, "--max-latency-p99", s.p99.String())
	}
	for _, server := range all {
		args = append(args, "--target", server.Devices, "--verify", server.API)
	}
	return args
}

func readFinal(name string, f *report.Final) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	all := struct {
		*report.Final

		Schema string
	}{Final: f}
	if err = json.Unmarshal(text, &all); err == nil && all.Schema != report.Schema {
		err = fmt.Errorf("it is a %q, want %q", all.Schema, report.Schema)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
