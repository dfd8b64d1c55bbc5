package mqttbridge_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"github.com/holter-iot/holter/internal/test/testmqtt"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
	"github.com/holter-iot/holter/mqttbridge"
	"github.com/holter-iot/holter/mqttbridge/convention"
	"github.com/holter-iot/holter/mqttbridge/presets"
)

// Pumps publish their state behind a broker. One falls silent, and the program is told.
func Example() {
	broker, end := exampleBroker() // such as tcp://broker.example:1883
	defer end()

	pumps, err := convention.New(convention.Spec{Name: "pumps", Rules: []convention.Rule{{
		Topic: "plant/{device}/state", Timeout: time.Second, // each message is a heartbeat
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	events, err := eventlog.New(0)
	if err != nil {
		fmt.Println(err)
		return
	}
	registry, err := liveness.New(events, liveness.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	bridge, err := mqttbridge.New(registry, mqttbridge.Config{URL: broker, Conventions: []convention.Convention{pumps}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error, 2)
	go func() { ended <- registry.Run(ctx) }()
	go func() { ended <- bridge.Run(ctx) }()

	device := paho.NewClient(paho.NewClientOptions().AddBroker(broker).SetClientID("pump-3"))
	device.Connect().Wait()
	defer device.Disconnect(0)
	for range time.Tick(10 * time.Millisecond) {
		if bridge.View().Listening { // nobody hears what is published before
			break
		}
	}
	device.Publish("plant/pump-3/state", 0, false, "running").Wait()

	for offset := range uint64(2) {
		seen, err := events.Wait(ctx, nil, offset, 1)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(seen[0].Type, seen[0].Subject)
	}
	stop()
	fmt.Println(errors.Join(<-ended, <-ended))
	// Output:
	// device.online pump-3
	// device.offline pump-3
	// <nil>
}

// Before it is trusted, a rule or a preset is tried at the broker: nothing is applied.
func ExampleDryRun() {
	broker, end := exampleBroker()
	defer end()
	shelly, err := presets.New("shelly")
	if err != nil {
		fmt.Println(err)
		return
	}
	device := paho.NewClient(paho.NewClientOptions().AddBroker(broker).SetClientID("shelly"))
	device.Connect().Wait()
	defer device.Disconnect(0)
	device.Publish("shellyplus1-a8032abe54dc/online", 0, true, "true").Wait() // retained: the dry run sees it

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	err = mqttbridge.DryRun(ctx, mqttbridge.Config{URL: broker, Conventions: []convention.Convention{shelly}}, func(l mqttbridge.DryRunLine) {
		for _, sign := range l.Signs {
			fmt.Println(l.Message.Topic, "is", sign.Meaning, "of", sign.Device)
		}
		stop()
	})
	fmt.Println(err)
	// Output:
	// shellyplus1-a8032abe54dc/online is online of shellyplus1-a8032abe54dc
	// <nil>
}

// exampleBroker starts a broker for an example.
func exampleBroker() (url string, end func()) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	broker := testmqtt.NewSimulated()
	go broker.Serve(l)
	return "tcp://" + l.Addr().String(), func() {
		_ = l.Close()
		broker.End()
	}
}
