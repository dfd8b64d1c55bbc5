//go:build linux

// Package attack starts holter serve with a fleet of established devices and attacks it in one way after the other, over loopback, from a
// process of its own. It measures what that does to the established devices: their round trips before and meanwhile, false verdicts,
// closed connections; and what it costs the server. At last it puts two HAProxy processes before the server.
//
// Everything is bounded in time and number. The benchmark fails unless the server lived and no established device was judged or cut off.
// Linux only.
package attack

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/holter-iot/holter/bench/internal/api"
	"github.com/holter-iot/holter/bench/internal/cores"
	"github.com/holter-iot/holter/bench/internal/figures"
	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/loadgen/drive"
	"github.com/holter-iot/holter/loadgen/plan"
)

// errHurt is returned when an established device was judged or cut off, or the server died.
var errHurt = errors.New("an attack came through")

const (
	prefix   = "dev-%06d" // of the established devices
	interval = time.Second
	timeout  = 5 * time.Second

	// wantWorse is by what factor the round trips of the established devices may grow at their 99th percentile.
	wantWorse = 2.0
)

// bench runs the attacks and keeps what they did.
type bench struct {
	*run.Run

	rest    time.Duration // before each attack
	devices int           // established ones
	scale   float64       // factor of the rates and numbers of connections

	results []*result
	proxied *proxied
}

// scaled returns a number of the attacks as it is to be played.
func (b *bench) scaled(n int) int { return scaled(n, b.scale) }

func scaled(n int, scale float64) int { return max(int(float64(n)*scale), 1) }

// Command returns the benchmark.
func Command() run.Command {
	b := &bench{devices: 2000, scale: 1}
	return run.Command{
		Name: "attack", Help: "holter serve under eleven attacks, and behind HAProxy", Seconds: 60,
		Names: "\n" + strings.Join(names(), ", "),
		Flags: func(f *flag.FlagSet) {
			f.IntVar(&b.devices, "devices", b.devices, "established devices, which beat every second")
			f.Float64Var(&b.scale, "scale", b.scale, "factor of the rates and numbers of connections")
		},
		Quick: func() { b.devices, b.scale = 100, 0.02 },
		Run:   func(ctx context.Context, r *run.Run) error { return b.run(ctx, r) },
		Child: attacker,
	}
}

func names() []string {
	var all []string
	for _, a := range attacks() {
		all = append(all, a.name)
	}
	return append(all, "haproxy")
}

func (b *bench) run(ctx context.Context, r *run.Run) error {
	b.Run = r
	if b.Quick {
		b.Length = max(b.Length, time.Second)
	}
	b.rest = max(b.Length/6, 2*time.Second)
	if b.Length < time.Second || b.Length > 10*time.Minute || b.devices < 1 || b.devices > 5000 || b.scale <= 0 || b.scale > 1 {
		return errors.New("want 1 to 600 seconds, 1 to 5000 devices and a scale above 0, up to 1")
	}
	if err := errors.Join(b.attack(ctx), ctx.Err()); err != nil {
		return err
	}
	if b.Wanted("haproxy", "") {
		if err := b.behindHAProxy(ctx); err != nil {
			return fmt.Errorf("haproxy: %w", err)
		}
	}
	if err := b.Publish(ctx, "Under attack", "attack", b.report()); err != nil {
		return err
	}
	if slices.ContainsFunc(b.results, func(r *result) bool { return !r.good() }) || b.proxied != nil && !b.proxied.good() {
		return errHurt
	}
	return nil
}

