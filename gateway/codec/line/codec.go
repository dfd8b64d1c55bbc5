package line

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
)

// Protocol is the line protocol. Its codec has no state: all connections share it.
type Protocol struct {
	// MaxLine is the longest line, in bytes. Default: 1024.
	MaxLine int
}

// Name implements [codec.Protocol].
func (p Protocol) Name() string { return "line" }

// Sniff implements [codec.Protocol]: any line that begins with printable ASCII and has no control
// characters will do, also behind empty ones, so a port that serves several protocols asks this one
// last. Before the line's end it may become what another protocol begins with.
func (p Protocol) Sniff(first []byte) codec.Guess {
	const enough = 64
	line, _, whole := bytes.Cut(bytes.TrimLeft(first, "\r\n"), []byte{'\n'})
	switch {
	case len(line) > 0 && line[0] >= 0x7f, bytes.ContainsFunc(line, isControl):
		return codec.No
	case !whole && len(first) < enough:
		return codec.Maybe
	}
	return codec.Yes
}

// isControl reports whether a character cannot stand in a line.
func isControl(c rune) bool { return c < ' ' && c != '\t' && c != '\r' }

// Codec implements [codec.Protocol].
func (p Protocol) Codec() codec.Codec { return conversation(p.maxLine()) }

// PacketCodec implements [codec.Packets].
func (p Protocol) PacketCodec() codec.Codec { return packet{conversation(p.maxLine())} }

func (p Protocol) maxLine() int {
	if p.MaxLine == 0 {
		return 1024
	}
	return p.MaxLine
}

// conversation understands lines of so many bytes at most.
type conversation int

// Next implements [codec.Codec].
func (t conversation) Next(input []byte, m *codec.Message) (int, error) {
	text, rest, ok := split(input)
	if !ok && len(input) <= int(t) {
		return 0, nil
	}
	if !ok || len(text) > int(t) {
		return 0, &codec.Error{Code: codec.TooLong, Text: fmt.Sprintf("a line has at most %d bytes", int(t))}
	}
	parse(text, m)
	return len(input) - len(rest), nil
}

// Reply implements [codec.Codec].
func (t conversation) Reply(dst []byte, m *codec.Message, o *codec.Outcome) []byte {
	if o.Err != nil {
		return appendError(dst, o.Err)
	}
	switch m.Kind {
	case codec.Hello, codec.Proof:
		dst = append(dst, "OK "...)
		dst = strconv.AppendUint(dst, o.Epoch, 10)
		dst = append(dst, " ttl="...)
		return append(appendSeconds(dst, o.Timeout), '\n')
	case codec.Challenge:
		return append(append(append(dst, "CHALLENGE "...), o.Nonce...), '\n')
	case codec.Repace:
		return append(appendSeconds(append(dst, "TTL "...), o.Timeout), '\n')
	case codec.Sleep:
		return append(appendSeconds(append(dst, "OK sleep="...), o.Granted), '\n')
	case codec.Fail:
		return append(dst, "OK\n"...)
	case codec.Bye:
		return append(dst, "BYE\n"...)
	case codec.Beat:
		if m.Note == ping {
			return appendPong(dst, m.Text)
		}
	case codec.None, codec.Register, codec.Leave:
	}
	return dst
}

// Goodbye implements [codec.Codec].
func (t conversation) Goodbye(dst []byte, why string, err *codec.Error) []byte {
	if err != nil {
		return appendError(dst, err)
	}
	dst = append(dst, "BYE"...)
	if why != "" {
		dst = append(append(dst, ' '), why...)
	}
	return append(dst, '\n')
}

// Probe implements [codec.Prober].
func (t conversation) Probe(dst []byte) []byte { return append(dst, "PING?\n"...) }

// Send implements [codec.Sender]: the payload is one line of text.
func (t conversation) Send(dst, payload []byte) ([]byte, error) { return t.send(dst, "MSG ", payload) }

// send appends a line of words and a payload.
func (t conversation) send(dst []byte, words string, payload []byte) ([]byte, error) {
	most := int(t) - len(words)
	switch {
	case len(payload) > most:
		return dst, &codec.Error{Code: codec.TooLong, Text: fmt.Sprintf("line: a message has at most %d bytes, not %d", most, len(payload))}
	case !isText(payload):
		return dst, errors.New("line: a message is one line of text, UTF-8 without control characters")
	}
	return append(append(append(dst, words...), payload...), '\n'), nil
}

// packet is the codec of datagrams, whose end also ends a line. The answer to a probe is a datagram
// like the others, which names its device.
type packet struct{ conversation }

// Next implements [codec.Codec].
func (p packet) Next(input []byte, m *codec.Message) (int, error) {
	n, err := p.conversation.Next(input, m)
	if n == 0 && err == nil {
		parse(bytes.TrimSuffix(input, []byte("\r")), m)
		n = len(input)
	}
	return n, err
}

// SendNumbered implements [codec.Numberer].
func (p packet) SendNumbered(dst []byte, number uint64, payload []byte) ([]byte, error) {
	return p.send(dst, "MSG #"+strconv.FormatUint(number, 10)+" ", payload)
}

func appendPong(dst, seq []byte) []byte {
	if len(seq) == 0 {
		return append(dst, "PONG\n"...)
	}
	return append(append(append(dst, "PONG "...), seq...), '\n')
}

func appendError(dst []byte, e *codec.Error) []byte {
	dst = append(append(dst, "ERR "...), e.Code...)
	dst = append(append(dst, ' '), e.Text...)
	return append(dst, '\n')
}

func appendSeconds(dst []byte, d time.Duration) []byte {
	return strconv.AppendFloat(dst, d.Seconds(), 'f', -1, 64)
}
