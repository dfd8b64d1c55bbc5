package mqtt

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"github.com/holter-iot/holter/bench/internal/figures"
	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/bench/internal/run"
)

const (
	perBatch   = 100    // messages of one write
	window     = 10_000 // messages on their way, at most: nothing has to be dropped
	warmup     = time.Second / 2
	publishers = 50 // connections: mosquitto reads one packet of each in turn

	wantRate  = 100_000 // messages per second that the bridge is to take on one core
	wantRatio = 0.9     // of what a client takes that only counts
)

// taken is how a subscriber took messages.
type taken struct {
	measured.Usage

	messages, lost uint64
}

// rate returns messages per second.
func (r taken) rate() float64 { return float64(r.messages) / r.Elapsed.Seconds() }

// perCPU returns messages per CPU second.
func (r taken) perCPU() float64 { return float64(r.messages) / r.CPU.Seconds() }

// relay measures how a subscriber takes messages by way of mosquitto.
func (b *bench) relay(ctx context.Context, subscriber string) error {
	server, err := measured.Start(ctx, measured.Beside, b.Name(), mosquitto, b.Dir, relays)
	if err != nil {
		return err
	}
	defer server.Stop()
	p, err := measured.Start(ctx, measured.Alone, b.Name(), subscriber, "tcp://"+server.Addr.String())
	if err != nil {
		return err
	}
	defer p.Stop()
	f := &feed{process: p, stream: prepare(b.devices), devices: b.devices}
	for i := range f.conns {
		if f.conns[i], err = new(net.Dialer).DialContext(ctx, "tcp", server.Addr.String()); err != nil {
			return err
		}
		defer f.conns[i].Close()
		// A client need not wait for the answer to its CONNECT (MQTT 3.1.1, section 3.1.4).
		if _, err := fmt.Fprintf(f.conns[i], "\x10\x0f\x00\x04MQTT\x04\x02\x00\x00\x00\x03p%02d", i); err != nil {
			return err
		}
	}
	r, err := f.measure(ctx, b.Length, server.PID)
	b.relayed[subscriber] = append(b.relayed[subscriber], r)
	return err
}

// prepare encodes a message of each device, in a random order that is always the same, in batches.
func prepare(devices int) (stream [][]byte) {
	const payload = `{"uptime":86400}`
	for batch := range slices.Chunk(rand.New(rand.NewPCG(1, 2)).Perm(devices), perBatch) {
		var packets []byte
		for _, i := range batch {
			topic := fmt.Sprintf("fleet/device-%06d/beat", i)
			packets = fmt.Appendf(packets, "\x30%c\x00%c%s%s", 2+len(topic)+len(payload), len(topic), topic, payload) // MQTT 3.1.1, section 3.3
		}
		stream = append(stream, packets)
	}
	return stream
}

// feed sends the messages of the devices again and again, as fast as a subscriber counts them.
type feed struct {
	process *measured.Process
	conns   [publishers]net.Conn
	stream  [][]byte
	devices int

	turn   int
	sent   uint64
	counts counts // of the subscriber, when it was asked last
}

func (f *feed) ask() error { return f.process.Ask(measured.Work, &f.counts) }

// run sends for a while, and until every device has sent once.
func (f *feed) run(ctx context.Context, length time.Duration) error {
	for end := time.Now().Add(length); f.turn < len(f.stream) || time.Now().Before(end); f.turn++ {
		if err := f.wait(ctx, window); err != nil {
			return err
		}
		batch := f.turn % len(f.stream)
		if _, err := f.conns[f.turn%publishers].Write(f.stream[batch]); err != nil {
			return err
		}
		f.sent += uint64(min(perBatch, f.devices-batch*perBatch))
	}
	return f.ask()
}

// wait waits until at most so many messages are on their way.
func (f *feed) wait(ctx context.Context, most uint64) error {
	for f.sent > f.counts.Applied+f.counts.Lost+most {
		if err := errors.Join(run.Wait(ctx, time.Millisecond), f.ask()); err != nil {
			return fmt.Errorf("of %d messages came %+v: %w", f.sent, f.counts, err)
		}
	}
	return nil
}

// measure feeds the subscriber for a while, after every device has been heard once.
func (f *feed) measure(ctx context.Context, length time.Duration, driver int) (r taken, err error) {
	if err := f.run(ctx, min(warmup, length)); err != nil {
		return r, err
	}
	begin := f.counts.Applied
	r.Usage, err = measured.During(func() error { return f.run(ctx, length) }, f.process.PID, driver)
	if err != nil {
		return r, err
	}
	r.messages = f.counts.Applied - begin
	err = f.wait(ctx, 0)
	r.lost = f.counts.Lost
	return r, err
}

func (b *bench) reportRelay() string {
	rate, perCPU := figures.Ratio("÷ paho", taken.rate, paho), figures.Ratio("messages per CPU s ÷ paho", taken.perCPU, paho)
	table := figures.Table("subscriber", []string{bridge, paho, pahoTuned}, b.relayed,
		figures.Col("messages/s", 0, taken.rate), rate, figures.Col("CPU s per million", 2, func(r taken) float64 { return 1e6 / r.perCPU() }), perCPU,
		figures.Percent("busy", func(r taken) float64 { return r.Share }), figures.Percent("driver", func(r taken) float64 { return r.Driver }),
		figures.Percent("others", func(r taken) float64 { return r.Others }), figures.Count("lost", func(r taken) int { return int(r.lost) }))
	if table == "" {
		return ""
	}
	met := func(c figures.Column[taken]) string {
		return figures.Met(figures.Median(c.Figures(b.relayed, bridge)) >= wantRatio)
	}
	return fmt.Sprintf("\n### Messages into the engine: by way of mosquitto, %s devices\n\n%s\n"+
		"Targets: the bridge at least %s messages/s: %s; bridge ÷ paho at least %.1f: %s; per CPU second: %s.\n", figures.Grouped(b.devices), table,
		figures.Grouped(wantRate), figures.Met(figures.Median(figures.Each(b.relayed[bridge], taken.rate)) >= wantRate), wantRatio, met(rate), met(perCPU))
}
