//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/holter-iot/holter/bench/internal/figures"
	"github.com/holter-iot/holter/internal/fleet"
)

const (
	crowdDevices = 19_000
	crowdTimeout = 15 * time.Second // at most
	victims      = 500              // that are reset, and as many that fall silent
	patience     = 3 * time.Second  // with verdicts
)

// crowd is what became of devices behind HAProxy.
type crowd struct {
	version           string
	timeout           time.Duration
	devices, behind   int // all, and those behind one process
	connected, beaten int // devices that were granted, and those whose heartbeats were answered
	due, judged       int // verdicts on devices that were ended one by one
	faults            string
	killed, mourned   int // devices behind the process that was killed, and verdicts on them in time
	reasons           map[string]int
}

func (c *crowd) good() bool {
	return c.connected == c.devices && c.beaten == c.devices && c.due == c.judged && c.faults == "" && c.killed == c.mourned
}

func (c *crowd) markdown() string {
	text := fmt.Sprintf("\n### Behind HAProxy\n\n%s devices by way of two processes of %s with PROXY headers of version 2: with 20,000 files for a process, and two for each "+
		"connection, one process of HAProxy has %s at most. They beat every %v with a timeout of %v.\n\n", figures.Grouped(c.devices), c.version, figures.Grouped(9900),
		c.interval(), c.timeout)
	text += "| | |\n|---|--:|\n"
	row := func(name, format string, args ...any) {
		text += "| " + name + " | " + fmt.Sprintf(format, args...) + " |\n"
	}
	row("connected and granted", "%d of %d", c.connected, c.devices)
	row("heartbeats answered", "%d of %d", c.beaten, c.devices)
	row("verdicts on devices that were reset or fell silent", "%d of %d", c.judged, c.due)
	row(fmt.Sprintf("verdicts within %v after one HAProxy was killed", closeGrace+patience), "%d of %d, %d of them because the connection was closed",
		c.mourned, c.killed, c.reasons[fleet.ReasonClosed])
	text += fmt.Sprintf("\nTarget: all, and no fault: %s.\n", figures.Met(c.good()))
	if c.faults != "" {
		text += "\n```\n" + c.faults + "```\n"
	}
	return text
}

// interval is that of heartbeats.
func (c *crowd) interval() time.Duration { return c.timeout / 3 }

// proxy is a running HAProxy.
type proxy struct {
	cmd  *exec.Cmd
	addr string
	out  bytes.Buffer // complete once it has ended
}

// startProxy starts one that passes connections on, from an address of its own.
func startProxy(ctx context.Context, dir, from, to string) (*proxy, error) {
	ports, err := freePorts(ctx, 1)
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

// behindHAProxy lets devices come by way of two HAProxy processes, ends some of them, and then one of the processes.
func behindHAProxy(ctx context.Context, o *options, dir string, log io.Writer) (*crowd, error) {
	version, err := exec.CommandContext(ctx, "haproxy", "-v").Output()
	if err != nil {
		_, _ = fmt.Fprintln(log, "haproxy is missing; it is left out:", err)
		return nil, nil // it is no error, and there is nothing
	}
	dir, err = os.MkdirTemp(dir, "haproxy-")
	if err != nil {
		return nil, err
	}
	c := &crowd{behind: o.scaled(crowdDevices) / 2, timeout: min(crowdTimeout, max(o.length, 3*time.Second))}
	c.devices = 2 * c.behind
	c.version = strings.Join(strings.Fields(string(version))[:3], " ")
	s, err := startServer(ctx, o.program, dir, c.devices+100)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	var proxies []*proxy
	var fleets []*fleet.Fleet
	for i := range 2 {
		p, err := startProxy(ctx, dir, fmt.Sprintf("127.0.2.%d", 1+i), s.Proxied)
		if err != nil {
			return nil, err
		}
		defer p.kill()
		f, err := fleet.New(fleet.Config{
			Addr: p.addr, Devices: c.behind, Prefix: fmt.Sprintf("behind-%d-%%05d", i), Token: token, TTL: c.timeout,
			Interval: c.interval(), Rate: 2000,
		})
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }() // its sockets end with the process at the latest
		proxies, fleets = append(proxies, p), append(fleets, f)
	}
	if err := wait(ctx, time.Second); err != nil { // HAProxy has to listen
		return nil, err
	}
	return c, c.play(ctx, s, fleets, proxies)
}

// play connects the devices and ends what is to be ended.
func (c *crowd) play(ctx context.Context, s *server, fleets []*fleet.Fleet, proxies []*proxy) error {
	var all sync.WaitGroup
	running, stop := context.WithCancel(ctx)
	errs := make([]error, len(fleets))
	connected := make(chan struct{}, len(fleets)) // one for each fleet
	for i, f := range fleets {
		all.Go(func() {
			errs[i] = f.Connect(running)
			connected <- struct{}{}
			if errs[i] == nil {
				errs[i] = f.Run(running)
			}
		})
	}
	defer all.Wait()
	defer stop()
	for range fleets {
		<-connected
	}
	if err := wait(ctx, 2*c.interval()); err != nil {
		return err
	}
	for _, f := range fleets {
		for _, d := range f.Truth() {
			if d.State == fleet.ConnOpen {
				c.connected++
			}
			if d.Answers > 0 {
				c.beaten++
			}
		}
	}
	some := min(victims, c.behind/4)
	for i := range some {
		if err := errors.Join(fleets[0].Do(i, fleet.Reset, time.Time{}), fleets[0].Do(some+i, fleet.Silent, time.Time{})); err != nil {
			return err
		}
	}
	if err := wait(ctx, c.timeout+patience); err != nil {
		return err
	}
	return c.judge(ctx, s, fleets, proxies)
}

// judge holds the verdicts against the truth, and kills the second HAProxy then.
func (c *crowd) judge(ctx context.Context, s *server, fleets []*fleet.Fleet, proxies []*proxy) error {
	events, err := fleet.Events(ctx, s.api())
	if err != nil {
		return err
	}
	truth := append(fleets[0].Truth(), fleets[1].Truth()...)
	r := fleet.Score(truth, events, fleet.Options{CloseGrace: closeGrace, MaxLag: patience, Until: time.Now()})
	c.due, c.judged = r.Due, r.Judged
	if !r.Clean() {
		c.faults = r.String()
	}
	proxies[1].kill()
	c.killed = c.behind
	if err := wait(ctx, closeGrace+patience); err != nil {
		return err
	}
	after, err := fleet.Events(ctx, s.api())
	if err != nil {
		return err
	}
	c.reasons = make(map[string]int)
	for i := range after[len(events):] {
		e := &after[len(events)+i]
		if e.Type == fleet.TypeOffline && strings.HasPrefix(e.Device, "behind-1-") {
			c.mourned++
			c.reasons[e.Reason]++
		}
	}
	return nil
}
