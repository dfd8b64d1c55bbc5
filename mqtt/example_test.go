package mqtt_test

import (
	"fmt"
	"time"

	"github.com/holter-iot/holter/mqtt"
	"github.com/holter-iot/holter/mqtt/packet"
)

// anyone may do everything.
type anyone struct{}

func (anyone) User() string             { return "" }
func (anyone) MayPublish(string) bool   { return true }
func (anyone) MaySubscribe(string) bool { return true }
func (anyone) Valid() bool              { return true }

// loop stands for the event loop that serves a connection.
type loop struct{}

func (loop) Wake()             {}
func (loop) Close(packet.Code) {}

// A client connects, subscribes, and gets what the program publishes.
func Example() {
	broker, err := mqtt.New(mqtt.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	// A program would have a goroutine call broker.Run now.

	// The event loop has read a CONNECT and decoded it.
	now := time.Now()
	hello := packet.Connect{Version: packet.V311, Clean: true, ClientID: []byte("display")}
	conn, connack, err := broker.Connect(&hello, "display", anyone{}, loop{}, now)
	if err != nil {
		fmt.Println(err)
		return
	}
	out := connack.Append(nil, hello.Version)

	// It reads what the client sends, packet by packet.
	input := packet.AppendSubscribe(nil, hello.Version, 1, 0, packet.Filter{Topic: []byte("room/+/temperature")})
	header, body, _, _ := packet.Split(hello.Version, input, 256<<10)
	if out, err = conn.Handle(out, header, body, now); err != nil {
		fmt.Println(err)
		return
	}

	// The message wakes the event loop, which writes what Pump appends.
	_ = broker.Publish("room/12/temperature", []byte("21.5"), false)
	out, _ = conn.Pump(out, 64<<10, now)
	for len(out) > 0 {
		header, body, n, _ := packet.Split(hello.Version, out, 256<<10)
		fmt.Printf("%v %q\n", header.Type, body)
		out = out[n:]
	}
	conn.Close(mqtt.Ending{Clean: true}, now)
	// Output:
	// CONNACK "\x00\x00"
	// SUBACK "\x00\x01\x00"
	// PUBLISH "\x00\x13room/12/temperature21.5"
}
