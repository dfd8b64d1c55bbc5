package loadgen_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/line"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
	"github.com/holter-iot/holter/loadgen"
)

// A fifth of a fleet falls silent, and a gateway in this process has to find each of them, and nobody else.
func ExampleRun() {
	registry, events, g, err := server()
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error, 2)
	go func() { ended <- registry.Run(ctx) }()
	go func() { ended <- g.Run(ctx) }()

	plan, err := loadgen.ParseScenario("a fifth", `
interval: 200ms
timeout: 1s
phases:
  - name: silence
    length: 2s
    acts:
      - {kind: silent, share: 20%, after: 500ms}
`)
	if err != nil {
		fmt.Println(err)
		return
	}
	plan.Devices, plan.Targets = 20, []string{g.Addrs()[0].String()}
	report, err := loadgen.Run(ctx, loadgen.Config{
		Plan: plan, Followers: []loadgen.Follower{loadgen.FollowLog(events)}, Limits: loadgen.DefaultLimits(plan),
	})
	if err != nil { // it says which verdicts were wrong
		fmt.Println(err)
	}
	stop()
	fmt.Println("the server ended:", errors.Join(<-ended, <-ended))
	fmt.Println("right verdicts:", report.Verdicts.Right)
	// Output:
	// the server ended: <nil>
	// right verdicts: 4
}

// server returns what a program of one's own has: a registry, the log of its events, and a gateway.
func server() (*liveness.Registry, *eventlog.Log, *gateway.Gateway, error) {
	events, err := eventlog.New(0)
	if err != nil {
		return nil, nil, nil, err
	}
	registry, err := liveness.New(events, liveness.Config{})
	if err != nil {
		return nil, nil, nil, err
	}
	g, err := gateway.New(context.Background(), registry, gateway.Config{
		Listen: []gateway.Listener{{Address: "127.0.0.1:0", Protocols: []codec.Protocol{line.Protocol{}}}},
	})
	return registry, events, g, err
}

// The verdicts of another process are read from its API, or from a broker.
func ExampleFollow() {
	plan, err := loadgen.Scenario("silent-10pct")
	if err != nil {
		fmt.Println(err)
		return
	}
	plan.Devices, plan.Targets = 5000, []string{"192.0.2.7:7700"}
	plan.Interval, plan.Timeout = 30*time.Second, 90*time.Second
	server, err := loadgen.Follow("http://192.0.2.7:8080", plan, "token-that-may-read-events", nil)
	fmt.Println(server.URL, err) // from here on as in the example of Run, with this follower
	// Output: http://192.0.2.7:8080 <nil>
}
