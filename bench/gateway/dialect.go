package gateway

import (
	"fmt"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/frame"
	"github.com/holter-iot/holter/gateway/codec/gt06"
	"github.com/holter-iot/holter/gateway/codec/jt808"
	"github.com/holter-iot/holter/gateway/codec/line"
	"github.com/holter-iot/holter/gateway/codec/teltonika"
)

// The transports beside TCP, as suffixes of names.
const (
	overUDP = "-udp"
	overTLS = "-tls"
)

// dialect is a protocol, both sides of it, and its transport.
type dialect struct {
	codec.Protocol
	codec.Client

	transport string
}

// dialects returns all that are measured, the line protocol over TCP first.
func dialects() []dialect {
	return []dialect{
		{line.Protocol{}, line.Client{}, ""},
		{frame.Protocol{}, frame.Client{}, ""},
		{jt808.Protocol{}, jt808.Client{}, ""},
		{teltonika.Protocol{}, teltonika.Client{}, ""},
		{gt06.Protocol{}, gt06.Client{}, ""},
		{line.Protocol{}, line.Client{}, overUDP},
		{line.Protocol{}, line.Client{}, overTLS},
	}
}

// String returns the name of a dialect.
func (d dialect) String() string { return d.Name() + d.transport }

// id returns an id of device i that is valid in all protocols.
func (d dialect) id(i int) string { return fmt.Sprintf("86%013d", i) }

// hello returns what device i says first.
func (d dialect) hello(i int) []byte { return d.AppendHello(nil, d.id(i), "", 10*time.Minute) }

// beats returns what device i sends in one write, and how many answers it gets. Datagrams begin
// with a greeting.
func (d dialect) beats(i, batch int) (p []byte, answers int) {
	answers = batch
	if d.transport == overUDP {
		p, answers = d.hello(i), answers+1
	}
	for range batch {
		p = d.AppendBeat(p, d.id(i), 123456789)
	}
	return p, answers
}

// count takes the answers to greetings and heartbeats off input and counts them.
func (d dialect) count(input []byte) (answers int, rest []byte, err error) {
	for len(input) > 0 {
		a, n := d.Next(input)
		if n == 0 {
			break
		}
		switch a.Kind {
		case codec.Heard, codec.Welcome:
			answers++
		case codec.Noted:
		case codec.Garbage, codec.Refused, codec.Farewell:
			return answers, input, fmt.Errorf("the server answers %q", input)
		}
		input = input[n:]
	}
	return answers, input, nil
}
