// Package mqtt measures the MQTT side of Holter.
//
// The measurement relay shows how fast the bridge takes messages of many devices by way of mosquitto, beside a bare paho client that only
// counts them. The measurements apart and at-once show how late brokers notice that clients fell silent, one after the other or all at
// one instant, and what a connection takes of memory and a ping of CPU.
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
	"github.com/holter-iot/holter/bench/internal/measured"
	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/bench/internal/serve"
)

const (
	// stepLife bounds how long what is measured may live, and with it each step of the measurements.
	stepLife   = 3 * time.Minute
	maxClients = 18_000 // near to the usual limit of 20,000 files
)

// The measurements.
const (
	relay  = "relay"
	apart  = "apart"
	atOnce = "at-once"
)

// bench runs the measurements and keeps their results, by what was measured.
type bench struct {
	*run.Run

	devices   int           // whose messages the bridge takes
	clients   int           // of the brokers
	odd, even time.Duration // keep alive of every other client, and of the others

	stream  [][]byte // of the devices' messages
	relayed map[string][]taken
	silence map[string]map[string][]silence // by measurement
}

// Command returns the benchmark.
func Command() run.Command {
	b := &bench{
		devices: 100_000, clients: 15_000, odd: 5 * time.Second, even: 10 * time.Second,
		relayed: make(map[string][]taken), silence: map[string]map[string][]silence{apart: {}, atOnce: {}},
	}
	return run.Command{
		Name: "mqtt", Help: "the bridge and the broker beside mosquitto and mochi", Rounds: 3, Seconds: 4,
		Names: "MEASUREMENT/SUBJECT, such as relay/bridge\n(relay with bridge, paho, paho-tuned; apart and at-once with mosquitto, mochi, holter)",
		Flags: func(f *flag.FlagSet) {
			f.IntVar(&b.devices, "devices", b.devices, "devices whose messages the bridge takes")
			f.IntVar(&b.clients, "clients", b.clients, "clients of each broker")
		},
		Quick: func() { b.devices, b.clients, b.odd, b.even = 1000, 100, time.Second, 2*time.Second },
		Run:   b.run,
		Child: child,
	}
}

func (b *bench) run(ctx context.Context, r *run.Run) error {
	b.Run = r
	if b.clients < 2 || b.clients > maxClients || b.devices < 1 {
		return fmt.Errorf("want 2 to %d clients and 1 or more devices", maxClients)
	}
	if _, err := serve.FindMosquitto(); err != nil {
		return err
	}
	if err := cores.Pin(cores.Driver); err != nil {
		return err
	}
	for round := range b.Rounds {
		if err := run.Turns(round, subscribers(), func(of string) error { return b.measureRelay(ctx, of) }); err != nil {
			return err
		}
		for _, measurement := range []string{apart, atOnce} {
			if err := run.Turns(round, brokers(), func(of string) error { return b.measureSilence(ctx, measurement, of) }); err != nil {
				return err
			}
		}
	}
	b.Note(serve.MosquittoVersion(ctx))
	b.Note("mochi " + mochi.Version)
	return b.Publish(ctx, "MQTT", "mqtt", b.report())
}

// start starts a process of this benchmark.
func (b *bench) start(ctx context.Context, place measured.Place, args ...string) (*measured.Process, error) {
	return measured.Start(ctx, place, append([]string{b.Name()}, args...)...)
}
