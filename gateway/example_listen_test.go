package gateway_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"

	paho "github.com/eclipse/paho.mqtt.golang"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/frame"
	"github.com/holter-iot/holter/gateway/codec/line"
	mqttcodec "github.com/holter-iot/holter/gateway/codec/mqtt"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
	"github.com/holter-iot/holter/mqtt"
	"github.com/holter-iot/holter/mqtt/access"
)

// Two protocols at one TCP port, one of them over UDP, too; devices show a shared secret.
func ExampleConfig() {
	err := serveWhile(gateway.Config{
		Guard: gateway.Password("s3cret"),
		Listen: []gateway.Listener{
			{Address: "127.0.0.1:0", Protocols: []codec.Protocol{line.Protocol{}, frame.Protocol{}}},
			{Address: "127.0.0.1:0", Packets: true, Protocols: []codec.Protocol{line.Protocol{}}},
		},
	}, func(g *gateway.Gateway) error {
		for i, said := range []string{"HELLO pump-3 s3cret", "HELLO valve-1 s3cret", "HELLO valve-2 guess"} {
			at := g.Addrs()[i%2]
			device, err := (&net.Dialer{}).DialContext(context.Background(), at.Network(), at.String())
			if err != nil {
				return err
			}
			_, _ = fmt.Fprintln(device, said)
			answer, err := bufio.NewReader(device).ReadString('\n')
			if err != nil {
				return err
			}
			fmt.Printf("%s: %s -> %s", at.Network(), said, answer)
			_ = device.Close()
		}
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// tcp: HELLO pump-3 s3cret -> OK 1 ttl=90
	// udp: HELLO valve-1 s3cret -> OK 1 ttl=90
	// tcp: HELLO valve-2 guess -> ERR unauthorized wrong or missing token; in the line protocol: HELLO <id> <token> ttl=60s
}

// An MQTT broker in a program: its clients are devices, and the program publishes, too.
func ExampleListener() {
	broker, err := mqtt.New(mqtt.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	who, err := access.New(access.Config{}) // whoever is on this machine; Users and Rules are files
	if err != nil {
		fmt.Println(err)
		return
	}
	stopBroker, stopAccess := start(broker.Run), start(who.Run)
	err = serveWhile(gateway.Config{
		Listen: []gateway.Listener{{Address: "127.0.0.1:0", Protocols: []codec.Protocol{&mqttcodec.Protocol{Broker: broker, Access: who}}}},
	}, func(g *gateway.Gateway) error {
		display := paho.NewClient(paho.NewClientOptions().AddBroker("tcp://" + g.Addrs()[0].String()).SetClientID("display"))
		if t := display.Connect(); t.Wait() && t.Error() != nil {
			return t.Error()
		}
		defer display.Disconnect(0)
		heard := make(chan string, 1)
		display.Subscribe("room/+/temperature", 1, func(_ paho.Client, m paho.Message) {
			heard <- m.Topic() + " " + string(m.Payload())
		}).Wait()
		if err := broker.Publish("room/12/temperature", []byte("21.5"), false); err != nil {
			return err
		}
		fmt.Println(<-heard)
		return nil
	})
	if err = errors.Join(err, stopBroker(), stopAccess()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// room/12/temperature 21.5
}

// serveWhile runs a gateway, with a registry of its own, while something is done with it.
func serveWhile(cfg gateway.Config, do func(*gateway.Gateway) error) error {
	events, err := eventlog.New(0) // what is done with events is in the first example
	if err != nil {
		return err
	}
	registry, err := liveness.New(events, liveness.Config{})
	if err != nil {
		return err
	}
	g, err := gateway.New(context.Background(), registry, cfg)
	if err != nil {
		return err
	}
	stopRegistry, stopGateway := start(registry.Run), start(g.Run)
	err = do(g)
	return errors.Join(err, stopGateway(), stopRegistry())
}
