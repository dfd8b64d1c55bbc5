//go:build linux

package attack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/holter-iot/holter/bench/internal/figures"
	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/bench/internal/serve"
	"github.com/holter-iot/holter/internal/loadgen/drive"
	"github.com/holter-iot/holter/internal/loadgen/plan"
	"github.com/holter-iot/holter/internal/loadgen/score"
)

const (
	haproxy        = "haproxy"
	proxiedDevices = 19_000           // with 20,000 files for a process, and two for each connection, an HAProxy has 9,900 at most
	proxiedTimeout = 15 * time.Second // at most
	ended          = 1000             // of them are reset or fall silent
)

// startProxy starts an HAProxy that forwards connections from an address of its own, and returns where it listens.
func (b *bench) startProxy(ctx context.Context, from, to string) (*serve.Server, string, error) {
	ports, err := serve.FreePorts(ctx, 1)
	if err != nil {
		return nil, "", err
	}
	file := filepath.Join(b.Dir, "haproxy-"+from)
	text := fmt.Sprintf("global\n  maxconn 9700\n  nbthread 1\ndefaults\n  mode tcp\n  timeout connect 5s\n  timeout client 1h\n  timeout server 1h\n"+
		"listen devices\n  bind %s backlog 4096\n  maxconn 9700\n  source %s\n  server holter %s send-proxy-v2\n", ports[0], from, to)
	if err := os.WriteFile(file+".cfg", []byte(text), 0o600); err != nil {
		return nil, "", err
	}
	p, err := serve.Program(ctx, serve.Options{Program: haproxy, Args: []string{"-db", "-f", file + ".cfg"}, Log: file + ".log"}, ports[0])
	return p, ports[0], err
}

// behindHAProxy connects devices by way of two HAProxy processes, ends some of them, and then one of the processes. Without HAProxy it
// does nothing.
func (b *bench) behindHAProxy(ctx context.Context) (err error) {
	if !b.Wanted(haproxy, "") {
		return nil
	}
	version, err := exec.CommandContext(ctx, haproxy, "-v").Output()
	if err != nil {
		b.Progress("haproxy is left out: %v", err)
		return nil
	}
	b.Note(strings.Join(strings.Fields(string(version))[:3], " "))
	limit := min(proxiedTimeout, max(b.Length, 3*time.Second))
	p := &plan.Plan{
		Devices: 2 * scaled(proxiedDevices/2, b.scale), ID: "behind-%05d", Token: token, Timeout: limit, Interval: limit / 3, Grace: closeGrace, Ramp: 4000,
		Backoff: time.Hour, BackoffMax: time.Hour, // no device comes back
	}
	s, err := b.start(ctx, p.Devices+100)
	if err != nil {
		return err
	}
	defer s.Stop()
	var second *serve.Server
	for _, from := range []string{"127.0.2.1", "127.0.2.2"} {
		proxy, at, err := b.startProxy(ctx, from, s.listeners["proxied"])
		if err != nil {
			return err
		}
		defer proxy.Stop()
		p.Targets, second = append(p.Targets, at), proxy
	}
	d, err := play(ctx, s, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	return b.endHalf(ctx, s, d, second, p)
}

// endHalf ends some devices one by one, and then all of the second half with their HAProxy.
func (b *bench) endHalf(ctx context.Context, s *server, d *devices, second *serve.Server, p *plan.Plan) error {
	half := p.Devices / 2
	due := min(ended, half/2)
	r := &result{way: way{name: haproxy, text: fmt.Sprintf("%s devices by way of two processes with PROXY headers; %s of them are reset or fall silent, "+
		"and then the %s behind one process lose it", figures.Grouped(p.Devices), figures.Grouped(due), figures.Grouped(half))}}
	if err := b.measure(ctx, s, d, r, func(ctx context.Context) error { return d.end(ctx, due, p.Timeout+patience) }); err != nil {
		return err
	}
	before := d.judge()
	for _, mistake := range (score.Limits{}).Check(before) {
		b.Progress("haproxy: %s", mistake)
		r.missed++
	}
	_ = syscall.Kill(second.PID(), syscall.SIGKILL)
	if err := run.Wait(ctx, closeGrace+patience); err != nil {
		return err
	}
	after := d.judge() // a device may have sent a heartbeat to a process that was gone, which makes its verdict look false
	r.missed += due + half - int(after.Right+after.Figures[score.FalseOffline].Count)
	return nil
}

// end resets some devices, silences as many, and waits.
func (d *devices) end(ctx context.Context, n int, wait time.Duration) error {
	for i := range n {
		kind := []plan.Kind{plan.Reset, plan.Silent}[i%2]
		if err := d.Order(drive.Order{Device: i, Step: plan.Step{Kind: kind}}); err != nil {
			return err
		}
	}
	return run.Wait(ctx, wait)
}