// result is what one attack did.
type result struct {
	way

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

// good reports whether only the attacker was hurt.
func (r *result) good() bool { return r.alive && r.answered && r.offline == 0 && r.cut == 0 }

// worse returns by what factor the round trips grew.
func (r *result) worse() float64 {
	return float64(r.during.ValueAtQuantile(99)) / float64(max(r.before.ValueAtQuantile(99), 1))
}

// attack plays the attacks that are wanted against one server.
func (b *bench) attack(ctx context.Context) (err error) {
	wanted := slices.DeleteFunc(attacks(), func(w way) bool { return !b.Wanted(w.name, "") })
	if len(wanted) == 0 {
		return nil
	}
	if err := cores.Pin(cores.Driver); err != nil {
		return err
	}
	s, err := b.start(ctx, b.devices+b.scaled(places))
	if err != nil {
		return err
	}
	defer s.Stop()
	devices, stop, err := play(ctx, &plan.Plan{
		Targets: []string{s.Line}, Devices: b.devices, ID: prefix, Token: token, Timeout: timeout, Interval: interval,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	t := trial{bench: b, server: s, devices: devices}
	for _, w := range wanted {
		r, err := t.attack(ctx, w)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		b.results = append(b.results, r)
		b.Progress("%-12s %d done, %d failed; RTT p99 %d µs, before %d µs; %.0f MB, before %.0f MB; %.0f %% CPU; %d offline, %d cut, alive %v; refused: %s",
			w.name, r.outcome.Done, r.outcome.Failed, r.during.ValueAtQuantile(99), r.before.ValueAtQuantile(99),
			float64(r.most)/1e6, float64(r.memory)/1e6, 100*r.cpu, r.offline, r.cut, r.alive, strings.Join(r.refused, ", "))
		if !r.alive {
			return nil // the report says so
		}
	}
	return nil
}

// trial is a server with its established devices.
type trial struct {
	*bench

	server  *server
	devices *drive.Drive
	events  uint64 // the last one that was looked at
}

// attack measures a quiet time, and then an attack.
func (t *trial) attack(ctx context.Context, w way) (*result, error) {
	r := &result{way: w}
	_ = t.devices.Stats() // begins new histograms
	if err := run.Wait(ctx, t.rest); err != nil {
		return nil, err
	}
	begin := t.devices.Stats()
	r.before = begin.Histograms[drive.RTT]
	counted, err := t.server.counters(ctx)
	if err != nil {
		return nil, err
	}
	if r.memory, err = measured.Resident(t.server.PID()); err != nil {
		return nil, err
	}
	used, err := cores.CPUTime(t.server.PID())
	if err != nil {
		return nil, err
	}
	at := time.Now()
	if r.stall, err = cores.Witness(func() error { return t.play(ctx, r) }); err != nil {
		return nil, err
	}
	r.length, r.alive = time.Since(at), t.server.Err() == nil
	if end, err := cores.CPUTime(t.server.PID()); err == nil {
		r.cpu = (end - used).Seconds() / r.length.Seconds()
	}
	stats := t.devices.Stats()
	r.during, r.cut = stats.Histograms[drive.RTT], int(stats.Lost-begin.Lost)
	t.judge(ctx, r, counted)
	return r, nil
}

// play makes a process of its own attack, and watches the server's memory.
func (t *trial) play(ctx context.Context, r *result) error {
	ctx, cancel := context.WithTimeout(ctx, t.Length+20*time.Second)
	defer cancel()
	args, err := order{t.server.target, r.name, t.Length, t.scale}.args(t.Name())
	if err != nil {
		return err
	}
	done := make(chan error, 1) // room for the end of the attacker
	go func() { done <- measured.Call(ctx, measured.Behind, &r.outcome, args...) }()
	sample := time.NewTicker(100 * time.Millisecond)
	defer sample.Stop()
	for r.most = r.memory; ; {
		select {
		case err := <-done:
			return err
		case <-sample.C:
			if n, err := measured.Resident(t.server.PID()); err == nil {
				r.most = max(r.most, n)
			}
		}
	}
}

// judge finds out what became of the established devices, and what was refused.
func (t *trial) judge(ctx context.Context, r *result, before map[string]float64) {
	for {
		page, next, err := api.EventsAfter(ctx, t.server.client, t.events)
		if err != nil {
			return // it does not answer
		}
		t.events = next
		for i := range page {
			if page[i].Type == api.TypeOffline && strings.HasPrefix(page[i].Subject, "dev-") {
				r.offline++
			}
		}
		if len(page) == 0 {
			break
		}
	}
	after, err := t.server.counters(ctx)
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

// report returns all tables.
func (b *bench) report() string {
	return b.reportAttacks() + b.proxied.report()
}

func (b *bench) reportAttacks() string {
	results := make(map[string][]*result)
	var rows []string
	for _, r := range b.results {
		row := r.name + ": " + r.text
		rows = append(rows, row)
		results[row] = []*result{r}
	}
	text := func(title string, of func(*result) string) figures.Column[*result] {
		return figures.Text(title, func(_ string, rs []*result) string { return of(rs[0]) })
	}
	count := func(title string, of func(*result) int) figures.Column[*result] { return figures.Count(title, of) }
	p99 := func(h *hdrhistogram.Histogram) float64 { return float64(h.ValueAtQuantile(99)) / 1000 }
	table := figures.Table("attack", rows, results,
		figures.Col("done/s", 0, func(r *result) float64 { return float64(r.outcome.Done) / r.length.Seconds() }),
		figures.Col("failed/s", 0, func(r *result) float64 { return float64(r.outcome.Failed) / r.length.Seconds() }),
		text("memory, MB before → most", func(r *result) string {
			return fmt.Sprintf("%.0f → %.0f", float64(r.memory)/1e6, float64(r.most)/1e6)
		}),
		figures.Col("CPU, % of a core", 0, func(r *result) float64 { return 100 * r.cpu }),
		text("RTT p99, ms before → during", func(r *result) string { return fmt.Sprintf("%.2f → %.2f", p99(r.before), p99(r.during)) }),
		figures.Col("×", 1, (*result).worse),
		text("refused", func(r *result) string { return strings.Join(r.refused, ", ") }),
		count("false offline", func(r *result) int { return r.offline }), count("cut off", func(r *result) int { return r.cut }),
		text("alive", func(r *result) string { return map[bool]string{true: "yes", false: "**no**"}[r.alive && r.answered] }),
		figures.Time("machine stalled, ms", 0, time.Millisecond, func(r *result) time.Duration { return r.stall }))
	if table == "" {
		return ""
	}
	all := !slices.ContainsFunc(b.results, func(r *result) bool { return !r.good() })
	calm := !slices.ContainsFunc(b.results, func(r *result) bool { return r.worse() > wantWorse })
	return fmt.Sprintf("`holter serve` on one core; %s established devices that beat every %v with a timeout of %v, and the attacker, a process of a lower "+
		"priority, share the other one: round trips hold what they do to each other, too. Each attack goes on for %v after %v of rest, which is \"before\"; rates "+
		"and numbers × %g. \"Done\" and \"failed\" are the attacker's connections, or writes. What was refused are the gateway's own counters.\n\n%s\n"+
		"Targets: none judged, none cut off, server alive: %s; RTT p99 at most doubled in each: %s.\n",
		figures.Grouped(b.devices), interval, timeout, b.Length, b.rest, b.scale, table, figures.Met(all), figures.Met(calm))
}
