package mqtt

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holter-iot/holter/bench/internal/figures"
	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/mqtt/packet"
)

const (
	pingsPerSecond = 1000 // of all that ping during the storm
	// wantResident bounds the memory that a storm may cost a broker, in bytes.
	wantResident = 2 << 30
	lookEvery    = 100 * time.Millisecond // at its memory
)

// stormed is how a broker bore a storm.
type stormed struct {
	measured.Usage

	before, storm pinged
	copies        uint64
	published     uint64 // bytes that the broker took from the publisher
	quiet, peak   int    // resident bytes before, and most during the storm
	cut           int    // clients that were cut off
}

// storm has a publisher send as fast as it can to subscribers of everything, one of whom does not read, while others ping.
func (b *bench) storm(ctx context.Context, broker string) error {
	p, err := measured.Start(ctx, measured.Alone, b.Name(), broker, b.Dir)
	if err != nil {
		return err
	}
	defer p.Stop()
	pingers, err := newPingers(ctx, p.Addr, b.pinging, pingsPerSecond, packet.V5)
	if err != nil {
		return err
	}
	defer pingers.close()
	subscribers, err := newCrowd(ctx, p.Addr, b.stormy, kind{version: packet.V5, name: "subscriber", filter: "#"})
	if err != nil {
		return err
	}
	defer subscribers.close()
	var r stormed
	subscribers.handle = func(*client, packet.Header, []byte) { r.copies++ }
	subscribers.watch(subscribers.clients[0], 0)
	err = promptly(func() (err error) {
		r.before, err = pingers.ping(ctx, b.Length)
		return err
	})
	if err != nil {
		return err
	}
	if err := b.blow(ctx, p, subscribers, pingers, &r); err != nil {
		return err
	}
	r.cut = pingers.lost + subscribers.lost
	b.stormed[broker] = append(b.stormed[broker], r)
	b.Progress("  %s: %.0f copies/s, ping p99 %v before, %v during, peak %d MiB", broker, float64(r.copies)/r.Elapsed.Seconds(),
		at(r.before.trips, 0.99), at(r.storm.trips, 0.99), r.peak>>20)
	return nil
}

// blow lets the storm blow, while others ping.
func (b *bench) blow(ctx context.Context, p *measured.Process, subscribers *crowd, pingers *pingers, r *stormed) (err error) {
	publisher, err := newCrowd(ctx, p.Addr, 1, kind{version: packet.V5, name: "publisher"})
	if err != nil {
		return err
	}
	defer publisher.close()
	if r.quiet, err = measured.Resident(p.PID); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	calm, calmed := context.WithCancel(ctx)
	group.Go(func() (err error) {
		defer calmed()
		return promptly(func() (err error) {
			r.storm, err = pingers.ping(ctx, b.Length)
			return err
		})
	})
	group.Go(func() error { return watchMemory(calm, p.PID, r) })
	group.Go(func() (err error) {
		r.Usage, err = measured.During(func() error { return r.publish(ctx, publisher, subscribers, b.Length) }, p.PID)
		for err == nil && calm.Err() == nil { // what is on its way is still taken
			err = subscribers.poll(1)
		}
		return err
	})
	return group.Wait()
}

// publish publishes for a while as fast as the broker takes it.
func (r *stormed) publish(ctx context.Context, publisher, subscribers *crowd, length time.Duration) error {
	one := publisher.clients[0]
	out := packet.Out{Topic: "bench/storm", Payload: make([]byte, payloadSize)}
	var batch []byte
	for range 1000 {
		batch = out.Append(batch, packet.V5)
	}
	return subscribers.during(ctx, length, func(time.Time) {
		for ; len(one.out) < len(batch) && !one.closed; r.published += uint64(len(batch)) {
			publisher.send(one, batch)
			if one.waits {
				break
			}
		}
		_ = publisher.poll(0)
	})
}

// watchMemory notes the most memory that a process has in RAM, until ctx is done.
func watchMemory(ctx context.Context, pid int, r *stormed) error {
	for ctx.Err() == nil {
		n, err := measured.Resident(pid)
		if err != nil {
			return err
		}
		r.peak = max(r.peak, n)
		_ = run.Wait(ctx, lookEvery) // its end is no error here
	}
	return nil
}

func (b *bench) reportStorm() string {
	trip := func(title string, part float64, of func(stormed) []time.Duration) figures.Column[stormed] {
		return figures.Time(title, 2, time.Millisecond, func(r stormed) time.Duration { return at(of(r), part) })
	}
	before := func(r stormed) []time.Duration { return r.before.trips }
	storm := func(r stormed) []time.Duration { return r.storm.trips }
	table := figures.Table("broker", brokers(), b.stormed,
		trip("ping before, ms: p50", 0.5, before), trip("p99", 0.99, before),
		trip("in the storm: p50", 0.5, storm), trip("p99", 0.99, storm), trip("most", 1, storm),
		trip("sent late, p99", 0.99, func(r stormed) []time.Duration { return r.storm.late }),
		figures.Col("copies/s", 0, func(r stormed) float64 { return float64(r.copies) / r.Elapsed.Seconds() }),
		figures.Percent("busy", func(r stormed) float64 { return r.Share }), figures.Percent("generator", func(r stormed) float64 { return r.Driver }),
		figures.Col("resident before, MiB", 0, func(r stormed) float64 { return float64(r.quiet) / (1 << 20) }),
		figures.Col("most", 0, func(r stormed) float64 { return float64(r.peak) / (1 << 20) }),
		figures.Count("cut off", func(r stormed) int { return r.cut }))
	if table == "" {
		return ""
	}
	peak := 0
	for _, r := range b.stormed[holter] {
		peak = max(peak, r.peak)
	}
	return fmt.Sprintf("\n### A storm: one publisher as fast as the broker reads, %s subscribers of #, %s others ping\n\nOne of the subscribers does not read. "+
		"A ping takes from when it was due until its answer came; \"sent late\" is the generator's own share of that, which pings with a higher priority than it publishes and reads. %d pings per second in all.\n\n%s\n"+
		"Target for holter: at most %d MiB resident: %s.\n", figures.Grouped(b.stormy), figures.Grouped(b.pinging), pingsPerSecond, table,
		wantResident>>20, figures.Met(peak <= wantResident))
}

// at returns a part of sorted times: 0 is the shortest, 1 the longest.
func at(times []time.Duration, part float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	return times[int(part*float64(len(times)-1))]
}
