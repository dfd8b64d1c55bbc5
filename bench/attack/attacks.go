//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/holter-iot/holter/bench/internal/api"
	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/internal/cores"
	"github.com/holter-iot/holter/loadgen/drive"
	"github.com/holter-iot/holter/loadgen/plan"
)

const (
	prefix   = "dev-%06d" // of the established devices
	interval = time.Second
	timeout  = 5 * time.Second

	sampleEvery = 100 * time.Millisecond
)

// result is what one attack did.
type result struct {
	attack

	outcome         outcome
	length          time.Duration
	memory, most    int // bytes in RAM, before and at most
	cpu             float64
	before, during  *hdrhistogram.Histogram // round trips of the established devices
	refused         []string
	offline, cut    int // established devices judged, and closed
	alive, answered bool
	stall           time.Duration // of the machine, at worst
}

// good says whether nobody but the attacker was hurt.
func (r *result) good() bool { return r.alive && r.answered && r.offline == 0 && r.cut == 0 }

// worse is how much longer the round trips became.
func (r *result) worse() float64 {
	return float64(r.during.ValueAtQuantile(99)) / float64(max(r.before.ValueAtQuantile(99), 1))
}

// report is all that was measured.
type report struct {
	options options
	dir     string
	log     io.Writer
	results []*result
	haproxy *crowd
}

func (r *report) clean() bool {
	return !slices.ContainsFunc(r.results, func(res *result) bool { return !res.good() }) && (r.haproxy == nil || r.haproxy.good())
}

// attacks plays those that are wanted against one server.
func (r *report) attacks(ctx context.Context) (err error) {
	wanted := slices.DeleteFunc(attacks(), func(a attack) bool { return !r.options.only.MatchString(a.name) })
	if len(wanted) == 0 {
		return nil
	}
	if err := cores.Pin(othersCore); err != nil {
		return err
	}
	s, err := startServer(ctx, r.options.program, r.dir, r.options.devices+r.options.scaled(free))
	if err != nil {
		return err
	}
	defer s.stop()
	f, stop, err := play(ctx, &plan.Plan{
		Targets: []string{s.Line}, Devices: r.options.devices, ID: prefix, Token: token, Timeout: timeout, Interval: interval,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	b := battle{options: &r.options, server: s, fleet: f}
	for _, a := range wanted {
		res, err := b.attack(ctx, a)
		if err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
		r.results = append(r.results, res)
		_, _ = fmt.Fprintf(r.log, "%-12s %d done, %d failed; RTT p99 %d µs, before %d µs; %.0f MB, before %.0f MB; %.0f %% CPU; %d offline, %d cut, alive %v; refused: %s\n",
			a.name, res.outcome.Done, res.outcome.Failed, res.during.ValueAtQuantile(99), res.before.ValueAtQuantile(99),
			float64(res.most)/1e6, float64(res.memory)/1e6, 100*res.cpu, res.offline, res.cut, res.alive, strings.Join(res.refused, ", "))
		if !res.alive {
			return nil // the report says so
		}
	}
	return nil
}

// battle is a server with its established devices.
type battle struct {
	options *options
	server  *server
	fleet   *drive.Drive
	events  uint64 // the last one that was looked at
}

// attack measures a quiet time, and then an attack.
func (b *battle) attack(ctx context.Context, a attack) (*result, error) {
	r := &result{attack: a}
	_ = b.fleet.Stats() // begins new histograms
	if err := wait(ctx, b.options.rest); err != nil {
		return nil, err
	}
	begin := b.fleet.Stats()
	r.before = begin.RTT
	counted, err := b.server.counters(ctx)
	if err != nil {
		return nil, err
	}
	if r.memory, err = measured.Resident(b.server.cmd.Process.Pid); err != nil {
		return nil, err
	}
	used, err := cores.CPUTime(b.server.cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	w, at := cores.StartWitness(serverCore, othersCore), time.Now()
	err = b.play(ctx, r)
	r.length = time.Since(at)
	stall, witnessErr := w.Stop()
	if err = errors.Join(err, witnessErr); err != nil {
		return nil, err
	}
	r.stall, r.alive = stall, b.server.alive()
	if end, err := cores.CPUTime(b.server.cmd.Process.Pid); err == nil {
		r.cpu = (end - used).Seconds() / r.length.Seconds()
	}
	stats := b.fleet.Stats()
	r.during, r.cut = stats.RTT, int(stats.Lost-begin.Lost)
	b.judge(ctx, r, counted)
	return r, nil
}

// play lets a process of its own attack, and watches the server's memory.
func (b *battle) play(ctx context.Context, r *result) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	text, err := json.Marshal(order{b.server.target, r.name, b.options.length, b.options.scale})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, b.options.length+20*time.Second)
	defer cancel()
	var out, wrong bytes.Buffer
	cmd := exec.CommandContext(ctx, "nice", "-n", "10", self, playCommand, string(text)) // the devices come first
	cmd.Stdout, cmd.Stderr = &out, &wrong
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan error, 1) // room for its end
	go func() { done <- cmd.Wait() }()
	sample := time.NewTicker(sampleEvery)
	defer sample.Stop()
	for r.most = r.memory; ; {
		select {
		case err := <-done:
			if err != nil {
				return fmt.Errorf("the attacker: %w: %s", err, wrong.String())
			}
			return json.Unmarshal(out.Bytes(), &r.outcome)
		case <-sample.C:
			if n, err := measured.Resident(b.server.cmd.Process.Pid); err == nil {
				r.most = max(r.most, n)
			}
		}
	}
}

// judge finds out what became of the established devices, and what was refused.
func (b *battle) judge(ctx context.Context, r *result, before map[string]float64) {
	for {
		page, next, err := api.EventsAfter(ctx, b.server.client, b.server.api(), b.events)
		if err != nil {
			return // it does not answer
		}
		b.events = next
		for i := range page {
			if page[i].Type == api.TypeOffline && strings.HasPrefix(page[i].Device, "dev-") {
				r.offline++
			}
		}
		if len(page) == 0 {
			break
		}
	}
	after, err := b.server.counters(ctx)
	if err != nil {
		return
	}
	r.answered = true
	plain := []string{"accepted", "messages", "closed", "connections", "datagrams", "datagram_devices", "pace_factor", "duplicate_ids", "tls_handshakes", "tls_resumed"}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if n := after[name] - before[name]; n > 0 && !slices.Contains(plain, name) {
			r.refused = append(r.refused, fmt.Sprintf("%s %.0f", name, n))
		}
	}
}
