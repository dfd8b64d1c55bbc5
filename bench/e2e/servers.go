package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/holter-iot/holter/bench/internal/cores"
	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/bench/internal/serve"
	"github.com/holter-iot/holter/internal/loadgen/plan"
	"github.com/holter-iot/holter/internal/loadgen/report"
)

// target is what a scenario is played against.
type target struct {
	server  *serve.Server
	standby *serve.Server // nil without ears
	ears    []*serve.Server
	kills   victim
}

// startTarget starts a server, and its ears and their next judge. Those of an error have to be stopped, too.
func (b *bench) startTarget(ctx context.Context, program, out string, kills victim) (t target, err error) {
	t.kills = kills
	settings := filepath.Join(out, "holter.yaml")
	most := b.connections + b.connections/50 + 100 // who comes back may be there before the server has seen it leave
	if err := os.WriteFile(settings, fmt.Appendf(nil, "gateway: {max_connections: %d}\n", most), 0o600); err != nil {
		return t, err
	}
	options := func(name, web string, args ...string) serve.Options {
		args = append(args, "--node", name, "--http", web, "--log-format", "json", "--config", settings)
		return serve.Options{Program: program, Log: filepath.Join(out, name+".log"), Args: args}
	}
	serves := []string{"serve", "--mqtt", "off", "--data", filepath.Join(out, "data"), "--listen"}
	if b.ears == 0 {
		t.server, err = serve.Holter(ctx, options("server", serve.AnyPort, append(serves, b.port(serve.AnyPort))...))
		return t, err
	}
	link := func(name string) string { return "unix:" + filepath.Join(out, name+".link") }
	if t.server, err = serve.Holter(ctx, options("server", serve.AnyPort, append(serves, "off", "--link", link("server"))...)); err != nil {
		return t, err
	}
	ports, err := serve.FreePorts(ctx, 2)
	if err != nil {
		return t, err
	}
	if t.standby, err = serve.Program(ctx, options("standby", ports[1], append(serves, "off", "--link", link("standby"))...), ports[1]); err != nil {
		return t, err
	}
	t.standby.API = "http://" + ports[1]
	for i := range b.ears {
		name := fmt.Sprintf("ear-%d", i+1)
		e, err := serve.Ear(ctx, options(name, serve.AnyPort, "ear", "--mqtt", "off", "--judge", link("server"), "--judge", link("standby"),
			"--listen", b.port(ports[0]), "--reuse-port", "--drain-delay", "1ms")) // the devices are gone before it ends
		if err != nil {
			return t, fmt.Errorf("%s: %w", name, err)
		}
		t.ears = append(t.ears, e)
	}
	return t, nil
}

// port returns an address at which devices are listened for, with their protocol.
func (b *bench) port(address string) string {
	if b.mqtt() {
		return plan.MQTT + "://" + address
	}
	return b.protocol + "://" + address
}

// servers returns the server, and its standby.
func (t target) servers() (all []*serve.Server) {
	for _, s := range []*serve.Server{t.server, t.standby} {
		if s != nil {
			all = append(all, s)
		}
	}
	return all
}

// victim returns the process that is killed; nil if none is.
func (t target) victim() *serve.Server {
	switch t.kills {
	case judge:
		return t.server
	case anEar:
		return t.ears[len(t.ears)-1]
	case nobody:
	}
	return nil
}

// api returns the URL of a server that answers in the end.
func (t target) api() string {
	if t.kills == judge {
		return t.standby.API
	}
	return t.server.API
}

// stop ends all processes. The devices are gone, so the ears have nobody to lead elsewhere.
func (t target) stop() {
	var wg sync.WaitGroup
	for _, s := range t.ears {
		wg.Go(s.Stop)
	}
	wg.Wait()
	for _, s := range t.servers() {
		wg.Go(s.Stop)
	}
	wg.Wait()
}

