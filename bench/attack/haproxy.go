//go:build linux

package attack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/holter-iot/holter/bench/internal/figures"
	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/bench/internal/serve"
	"github.com/holter-iot/holter/loadgen/drive"
	"github.com/holter-iot/holter/loadgen/plan"
	"github.com/holter-iot/holter/loadgen/score"
)

const (
	proxiedDevices = 19_000
	proxiedTimeout = 15 * time.Second // at most
	ended          = 500              // that are reset, and as many that fall silent
	patience       = 3 * time.Second  // with verdicts
)

// proxied is what became of devices behind HAProxy.
type proxied struct {
	timeout             time.Duration
	devices             int // by way of two processes, half of them each
	connected, answered int // devices that were granted, and those whose heartbeats were answered
	due, judged         int // verdicts on devices that were ended one by one
	judgedKilled        int // verdicts on the devices behind the process that was killed, in time
	faults              []string
}

func (c *proxied) good() bool {
	return c.connected == c.devices && c.answered == c.devices && c.due == c.judged && c.judgedKilled == c.devices/2 && len(c.faults) == 0
}

// interval is that of heartbeats.
func (c *proxied) interval() time.Duration { return c.timeout / 3 }

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
	p, err := serve.Program(ctx, serve.Options{Program: "haproxy", Args: []string{"-db", "-f", file + ".cfg"}, Log: file + ".log"}, ports[0])
	return p, ports[0], err
}

// behindHAProxy connects devices by way of two HAProxy processes, ends some of them, and then one of the processes. Without HAProxy it
// does nothing.
func (b *bench) behindHAProxy(ctx context.Context) error {
	version, err := exec.CommandContext(ctx, "haproxy", "-v").Output()
	if err != nil {
		b.Progress("haproxy is left out: %v", err)
		return nil
	}
	b.Note(strings.Join(strings.Fields(string(version))[:3], " "))
	c := &proxied{devices: 2 * (scaled(proxiedDevices, b.scale) / 2), timeout: min(proxiedTimeout, max(b.Length, 3*time.Second))}
	b.proxied = c
	s, err := b.start(ctx, c.devices+100)
	if err != nil {
		return err
	}
	defer s.Stop()
	p := &plan.Plan{
		Devices: c.devices, ID: "behind-%05d", Token: token, Timeout: c.timeout, Interval: c.interval(), Grace: closeGrace, Ramp: 4000,
		Backoff: time.Hour, BackoffMax: time.Hour, // no device comes back
	}
	var last *serve.Server
	for _, from := range []string{"127.0.2.1", "127.0.2.2"} {
		proxy, at, err := b.startProxy(ctx, from, s.listeners["proxied"])
		if err != nil {
			return err
		}
		defer proxy.Stop()
		p.Targets, last = append(p.Targets, at), proxy
	}
	d, err := play(ctx, s, p)
	if err != nil {
		return err
	}
	return errors.Join(c.judge(ctx, d, last), d.stop())
}

// judge resets some devices, silences as many, checks the verdicts, and kills the HAProxy of the second half of the devices then.
func (c *proxied) judge(ctx context.Context, d *devices, second *serve.Server) error {
	begin := time.Now()
	if err := run.Wait(ctx, 2*c.interval()); err != nil {
		return err
	}
	c.connected = d.Stats().Welcomed
	for _, j := range d.Journals() {
		if slices.ContainsFunc(j.Signs, func(s drive.Sign) bool { return s.Granted == 0 && s.Answered != 0 }) {
			c.answered++
		}
	}
	c.due = 2 * min(ended, c.devices/8)
	for i := range c.due {
		kind := []plan.Kind{plan.Reset, plan.Silent}[i%2]
		if err := d.Order(drive.Order{Device: i, Step: plan.Step{At: time.Since(begin), Kind: kind}}); err != nil {
			return err
		}
	}
	if err := run.Wait(ctx, c.timeout+patience); err != nil {
		return err
	}
	r := d.judge()
	c.judged, c.faults = int(r.Right), score.Limits{}.Check(r)
	if n := d.Stats().Lost; n > 0 {
		c.faults = append(c.faults, fmt.Sprintf("%d connections were lost", n))
	}
	_ = syscall.Kill(second.PID(), syscall.SIGKILL)
	if err := run.Wait(ctx, closeGrace+patience); err != nil {
		return err
	}
	killed := d.judge() // a device may have sent a heartbeat to a process that was gone, which makes its verdict look false
	c.judgedKilled = int(killed.Right + killed.Figures[score.FalseOffline].Count - r.Right)
	return nil
}

// report returns the table; nil has none.
func (c *proxied) report() string {
	if c == nil {
		return ""
	}
	const row = "two of HAProxy"
	count := func(title string, n int) figures.Column[*proxied] {
		return figures.Count(title, func(*proxied) int { return n })
	}
	table := figures.Table("by way of", []string{row}, map[string][]*proxied{row: {c}},
		count("devices", c.devices), count("connected and granted", c.connected), count("heartbeats answered", c.answered),
		count("reset or silenced", c.due), count("right verdicts on these", c.judged), count("behind the one that was killed", c.devices/2),
		count(fmt.Sprintf("verdicts on these within %v", closeGrace+patience), c.judgedKilled))
	return fmt.Sprintf("\n### Behind HAProxy\n\nDevices by way of two processes of HAProxy with PROXY headers of version 2: with 20,000 files for a process, and two "+
		"for each connection, one of them has 9,900 at most. They beat every %v with a timeout of %v. One process is killed in the end.\n\n%s\n"+
		"Target: all, and no fault: %s.\n%s", c.interval(), c.timeout, table, figures.Met(c.good()), strings.Join(c.faults, "\n"))
}
