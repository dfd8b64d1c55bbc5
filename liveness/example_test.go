package liveness_test

import (
	"context"
	"fmt"
	"time"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// A program passes heartbeats in and follows the verdicts, without a gateway or a database.
func Example() {
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
