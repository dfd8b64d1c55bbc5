//go:build linux

// Package replays proves that a replay tells the truth. A fleet of devices with real connections flaps, loses
// heartbeats, fails and returns against several servers with different timeouts at once, which are stopped
// now and then. One of them is asked what each of the other timeouts would have done. Its answer must be what
// the other servers did, verdict by verdict.
//
// All servers are played the same plan, which follows from a seed, so the true silences are known as well,
// and with them all verdicts and the availability of each device. No silence of the plan ends within half a
// second of a deadline: a server notices heartbeats and deadlines at instants that are up to 100 ms apart,
// so closer ones may go either way.
//
// The benchmark fails if anything differs. Linux only.
package replays

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holter-iot/holter/bench/internal/run"
)

var errDiffers = errors.New("a replay is not what happened")

// bench replays runs.
type bench struct {
	*run.Run

	devices int
	seed    uint64
	unit    float64
	stalls  []stall
	players []*player
	rows    []*row
	limit   time.Duration // from which silences were recorded
	share   float64       // by how much an availability differs from the plan at most
	wrong   []string
}

// Command returns the benchmark.
func Command() run.Command {
	b := &bench{devices: 150, seed: 1, unit: 1, stalls: []stall{{100 * time.Second, 6 * time.Second}, {220 * time.Second, 10 * time.Second}}}
	return run.Command{
		Name: "replay", Help: "what a replay says of other timeouts, beside servers that have them",
		Flags: func(f *flag.FlagSet) {
			f.IntVar(&b.devices, "devices", b.devices, "devices")
			f.Uint64Var(&b.seed, "seed", b.seed, "of the plan")
		},
		Quick: func() {
			b.devices, b.unit, b.stalls = 60, 0.15, []stall{{12 * time.Second, 3 * time.Second}, {30 * time.Second, 4 * time.Second}}
		},
		Run: func(ctx context.Context, r *run.Run) error {
			b.Run = r
			return b.measure(ctx)
		},
	}
}

// measure plays the plan, compares and publishes.
func (b *bench) measure(ctx context.Context) error {
	p := newPlan(b.seed, b.devices, b.unit, b.stalls)
	defer func() {
		for _, p := range b.players {
			p.server.Stop()
		}
	}()
	if err := b.start(ctx, p); err != nil {
		return err
	}
	b.Progress("%d devices and %d silences against %d servers, for %v", len(p.devices), len(p.silences), len(b.players), p.length)
	playing, end := context.WithCancel(ctx)
	defer end()
	var all errgroup.Group
	for _, p := range b.players {
		p.began = time.Now()
		all.Go(func() error { return p.play(playing) })
	}
	err := run.Wait(ctx, p.length+time.Second)
	if err == nil {
		err = b.compare(ctx, p)
	}
	end()
	if err = errors.Join(err, all.Wait()); err != nil {
		return err
	}
	return b.publish(ctx, p)
}

// start starts a server for each timeout.
func (b *bench) start(ctx context.Context, p *plan) error {
	program, err := b.Holter(ctx)
	if err != nil {
		return err
	}
	for _, timeout := range p.timeouts {
		s, err := startServer(ctx, program, filepath.Join(b.Dir, timeout.String()), &p.rules, timeout)
		if err != nil {
			return fmt.Errorf("start a server: %w", err)
		}
		b.players = append(b.players, &player{plan: p, server: s})
	}
	return nil
}

// compare asks all servers what they said, and the one that records what the others would have said. It ends
// that one, while its devices are still there, to read its records.
func (b *bench) compare(ctx context.Context, p *plan) error {
	var actual []verdicts
	for _, player := range b.players {
		v, err := player.real(ctx)
		if err != nil {
			return fmt.Errorf("read the verdicts of %v: %w", player.server.timeout, err)
		}
		actual = append(actual, v)
	}
	recorder := b.players[slices.Index(p.timeouts, p.recorded)]
	answer, err := recorder.ask(ctx, "")
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	if b.wrong, err = recorder.byDevice(ctx, actual); err != nil {
		return fmt.Errorf("replay of each device: %w", err)
	}
	if err := b.availability(ctx); err != nil {
		return fmt.Errorf("read the availability: %w", err)
	}
	recorder.ended.Store(true)
	recorder.server.Stop()
	records, err := recorder.read(ctx)
	if err != nil {
		return fmt.Errorf("read the records: %w", err)
	}
	b.limit = records.limit
	for i, timeout := range p.timeouts {
		r := p.compare(timeout, b.limit, p.planned(timeout), actual[i], records.replayed(timeout))
		r.answer = answer.Points[i]
		r.counted()
		b.rows = append(b.rows, r)
	}
	return nil
}

// availability asks the servers for the availability of each device.
func (b *bench) availability(ctx context.Context) error {
	for _, p := range b.players {
		worst, wrong, err := p.availability(ctx)
		if err != nil {
			return err
		}
		b.share = max(b.share, worst)
		for _, text := range wrong {
			b.wrong = append(b.wrong, fmt.Sprintf("timeout %v: %s", p.server.timeout, text))
		}
	}
	return nil
}
