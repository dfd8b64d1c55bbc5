package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// Beacon is a protocol of lines: "I <id>" says who the device is, and is answered by "K", or "E
// <code>"; "B" is a heartbeat, answered by "B". The gateway may send "M <text>". Package codectest
// holds a codec to what a gateway needs of it.
type Beacon struct{}

// Name is what configurations, metrics and answers call it.
func (Beacon) Name() string { return "beacon" }

// Sniff is asked where several protocols are spoken at one port.
func (Beacon) Sniff(first []byte) codec.Guess {
	switch {
	case bytes.HasPrefix(first, []byte("I ")):
		return codec.Yes
	case string(first) == "I":
		return codec.Maybe
	}
	return codec.No
}

// Codec returns that of a new connection. This one has no state, so that all share it.
func (b Beacon) Codec() codec.Codec { return b }

// Next takes the first message off input, once it is there as a whole.
func (Beacon) Next(input []byte, m *codec.Message) (int, error) {
	const longest = 200
	end := bytes.IndexByte(input[:min(len(input), longest)], '\n')
	switch {
	case end < 0 && len(input) >= longest:
		return 0, &codec.Error{Code: codec.TooLong, Text: "a line has less than 200 bytes"}
	case end < 0:
		return 0, nil
	}
	switch id, found := bytes.CutPrefix(input[:end], []byte("I ")); {
	case found:
		m.Kind, m.ID = codec.Hello, id
	case string(input[:end]) == "B":
		m.Kind = codec.Beat
	default:
		m.Odd = "unknown"
	}
	return end + 1, nil
}

// Reply answers a message once the gateway has done what it means.
func (Beacon) Reply(dst []byte, m *codec.Message, o *codec.Outcome) []byte {
	switch {
	case m.Kind == codec.None:
		return dst
	case o.Err != nil:
		return fmt.Appendf(dst, "E %s\n", o.Err.Code)
	case m.Kind == codec.Hello:
		return append(dst, "K\n"...)
	}
	return append(dst, "B\n"...)
}

// Goodbye is said before the gateway closes a connection.
func (Beacon) Goodbye(dst []byte, _ string, _ *codec.Error) []byte { return dst }

// Send makes a Beacon a codec.Sender: messages reach its devices. There is codec.Prober besides.
func (Beacon) Send(dst, payload []byte) ([]byte, error) {
	if bytes.IndexByte(payload, '\n') >= 0 {
		return dst, errors.New("beacon: a message is one line")
	}
	return fmt.Appendf(dst, "M %s\n", payload), nil
}

// A gateway in a program of one's own, with a protocol of one's own.
func Example() {
	if err := serveBeacons(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// I pump-3 -> K
	// B -> B
	// sent 17 bytes over beacon
	// M open the valve
	// device.online pump-3
}

func serveBeacons() error {
	events, err := eventlog.New(0)
	if err != nil {
		return err
	}
	registry, err := liveness.New(events, liveness.Config{})
	if err != nil {
		return err
	}
	g, err := gateway.New(context.Background(), registry, gateway.Config{
		Listen: []gateway.Listener{{Address: "127.0.0.1:0", Protocols: []codec.Protocol{Beacon{}}}},
	})
	if err != nil {
		return err
	}
	stopRegistry := start(registry.Run)
	stopGateway := start(g.Run)

	err = playDevice(g)
	if err == nil {
		var seen []liveness.Event
		if seen, err = events.Wait(context.Background(), nil, 0, 10); err == nil {
			fmt.Println(seen[0].Type, seen[0].Subject)
		}
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

// playDevice says what a device says, and prints what it hears.
func playDevice(g *gateway.Gateway) error {
	device, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", g.Addrs()[0].String())
	if err != nil {
		return err
	}
	defer device.Close()
	answers := bufio.NewScanner(device)
	for _, line := range []string{"I pump-3", "B"} {
		_, _ = fmt.Fprintln(device, line)
		answers.Scan()
		fmt.Println(line, "->", answers.Text())
	}
	sent, err := g.Send(context.Background(), "pump-3", []byte("open the valve"), false)
	if err != nil {
		return err
	}
	fmt.Println("sent", sent.Bytes, "bytes over", sent.Protocol)
	answers.Scan()
	fmt.Println(answers.Text())
	return answers.Err()
}
