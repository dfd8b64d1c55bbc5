package liveness_test

import (
	"context"
	"fmt"
	"time"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// A program watches its own workers: each beats as it works, and one that hangs is told. What begins here with
// AddLocal needs no clock: it stands still while the process does, so that a suspended machine costs nobody a verdict.
func Example() {
	log, err := eventlog.New(0)
	if err != nil {
		fmt.Println(err)
		return
	}
	registry, err := liveness.New(log, liveness.Config{Policy: liveness.Policy{Timeout: time.Second}})
	if err != nil {
		fmt.Println(err)
		return
	}
	workers, err := registry.AddLocal("workers")
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	done := make(chan error)
	go func() { done <- registry.Run(ctx) }()

	if err := workers.Beat("worker-1"); err != nil { // as often as it works; after this it hangs
		fmt.Println(err)
		return
	}

	for offset := range uint64(2) { // follow the events
		events, err := log.Wait(ctx, nil, offset, 1)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(events[0].Subject, events[0].Type)
	}
	stop()
	fmt.Println(<-done)
	// Output:
	// worker-1 device.online
	// worker-1 device.offline
	// <nil>
}

// An input of one's own, such as a socket, moves the clock itself: it says again and again that it listens, and when
// all that came before is processed. A connected device has a Session, on which a heartbeat is one atomic update.
func ExampleSource() {
	log, err := eventlog.New(0)
	if err != nil {
		fmt.Println(err)
		return
	}
	registry, err := liveness.New(log, liveness.Config{Policy: liveness.Policy{Timeout: 30 * time.Second}})
	if err != nil {
		fmt.Println(err)
		return
	}
	source, err := registry.AddSource(liveness.SourceConfig{Name: "embedded"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	done := make(chan error)
	go func() { done <- registry.Run(ctx) }()

	// The source listens: say so again and again, and say when all that came before is processed.
	// Here time is made up.
	now := time.Now()
	listen := func(d time.Duration) {
		for range d / time.Second {
			now = now.Add(time.Second)
			source.Watermark(0, source.Pulse(now))
		}
	}
	listen(time.Second)

	var session liveness.Session
	if _, err := source.Open(&session, "sensor-1", liveness.Hello{}, nil, source.Time(now)); err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		listen(20 * time.Second)
		session.Beat(source.Time(now))
	}
	listen(31 * time.Second)

	var events []liveness.Event
	for len(events) < 2 {
		if events, err = log.Wait(ctx, events, uint64(len(events)), 10); err != nil {
			fmt.Println(err)
			return
		}
	}
	for _, e := range events {
		fmt.Println(e.ID(), e.Type, e.Reason, e.HeardSilence.Round(time.Second))
	}
	stop()
	fmt.Println(<-done)
	// Output:
	// sensor-1:1 device.online  0s
	// sensor-1:2 device.offline silence 31s
	// <nil>
}
