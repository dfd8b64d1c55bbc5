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
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/holter-iot/holter/bench/internal/cores"
	"github.com/holter-iot/holter/bench/internal/figures"
	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/internal/loadgen/drive"
	"github.com/holter-iot/holter/internal/loadgen/plan"
	"github.com/holter-iot/holter/internal/loadgen/score"
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
}

// scaled returns a rate or a number of connections as it is to be played.
func scaled(n int, scale float64) int { return max(int(float64(n)*scale), 1) }

// Command returns the benchmark.
func Command() run.Command {
	b := &bench{devices: 2000, scale: 1}
	names := []string{haproxy}
	for _, w := range attacks() {
		names = append(names, w.name)
	}
	return run.Command{
		Name: "attack", Help: "holter serve under fourteen attacks, and behind HAProxy", Seconds: 60,
		Names: "\n" + strings.Join(names, ", "),
		Flags: func(f *flag.FlagSet) {
			f.IntVar(&b.devices, "devices", b.devices, "established devices, which beat every second")
			f.Float64Var(&b.scale, "scale", b.scale, "factor of the rates and numbers of connections")
		},
		Quick: func() { b.devices, b.scale = 100, 0.02 },
		Run:   func(ctx context.Context, r *run.Run) error { return b.run(ctx, r) },
		Child: attacker,
	}
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
	if err := b.behindHAProxy(ctx); err != nil {
		return fmt.Errorf("%s: %w", haproxy, err)
	}
	if err := b.Publish(ctx, "Under attack", "attack", b.report()); err != nil {
		return err
	}
	if slices.ContainsFunc(b.results, func(r *result) bool { return !r.good() }) {
		return errHurt
	}
	return nil
}

// result is what one attack did.
type result struct {
	way
	measured.Usage // of the server

	outcome        outcome
	memory, after  int                     // bytes in RAM, before and after
	before, during *hdrhistogram.Histogram // round trips of the established devices
	refused        []string
	offline, cut   int // established devices judged, and closed
	unanswered     int // their heartbeats that were not answered within 10 s
	missed         int // verdicts on devices that were ended, and other mistakes in these
	newcomers      newcomers
	alive          bool
	stall          time.Duration // of the machine, at worst
}

// good reports whether only the attacker was hurt.
func (r *result) good() bool { return r.alive && r.offline+r.cut+r.unanswered+r.missed == 0 }

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
	s, err := b.start(ctx, b.devices+scaled(places, b.scale))
	if err != nil {
		return err
	}
	defer s.Stop()
	d, err := play(ctx, s, &plan.Plan{
		Targets: []string{s.listeners["line"]}, Devices: b.devices, ID: prefix, Token: token, Timeout: timeout, Interval: interval,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	for _, w := range wanted {
		b.Progress("%s", w.name)
		r := &result{way: w}
		if err := b.measure(ctx, s, d, r, func(ctx context.Context) error { return b.play(ctx, s, r) }); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		if !r.alive {
			return nil // the report says so
		}
	}
	return nil
}

// measure measures a quiet time, and then what play does.
func (b *bench) measure(ctx context.Context, s *server, d *devices, r *result, play func(context.Context) error) error {
	b.results = append(b.results, r)
	_ = d.Stats() // begins new histograms
	if err := run.Wait(ctx, b.rest); err != nil {
		return err
	}
	before := d.Stats()
	counted, err := s.counters(ctx)
	if err != nil {
		return err
	}
	if r.memory, err = measured.Resident(s.PID()); err != nil {
		return err
	}
	var played error
	r.Usage, err = measured.During(func() error {
		coming, end := context.WithCancel(ctx)
		var all sync.WaitGroup
		all.Go(func() { r.newcomers.come(coming, s.listeners["line"]) })
		r.stall, played = cores.Witness(func() error { return play(ctx) })
		end()
		all.Wait()
		return played
	}, s.PID())
	if played != nil {
		return played
	}
	r.after, _ = measured.Resident(s.PID()) // none, if it ended
	during := d.Stats()
	r.before, r.during, r.cut = before.Histograms[drive.RTT], during.Histograms[drive.RTT], int(during.Lost-before.Lost)
	r.unanswered = int(during.Errors[drive.CauseUnanswered] - before.Errors[drive.CauseUnanswered])
	falsely := int(d.judge().Figures[score.FalseOffline].Count)
	r.offline, d.falsely = falsely-d.falsely, falsely
	after, silent := s.counters(ctx)
	r.alive = errors.Join(err, silent, s.Err()) == nil
	plain := []string{"accepted", "messages", "closed", "connections", "datagrams", "datagram_devices", "duplicate_ids", "tls_handshakes", "tls_resumed"}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if n := after[name] - counted[name]; n > 0 && !slices.Contains(plain, name) {
			r.refused = append(r.refused, fmt.Sprintf("%s %.0f", name, n))
		}
	}
	return nil
}

