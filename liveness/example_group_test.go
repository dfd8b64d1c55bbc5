package liveness_test

import (
	"context"
	"fmt"
	"time"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// A site loses its uplink: one event replaces those of the devices behind it.
func ExampleGroupConfig() {
	log, err := eventlog.New(0)
	if err != nil {
		fmt.Println(err)
		return
	}
	registry, err := liveness.New(log, liveness.Config{
		Policy: liveness.Policy{Timeout: 30 * time.Second},
		Groups: []liveness.GroupConfig{{
			Name:   "site 7",
			Match:  "site-7/*",
			Outage: liveness.OutageConfig{Share: 0.3, MinDevices: 3},
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	source, err := registry.AddSource(liveness.SourceConfig{Name: "gateway"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	done := make(chan error)
	go func() { done <- registry.Run(ctx) }()

	now := time.Now()
	source.Pulse(now)
	for i := range 10 {
		var session liveness.Session
		if _, err := source.Open(&session, fmt.Sprint("site-7/pump-", i), liveness.Hello{}, nil, source.Time(now)); err != nil {
			fmt.Println(err)
			return
		}
	}
	for range 31 { // time is made up
		now = now.Add(time.Second)
		source.Watermark(0, source.Pulse(now))
	}

	members, alone := 0, 0
	for place, open := uint64(0), 10; open > 0; place++ {
		events, err := log.Wait(ctx, nil, place, 1)
		if err != nil {
			fmt.Println(err)
			return
		}
		e := events[0]
		if e.Type == liveness.GroupOutageStarted {
			fmt.Printf("%s %v: %d of %d devices are silent\n", e.Subject, e.Type, e.Silent, e.Members)
		}
		if e.Type != liveness.DeviceOffline {
			continue
		}
		open--
		if e.Outage {
			members++
		} else {
			alone++ // somebody is to be told of this one
		}
	}
	fmt.Println("recorded with the outage, all but those before it:", alone <= 2 && alone+members == 10)
	stop()
	fmt.Println(<-done)
	// Output:
	// site 7 group.outage.started: 3 of 10 devices are silent
	// recorded with the outage, all but those before it: true
	// <nil>
}
