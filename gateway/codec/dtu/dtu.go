package dtu

import (
	"bytes"
	"regexp"

	"github.com/holter-iot/holter/gateway/codec"
)

// Protocol is what DTUs with the same settings speak; see [New].
type Protocol struct {
	expression *regexp.Regexp
	hex        bool
	prefix     bool
	heartbeat  string
	poll       string
	unknown    *codec.Error
}

// Name implements [codec.Protocol].
func (p *Protocol) Name() string { return "dtu" }

// Sniff implements [codec.Protocol].
func (p *Protocol) Sniff(first []byte) codec.Guess {
	const most = 64
	_, n, maybe := p.match(first[:min(len(first), most)])
	switch {
	case n > 0:
		return codec.Yes
	case maybe && len(first) < most:
		return codec.Maybe
	}
	return codec.No
}

// Codec implements [codec.Protocol]. The codec is also a [codec.Sender], which passes bytes on to
// the serial line as they are, and a [codec.Prober] if there is a Poll.
func (p *Protocol) Codec() codec.Codec {
	if p.poll != "" {
		return &polled{conn{protocol: p}}
	}
	return &conn{protocol: p}
}

// oddBare is a packet that lacks the registration in front, or the rest of one that came in pieces.
const oddBare = "bare"

// conn is the codec of a connection.
type conn struct {
	protocol     *Protocol
	registration string // of the Prefix mode: that of the session
	registered   bool
}

// Next implements [codec.Codec]. What follows the registration has no limits that it would know:
// all that came in is one message.
func (c *conn) Next(input []byte, m *codec.Message) (int, error) {
	p := c.protocol
	switch {
	case len(input) == 0:
		return 0, nil
	case !c.registered:
		return c.register(input, m)
	case p.heartbeat != "" && bytes.HasPrefix(input, []byte(p.heartbeat)):
		m.Kind = codec.Beat
		return len(p.heartbeat), nil
	case !p.prefix:
		m.Kind = codec.Beat
		return len(input), nil
	case c.registration != "" && bytes.HasPrefix(input, []byte(c.registration)):
		m.Kind = codec.Beat
		return len(input), nil
	}
	id, n, _ := p.match(input)
	switch {
	case n == 0:
		m.Kind, m.Odd = codec.Beat, oddBare
	case c.registration == "": // the session could not be opened the last time
		m.Kind, m.ID, m.Text = codec.Hello, id, input[:n]
		return n, nil
	default: // another device, or one that was set anew
		m.Kind, m.ID = codec.Beat, id
	}
	return len(input), nil
}

// register takes the registration at the beginning of the connection.
func (c *conn) register(input []byte, m *codec.Message) (int, error) {
	id, n, maybe := c.protocol.match(input)
	if n == 0 {
		if maybe {
			return 0, nil
		}
		return 0, c.protocol.unknown
	}
	c.registered = true
	m.Kind, m.ID, m.Text = codec.Hello, id, input[:n]
	return n, nil
}

// Reply implements [codec.Codec]. A DTU is not answered: the machine on its serial line would hear
// it.
func (c *conn) Reply(dst []byte, m *codec.Message, o *codec.Outcome) []byte {
	if c.protocol.prefix && m.Kind == codec.Hello && o.Err == nil {
		c.registration = string(m.Text)
	}
	return dst
}

// Goodbye implements [codec.Codec].
func (c *conn) Goodbye(dst []byte, _ string, _ *codec.Error) []byte { return dst }

// Send implements [codec.Sender]. It passes payload on as it is, and returns no error.
func (c *conn) Send(dst, payload []byte) ([]byte, error) { return append(dst, payload...), nil }

// polled is a conn whose machine can be asked.
type polled struct{ conn }

// Probe implements [codec.Prober].
func (c *polled) Probe(dst []byte) []byte { return append(dst, c.protocol.poll...) }
