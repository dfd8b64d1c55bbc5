package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/dtu"
	"github.com/holter-iot/holter/gateway/codec/frame"
	"github.com/holter-iot/holter/gateway/codec/gt06"
	"github.com/holter-iot/holter/gateway/codec/jt808"
	"github.com/holter-iot/holter/gateway/codec/line"
	"github.com/holter-iot/holter/gateway/codec/teltonika"
)

const (
	overUDP = "-udp"
	overTLS = "-tls"

	dtuBeat = "dtu-beat"
)

// dialect is a protocol, both sides, and what carries it.
type dialect struct {
	name     string
	protocol codec.Protocol
	client   codec.Client
	carrier  string // overUDP, overTLS or nothing
}

var (
	//nolint:gochecknoglobals // a constant list
	dialects = [...]string{"line", "frame", "jt808", "teltonika", "gt06", "dtu", "line" + overUDP, "line" + overTLS}
	carriers = [...]string{"line" + overTLS, "line" + overUDP} //nolint:gochecknoglobals // a constant list
)

// newDialect returns the dialect of a name.
func newDialect(name string) (dialect, error) {
	d := dialect{name: name}
	for _, carrier := range []string{overUDP, overTLS} {
		if strings.HasSuffix(name, carrier) {
			d.carrier = carrier
		}
	}
	switch strings.TrimSuffix(name, d.carrier) {
	case "line":
		d.protocol, d.client = line.Protocol{}, line.Client{}
	case "frame":
		d.protocol, d.client = frame.Protocol{}, frame.Client{}
	case "jt808":
		d.protocol, d.client = jt808.Protocol{}, jt808.Client{}
	case "teltonika":
		d.protocol, d.client = teltonika.Protocol{}, teltonika.Client{}
	case "gt06":
		d.protocol, d.client = gt06.Protocol{}, gt06.Client{}
	case "dtu":
		p, err := dtu.New(dtu.Options{Registration: `\d{15}`, Heartbeat: []byte(dtuBeat)})
		if err != nil {
			return d, err
		}
		d.protocol, d.client = p, dtu.Client{Heartbeat: []byte(dtuBeat)}
	default:
		return d, fmt.Errorf("no protocol %q", name)
	}
	return d, nil
}

// id of device i is one that all protocols have.
func (d dialect) id(i int) string { return fmt.Sprintf("86%013d", i) }

// hello of device i is answered as long as the protocol answers at all.
func (d dialect) hello(i int) []byte { return d.client.AppendHello(nil, d.id(i), "", 10*time.Minute) }

// beats is what device i sends in one write. Datagrams begin with a greeting, as the line protocol has it.
func (d dialect) beats(i, batch int) []byte {
	var p []byte
	if d.carrier == overUDP {
		p = d.client.AppendHello(p, d.id(i), "", 0)
	}
	for range batch {
		p = d.client.AppendBeat(p, d.id(i), 123456789)
	}
	return p
}

// mute says whether the gateway answers nothing.
func (d dialect) mute() bool { return d.client.Window() == 0 }

// count takes the answers off input and counts those to heartbeats; welcome is whether there was one to a greeting.
func (d dialect) count(input []byte) (heard int, welcome bool, rest []byte, err error) {
	for len(input) > 0 {
		a, n := d.client.Next(input)
		switch a.Kind {
		case codec.Heard:
			heard++
		case codec.Welcome:
			welcome = true
		case codec.Garbage:
			if n > 0 {
				return heard, welcome, input, fmt.Errorf("it means nothing: %q", input)
			}
		case codec.Refused, codec.Farewell:
			return heard, welcome, input, fmt.Errorf("it is an end: %q", input)
		case codec.Noted:
		}
		if n == 0 {
			break
		}
		input = input[n:]
	}
	return heard, welcome, input, nil
}