// err returns why processes have ended that were not killed.
func (t target) err() (err error) {
	for _, s := range append(t.servers(), t.ears...) {
		if s != t.victim() {
			err = errors.Join(err, s.Err())
		}
	}
	return err
}

// devices is where devices connect.
func (t target) devices() string {
	s := t.server
	if len(t.ears) > 0 {
		s = t.ears[0]
	}
	return cmp.Or(s.Devices, s.MQTT)
}

// sum adds up what is read of processes. What a process of /proc no longer tells counts as nothing.
func sum[T int | time.Duration](all []*serve.Server, read func(pid int) (T, error)) (sum T) {
	for _, s := range all {
		one, _ := read(s.PID())
		sum += one
	}
	return sum
}

// usage is what was used of the machine while a scenario was played.
type usage struct {
	server    int           // bytes of memory of the server, at most
	ears      int           // of its ears together
	machine   int           // bytes that less was available on the whole machine than before, at most
	cpu       time.Duration // of the server,
	earsCPU   time.Duration // of its ears together,
	generator time.Duration // of holter loadgen and its workers,
	busy      time.Duration // and of all cores together, whatever used them
	elapsed   time.Duration
	moments   []moment
}

// moment is how much CPU time the server and its ears had used at an instant.
type moment struct {
	at           time.Time
	server, ears time.Duration
}

// watch looks every so often at the memory, until ctx ends. To read that of a server takes it some
// milliseconds.
func (u *usage) watch(ctx context.Context, t target, available int) {
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		now, _ := measured.Available()
		u.machine = max(u.machine, available-now)
		u.server = max(u.server, sum(t.servers(), measured.Proportional))
		u.ears = max(u.ears, sum(t.ears, measured.Proportional))
		u.moments = append(u.moments, moment{time.Now(), sum(t.servers(), cores.CPUTime), sum(t.ears, cores.CPUTime)})
		if ctx.Err() != nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// generate runs the generator to its end and reads its report. Before the target was started, so
// many bytes of memory were available.
func (b *bench) generate(ctx context.Context, program, out string, t target, available int, r *result) error {
	cmd := exec.CommandContext(ctx, program, b.arguments(r.scenario, out, t)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	cmd.Stdout, cmd.Stderr = b.Log, b.Log
	began, cpu, ears := time.Now(), sum(t.servers(), cores.CPUTime), sum(t.ears, cores.CPUTime)
	busy, _ := cores.BusyTime()
	var wg sync.WaitGroup
	watched, end := context.WithCancel(ctx)
	wg.Go(func() { r.usage.watch(watched, t, available) })
	err := cmd.Run()
	end()
	wg.Wait()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited && ctx.Err() == nil {
		return fmt.Errorf("holter loadgen: %w", err)
	}
	after, _ := cores.BusyTime()
	r.usage.elapsed, r.usage.busy = time.Since(began), after-busy
	r.usage.cpu, r.usage.earsCPU = sum(t.servers(), cores.CPUTime)-cpu, sum(t.ears, cores.CPUTime)-ears
	r.usage.generator = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	r.failed = t.err()
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
func (b *bench) arguments(s scenario, out string, t target) []string {
	args := []string{"loadgen", "--scenario", s.name}
	if s.file != "" {
		args[2] = filepath.Join(out, s.file)
	}
	if v := t.victim(); v != nil {
		args = append(args, "--on-signal", "kill -9 "+strconv.Itoa(v.PID()))
	}
	args = append(args, "--protocol", b.protocol, "--connections", strconv.Itoa(b.connections), "--ramp", "10000/s",
		"--interval", b.interval.String(), "--report", out,
	)
	if b.qos != pings {
		args = append(args, "--publish", beats, "--qos", strconv.Itoa(b.qos))
	}
	if b.length > 0 {
		args = append(args, "--duration", b.length.String())
	}
	if s.p99 > 0 && !b.Quick {
		args = append(args, "--max-latency-p99", s.p99.String())
	}
	return append(args, "--target", t.devices(), "--verify", t.api())
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