// play makes a process of its own attack.
func (b *bench) play(ctx context.Context, s *server, r *result) error {
	ctx, cancel := context.WithTimeout(ctx, b.Length+20*time.Second)
	defer cancel()
	text, err := json.Marshal(order{r.name, s.listeners[r.listener], b.Length, b.scale})
	if err != nil {
		return err
	}
	return measured.Call(ctx, measured.Behind, &r.outcome, b.Name(), string(text))
}

// report returns the table of attacks.
func (b *bench) report() string {
	results := make(map[string][]*result)
	var rows []string
	good, calm := true, true
	came, admitted := int64(0), int64(0)
	for _, r := range b.results {
		row := r.name + ": " + r.text
		rows = append(rows, row)
		results[row] = []*result{r}
		came, admitted = came+r.newcomers.came.Load(), admitted+r.newcomers.admitted.Load()
		good, calm = good && r.good(), calm && r.worse() <= wantWorse
	}
	text := func(title string, of func(*result) string) figures.Column[*result] {
		return figures.Text(title, func(_ string, rs []*result) string { return of(rs[0]) })
	}
	p99 := func(h *hdrhistogram.Histogram) float64 { return float64(h.ValueAtQuantile(99)) / 1000 }
	table := figures.Table("attack", rows, results,
		figures.Col("done/s", 0, func(r *result) float64 { return float64(r.outcome.Done) / r.Elapsed.Seconds() }),
		figures.Col("failed/s", 0, func(r *result) float64 { return float64(r.outcome.Failed) / r.Elapsed.Seconds() }),
		text("memory, MB before → after", func(r *result) string {
			return fmt.Sprintf("%.0f → %.0f", float64(r.memory)/1e6, float64(r.after)/1e6)
		}),
		figures.Col("CPU, % of a core", 0, func(r *result) float64 { return 100 * r.Share }),
		text("RTT p99, ms before → during", func(r *result) string { return fmt.Sprintf("%.2f → %.2f", p99(r.before), p99(r.during)) }),
		figures.Col("×", 1, (*result).worse),
		text("newcomers admitted", func(r *result) string {
			return fmt.Sprintf("%d of %d", r.newcomers.admitted.Load(), r.newcomers.came.Load())
		}),
		text("refused", func(r *result) string { return strings.Join(r.refused, ", ") }),
		figures.Count("false offline", func(r *result) int { return r.offline }), figures.Count("missed", func(r *result) int { return r.missed }),
		figures.Count("cut off", func(r *result) int { return r.cut }), figures.Count("unanswered", func(r *result) int { return r.unanswered }),
		text("alive", func(r *result) string { return map[bool]string{true: "yes", false: "**no**"}[r.alive] }),
		figures.Time("machine stalled, ms", 0, time.Millisecond, func(r *result) time.Duration { return r.stall }))
	if table == "" {
		return ""
	}
	return fmt.Sprintf("`holter serve` on one core; %s established devices that beat every %v with a timeout of %v, and the attacker, a process of a lower "+
		"priority, share the other one: round trips hold what they do to each other, too. Each attack goes on for %v after %v of rest, which is \"before\"; rates "+
		"and numbers × %g. \"Done\" and \"failed\" are the attacker's connections, or writes. What was refused are the gateway's own counters. Behind HAProxy the devices beat three times in their timeout, of %v at most.\n\n%s\n"+
		"Targets: none judged falsely, no verdict missed, none cut off, all heartbeats answered, server alive: %s; RTT p99 at most doubled in each: %s; 99 %% of newcomers with the right token admitted within %v: %s.\n",
		figures.Grouped(b.devices), interval, timeout, b.Length, b.rest, b.scale, proxiedTimeout, table, figures.Met(good), figures.Met(calm),
		admittedWithin, figures.Met(100*admitted >= 99*came))
}
