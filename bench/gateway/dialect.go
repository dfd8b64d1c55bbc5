package gateway

import (
	"fmt"
	"slices"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/dtu"
	"github.com/holter-iot/holter/gateway/codec/frame"
	"github.com/holter-iot/holter/gateway/codec/gt06"
	"github.com/holter-iot/holter/gateway/codec/jt808"
	"github.com/holter-iot/holter/gateway/codec/line"
	"github.com/holter-iot/holter/gateway/codec/teltonika"
)

// The transports, as suffixes of names.
const (
	overUDP = "-udp"
	overTLS = "-tls"
)

// dialect is a protocol, both sides of it, and its transport.
type dialect struct {
	name      string
	protocol  codec.Protocol
	device    codec.Client
	transport string // "" for TCP
}

// dialects returns all that are measured, the line protocol over TCP first.
func dialects() []dialect {
	const beat = "dtu-beat"
	dtus, err := dtu.New(dtu.Options{Registration: `\d{15}`, Heartbeat: []byte(beat)})
	if err != nil {
		panic(err) // the options are constant
	}
	return []dialect{
		{"line", line.Protocol{}, line.Client{}, ""},
		{"frame", frame.Protocol{}, frame.Client{}, ""},
		{"jt808", jt808.Protocol{}, jt808.Client{}, ""},
		{"teltonika", teltonika.Protocol{}, teltonika.Client{}, ""},
		{"gt06", gt06.Protocol{}, gt06.Client{}, ""},
		{"dtu", dtus, dtu.Client{Heartbeat: []byte(beat)}, ""},
		{"line" + overUDP, line.Protocol{}, line.Client{}, overUDP},
	}
}

// transports returns the names of dialects whose idle sessions are measured beside those of TCP.
func transports() []string { return []string{"line" + overTLS, "line" + overUDP} }

// newDialect returns the dialect of a name.
func newDialect(name string) (dialect, error) {
	if name == "line"+overTLS {
		return dialect{name, line.Protocol{}, line.Client{}, overTLS}, nil
	}
	all := dialects()
	i := slices.IndexFunc(all, func(d dialect) bool { return d.name == name })
	if i < 0 {
		return dialect{}, fmt.Errorf("no protocol %q", name)
	}
	return all[i], nil
}

// bare returns the server beside which the gateway is measured with this dialect.
func (d dialect) bare() string {
	switch {
	case d.transport == overUDP:
		return echoUDP
	case d.mute():
		return sink
	}
	return echoTCP
}

// id returns an id of device i that is valid in all protocols.
func (d dialect) id(i int) string { return fmt.Sprintf("86%013d", i) }

// beats returns what device i sends in one write. Datagrams begin with a greeting.
func (d dialect) beats(i, batch int) []byte {
	var p []byte
	if d.transport == overUDP {
		p = d.device.AppendHello(p, d.id(i), "", 0)
	}
	for range batch {
		p = d.device.AppendBeat(p, d.id(i), 123456789)
	}
	return p
}

// mute reports whether the gateway answers nothing.
func (d dialect) mute() bool { return d.device.Window() == 0 }

// count takes the answers off input and counts those to heartbeats; welcome is whether there was one to a greeting.
func (d dialect) count(input []byte) (heard int, welcome bool, rest []byte, err error) {
	for len(input) > 0 {
		a, n := d.device.Next(input)
		switch a.Kind {
		case codec.Heard:
			heard++
		case codec.Welcome:
			welcome = true
		case codec.Garbage:
			if n > 0 {
				return heard, welcome, input, fmt.Errorf("an answer cannot be decoded: %q", input)
			}
		case codec.Refused, codec.Farewell:
			return heard, welcome, input, fmt.Errorf("the server closes the connection: %q", input)
		case codec.Noted:
		}
		if n == 0 {
			break
		}
		input = input[n:]
	}
	return heard, welcome, input, nil
}
