//go:build linux

package attack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holter-iot/holter/bench/internal/api"
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
	version              string
	timeout              time.Duration
	devices, behind      int // all, and those behind one process
	connected, answered  int // devices that were granted, and those whose heartbeats were answered
	due, judged          int // verdicts on devices that were ended one by one
	faults               string
	killed, judgedKilled int // devices behind the process that was killed, and verdicts on them in time
	reasons              map[string]int
}

func (c *proxied) good() bool {
	return c.connected == c.devices && c.answered == c.devices && c.due == c.judged && c.faults == "" && c.killed == c.judgedKilled
}

// report returns the table; nil has none.
func (c *proxied) report() string {
	if c == nil {
		return ""
	}
	text := fmt.Sprintf("\n### Behind HAProxy\n\n%s devices by way of two processes of %s with PROXY headers of version 2: with 20,000 files for a process, and two for each "+
		"connection, one process of HAProxy has %s at most. They beat every %v with a timeout of %v.\n\n", figures.Grouped(c.devices), c.version, figures.Grouped(9900),
		c.interval(), c.timeout)
	text += "| | |\n|---|--:|\n"
	row := func(name, format string, args ...any) {
		text += "| " + name + " | " + fmt.Sprintf(format, args...) + " |\n"
	}
	row("connected and granted", "%d of %d", c.connected, c.devices)
	row("heartbeats answered", "%d of %d", c.answered, c.devices)
	row("verdicts on devices that were reset or fell silent", "%d of %d", c.judged, c.due)
	row(fmt.Sprintf("verdicts within %v after one HAProxy was killed", closeGrace+patience), "%d of %d, %d of them because the connection was closed",
		c.judgedKilled, c.killed, c.reasons[api.ReasonClosed])
	text += fmt.Sprintf("\nTarget: all, and no fault: %s.\n", figures.Met(c.good()))
	if c.faults != "" {
		text += "\n```\n" + c.faults + "```\n"
	}
	return text
}

// interval is that of heartbeats.
func (c *proxied) interval() time.Duration { return c.timeout / 3 }

// proxy is a running HAProxy.
type proxy struct {
	cmd  *exec.Cmd
	addr string
	out  bytes.Buffer // complete once it has ended
}

// startProxy starts an HAProxy that forwards connections from an address of its own.
func startProxy(ctx context.Context, dir, from, to string) (*proxy, error) {
	ports, err := serve.FreePorts(ctx, 1)
	if err != nil {
		return nil, err
	}
	p := &proxy{addr: ports[0]}
	file := filepath.Join(dir, "haproxy-"+from+".cfg")
	text := fmt.Sprintf("global\n  maxconn 9700\n  nbthread 1\ndefaults\n  mode tcp\n  timeout connect 5s\n  timeout client 1h\n  timeout server 1h\n"+
		"listen devices\n  bind %s backlog 4096\n  maxconn 9700\n  source %s\n  server holter %s send-proxy-v2\n", p.addr, from, to)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	p.cmd = exec.CommandContext(ctx, "haproxy", "-db", "-f", file)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	return p, p.cmd.Start()
}

// kill kills it and waits. It may be called more than once.
func (p *proxy) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // it was killed
}

// behindHAProxy connects devices by way of two HAProxy processes, ends some of them, and then one of the processes. Without HAProxy it
// does nothing.
func (b *bench) behindHAProxy(ctx context.Context) error {
	version, err := exec.CommandContext(ctx, "haproxy", "-v").Output()
	if err != nil {
		b.Progress("haproxy is left out: %v", err)
		return nil
	}
	c := &proxied{behind: b.scaled(proxiedDevices) / 2, timeout: min(proxiedTimeout, max(b.Length, 3*time.Second))}
	b.proxied = c
	c.devices = 2 * c.behind
	c.version = strings.Join(strings.Fields(string(version))[:3], " ")
	s, err := b.start(ctx, c.devices+100)
	if err != nil {
		return err
	}
	defer s.Stop()
	var proxies []*proxy
	var targets []string
	for i := range 2 {
		p, err := startProxy(ctx, b.Dir, fmt.Sprintf("127.0.2.%d", 1+i), s.Proxied)
		if err != nil {
			return err
		}
		defer p.kill()
		proxies, targets = append(proxies, p), append(targets, p.addr)
	}
	if err := run.Wait(ctx, time.Second); err != nil { // HAProxy has to listen
		return err
	}
	devices := &plan.Plan{
		Targets: targets, Devices: c.devices, ID: "behind-%05d", Token: token, Timeout: c.timeout, Interval: c.interval(), Grace: closeGrace, Ramp: 4000,
		Backoff: time.Hour, BackoffMax: time.Hour, // no device comes back
	}
	return c.play(ctx, s, devices, proxies)
}

// end resets the connections of some devices, and silences the other ones that are to be judged.
func (c *proxied) end(d *drive.Drive, some int, at time.Duration) error {
	for i := range c.due {
		o := drive.Order{Device: i, Step: plan.Step{At: at, Kind: plan.Reset}}
		if i >= some {
			o.Kind = plan.Silent
		}
		if err := d.Order(o); err != nil {
			return err
		}
	}
	return nil
}

// play connects the devices, ends some, checks the verdicts, and kills the second HAProxy then.
func (c *proxied) play(ctx context.Context, s *server, devices *plan.Plan, proxies []*proxy) (err error) {
	judged := *devices // of its own: verdicts come while the devices' plan is being completed
	judged.Fill()
	scored, err := score.New(&judged, score.Options{Slack: patience})
	if err != nil {
		return err
	}
	follower, err := score.NewHTTP(score.HTTPConfig{URL: s.api(), Oldest: true})
	if err != nil {
		return err
	}
	following, unfollow := context.WithCancel(ctx)
	var followed errgroup.Group
	followed.Go(func() error { return follower.Follow(following, scored.Verdict) })
	defer func() { unfollow(); err = errors.Join(err, followed.Wait()) }()
	d, stop, err := play(ctx, devices)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
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
	some := min(ended, c.behind/4)
	c.due = 2 * some
	if err := c.end(d, some, time.Since(begin)); err != nil {
		return err
	}
	if err := run.Wait(ctx, c.timeout+patience); err != nil {
		return err
	}
	c.judge(scored, d)
	proxies[1].kill()
	c.killed = c.behind
	if err := run.Wait(ctx, closeGrace+patience); err != nil {
		return err
	}
	events, err := api.Events(ctx, s.client, s.api())
	if err != nil {
		return err
	}
	c.reasons = make(map[string]int)
	for i := range events {
		e := &events[i]
		if n, ok := devices.Number(e.Device); ok && n >= c.behind && e.Type == api.TypeOffline {
			c.judgedKilled++
			c.reasons[e.Reason]++
		}
	}
	return nil
}

// judge checks the verdicts so far against what was done to the devices.
func (c *proxied) judge(scored *score.Score, d *drive.Drive) {
	until := time.Now()
	losts := 0
	for _, t := range d.Truths() {
		scored.Add(t)
		if t.Kind == plan.Lost {
			losts++
		}
	}
	r := scored.Finish(until)
	c.judged = int(r.Right)
	if failures := (score.Limits{}).Check(r); len(failures) > 0 || losts > 0 {
		c.faults = fmt.Sprintf("%d connections were lost\n%s\n", losts, strings.Join(failures, "\n"))
	}
}
