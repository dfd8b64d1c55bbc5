// Package mqtt measures the MQTT side of Holter.
//
// The measurement relay shows how fast the bridge takes messages of many devices by way of mosquitto, beside bare paho clients that only
// count them. The other measurements are of brokers, Holter's and others: idle shows what a connection takes of memory and a ping of CPU;
// in and out show how fast messages go from many publishers to one subscriber, and from one to many; silence shows how late it is noticed
// that clients fell silent; storm shows how long pings take while one publisher floods all subscribers.
//
// What is measured is a child process on a core of its own, with GOMAXPROCS=1; what drives it is on the other core, and so is mosquitto
// where it only relays. All take turns, round by round, and ratios are taken within a round. Linux only.
package mqtt

import (
	"context"
	"flag"
	"fmt"
	"time"

	mochi "github.com/mochi-mqtt/server/v2"

	"github.com/holter-iot/holter/bench/internal/cores"
	"github.com/holter-iot/holter/bench/internal/figures"
	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/bench/internal/serve"
)

const (
	// stepLife bounds how long what is measured may live, and with it each step of the measurements.
	stepLife   = 3 * time.Minute
	maxClients = 18_000 // near to the usual limit of 20,000 files
)

// bench runs the measurements and keeps their results, by the rows of their tables.
type bench struct {
	*run.Run

	devices    int // whose messages the bridge takes
	idling     int // clients that are idle
	idlingTLS  int // the same on TLS: fewer, since each costs a handshake
	flowing    int // publishers to one subscriber, and subscribers to one publisher
	clients    int // that fall silent
	keepAlives []time.Duration
	stormy     int // subscribers in the storm
	pinging    int // others that ping meanwhile

	relayed             map[string][]taken
	idled               map[string][]idle
	flowedIn, flowedOut map[string][]flowed
	silent              map[string][]silent
	stormed             map[string][]stormed
}

// Command returns the benchmark.
func Command() run.Command {
	b := &bench{
		devices: 100_000, idling: 10_000, idlingTLS: 5000, flowing: 1000, clients: 15_000, stormy: 10_000, pinging: 1000,
		keepAlives: []time.Duration{5 * time.Second, 7 * time.Second, 10 * time.Second},
		relayed:    make(map[string][]taken), idled: make(map[string][]idle), silent: make(map[string][]silent), stormed: make(map[string][]stormed),
		flowedIn: make(map[string][]flowed), flowedOut: make(map[string][]flowed),
	}
	return run.Command{
		Name: "mqtt", Help: "the bridge and the broker beside mosquitto and mochi", Rounds: 3, Seconds: 4,
		Names: "MEASUREMENT/SUBJECT, such as relay/bridge\n(relay with bridge, paho, paho-tuned; idle, in, out, silence and storm with mosquitto, mochi, holter)",
		Flags: func(f *flag.FlagSet) {
			f.IntVar(&b.devices, "devices", b.devices, "devices whose messages the bridge takes")
			f.IntVar(&b.clients, "clients", b.clients, "clients of each broker that fall silent")
		},
		Quick: func() {
			b.devices, b.clients, b.keepAlives = 1000, 100, []time.Duration{time.Second, 2 * time.Second}
			b.idling, b.idlingTLS, b.flowing, b.stormy, b.pinging = 100, 50, 50, 50, 20
		},
		Run:   b.run,
		Child: child,
	}
}

func (b *bench) run(ctx context.Context, r *run.Run) error {
	b.Run = r
	if b.clients < 1 || b.clients > maxClients || b.devices < 1 {
		return fmt.Errorf("want 1 to %d clients and 1 or more devices", maxClients)
	}
	if err := cores.Pin(cores.Driver); err != nil {
		return err
	}
	for round := range b.Rounds {
		if err := run.Turns(round, subjects(), func(s subject) error { return b.measure(ctx, s) }); err != nil {
			return err
		}
	}
	b.Note(serve.MosquittoVersion(ctx))
	b.Note("mochi " + mochi.Version)
	return b.Publish(ctx, "MQTT", "mqtt", "What is measured has core 0 to itself with GOMAXPROCS=1, what drives it has core 1; all take turns, round by "+
		"round, and ratios are taken within a round. Figures are medians, least and most in parentheses. \"Others\" is the time for which other programs "+
		"had one of the cores, in percent of a core; the kernel's own work is among it. "+brokerSettings+"\n"+b.reportRelay()+b.reportIdle()+
		b.reportFlow("Fan-in: "+figures.Grouped(b.flowing)+" publishers, one subscriber", flowAbout, b.flowedIn)+
		b.reportFlow("Fan-out: one publisher, "+figures.Grouped(b.flowing)+" subscribers", flowAbout, b.flowedOut)+
		b.reportSilence()+b.reportStorm())
}

// measure measures a subject, unless it is not wanted.
func (b *bench) measure(ctx context.Context, s subject) error {
	if !b.Wanted(s.measurement, s.name) {
		return nil
	}
	b.Progress("%s, %s", s.measurement, s.name)
	ctx, cancel := context.WithTimeout(ctx, stepLife)
	defer cancel()
	if err := s.measure(b, ctx, s.name); err != nil {
		return fmt.Errorf("%s, %s: %w", s.measurement, s.name, err)
	}
	return nil
}
