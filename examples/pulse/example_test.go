package pulse_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/holter-iot/holter/examples/pulse"
	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/line"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// A gateway speaks the protocol beside the line protocol at one port.
func Example() {
	if err := serve(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// $HI,pump-3,60*01 -> $OK*04
	// $PU,17*2F -> $PU,17*2F
	// HELLO valve-1 -> OK 1 ttl=90
	// device.online pump-3
	// device.online valve-1
}

func serve() error {
	events, err := eventlog.New(0)
	if err != nil {
		return err
	}
	registry, err := liveness.New(events, liveness.Config{})
	if err != nil {
		return err
	}
	g, err := gateway.New(context.Background(), registry, gateway.Config{
		Listen: []gateway.Listener{{Address: "127.0.0.1:0", Protocols: []codec.Protocol{pulse.Protocol{}, line.Protocol{}}}},
	})
	if err != nil {
		return err
	}
	stopRegistry, stopGateway := start(registry.Run), start(g.Run)
	address := g.Addrs()[0].String()
	err = errors.Join(play(address, "$HI,pump-3,60*01", "$PU,17*2F"), play(address, "HELLO valve-1"))
	if err == nil {
		err = tell(events)
	}
	err = errors.Join(err, stopGateway())
	return errors.Join(err, stopRegistry()) // the registry outlives those who tell it of devices
}

// start runs something until stop is called, which waits for its end.
func start(run func(context.Context) error) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- run(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}
}

// play says what a device says, and prints the answers.
func play(address string, lines ...string) error {
	device, err := net.Dial("tcp", address) //nolint:noctx // it is on this machine
	if err != nil {
		return err
	}
	defer device.Close()
	answers := bufio.NewScanner(device)
	for _, text := range lines {
		if _, err := fmt.Fprintln(device, text); err != nil {
			return err
		}
		answers.Scan()
		fmt.Println(text, "->", answers.Text())
	}
	return answers.Err()
}

// tell prints the first two events.
func tell(log *eventlog.Log) error {
	for offset := range uint64(2) {
		seen, err := log.Wait(context.Background(), nil, offset, 1)
		if err != nil {
			return err
		}
		fmt.Println(seen[0].Type, seen[0].Subject)
	}
	return nil
}
