package mqtt

import (
	"context"
	"slices"
	"time"

	"github.com/holter-iot/holter/bench/internal/measured"
)

// The subjects: subscribers, and brokers.
const (
	bridge    = "bridge"
	paho      = "paho"
	pahoTuned = "paho-tuned"

	mosquitto   = "mosquitto"
	mochiBroker = "mochi"
	holter      = "holter"
)

func brokers() []string { return []string{mosquitto, mochiBroker, holter} }

// patience is how long a subject may take to answer.
const patience = 20 * time.Second

// subject is what is measured, in a process of its own.
type subject struct {
	measurement, name string

	measure func(b *bench, ctx context.Context, name string) error
}

// subjects returns all that is measured. The subjects of a measurement follow each other.
func subjects() (all []subject) {
	for _, subscriber := range []string{bridge, paho, pahoTuned} {
		all = append(all, subject{"relay", subscriber, (*bench).relay})
	}
	for _, m := range []subject{
		{measurement: "idle", measure: (*bench).idle},
		{measurement: "in", measure: (*bench).fanIn},
		{measurement: "out", measure: (*bench).fanOut},
		{measurement: "silence", measure: (*bench).silence},
		{measurement: "storm", measure: (*bench).storm},
	} {
		for _, broker := range brokers() {
			all = append(all, subject{m.measurement, broker, m.measure})
		}
	}
	return all
}

// child starts the subject that the first argument names: a subscriber to the broker at a URL, or a broker, with its files in a directory
// and how it listens.
func child(ctx context.Context, args []string) (measured.Subject, error) {
	start := map[string]func(context.Context, string, string) (measured.Subject, error){
		bridge: subscribeBridge, paho: subscribePaho(false), pahoTuned: subscribePaho(true),
		mosquitto: serveMosquitto, mochiBroker: serveMochi, holter: serveHolter,
	}[args[0]]
	if len(args) == 2 {
		args = append(slices.Clip(args), plain)
	}
	return start(ctx, args[1], args[2])
}
