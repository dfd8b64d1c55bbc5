package frame

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holter-iot/holter/gateway/codec"
)

// Protocol is the frame protocol.
type Protocol struct{}

// Name implements [codec.Protocol].
func (Protocol) Name() string { return "frame" }

// Sniff implements [codec.Protocol]. It knows the protocol by its first byte, whatever its version,
// so that a device of a later version is told.
func (Protocol) Sniff(first []byte) codec.Guess {
	if first[0] == magic {
		return codec.Yes
	}
	return codec.No
}

// Codec implements [codec.Protocol]. The codec is also a [codec.Prober] and a [codec.Sender].
func (Protocol) Codec() codec.Codec { return stream{} }

// PacketCodec implements [codec.Packets].
func (Protocol) PacketCodec() codec.Codec { return datagram{} }

// What is unusual and tolerated.
const (
	oddType   = "type"   // of a frame: none that is listed
	oddLength = "length" // of a beat: neither 0 nor 4 bytes at least; of a message: less than 8
)

// stream is the codec of a connection. It has no state.
type stream struct{}

// Next implements [codec.Codec].
func (stream) Next(input []byte, m *codec.Message) (int, error) {
	kind, body, n, err := split(input)
	if n == 0 {
		return 0, err
	}
	switch kind {
	case typeHello:
		m.Kind, m.Err = codec.Hello, parseFields(body, m)
	case typeChallenge:
		m.Kind, m.Err = codec.Challenge, parseFields(body, m)
		m.Token = nil
	case typeBeat:
		m.Kind = codec.Beat
		if len(body) >= 4 {
			m.Text = body[:4]
		} else if len(body) > 0 {
			m.Odd = oddLength
		}
	case typeFail:
		m.Kind, m.Text = codec.Fail, body
		if !utf8.Valid(body) {
			m.Text = bytes.ToValidUTF8(body, []byte("\uFFFD"))
		}
	case typeBye:
		m.Kind = codec.Bye
	case typeProof:
		m.Kind, m.Token = codec.Proof, body
		if len(body) != 32 {
			m.Err = &codec.Error{Code: codec.BadMessage, Text: fmt.Sprintf("a proof of %d bytes; an HMAC-SHA256 has 32", len(body))}
		}
	case typePace, typeSleep:
		parseTimes(kind, body, m)
	case typeMessage:
		m.Kind = codec.Beat
		if len(body) < 8 {
			m.Odd = oddLength
		} else if number := binary.BigEndian.Uint64(body); number <= math.MaxInt64 {
			m.Acknowledged = number
		}
	default:
		m.Kind = codec.Beat
		if kind != typeData {
			m.Odd = oddType
		}
	}
	return n, nil
}

func parseTimes(kind byte, body []byte, m *codec.Message) {
	var first, second time.Duration
	if len(body) >= 4 {
		first = duration(body)
	}
	if len(body) >= 8 {
		second = duration(body[4:])
	}
	if kind == typeSleep {
		m.Kind, m.Duration = codec.Sleep, first
		if first == 0 {
			m.Err = &codec.Error{Code: codec.BadSleep, Text: "the body of a sleep is a u32 above 0: milliseconds, the highest byte first"}
		}
		return
	}
	m.Kind, m.Timeout, m.Interval = codec.Repace, first, second
	if first == 0 && second == 0 {
		m.Err = &codec.Error{Code: codec.BadTTL, Text: "the body of a pace is two u32, ttl and interval in milliseconds, not both 0"}
	}
}

// Reply implements [codec.Codec].
func (stream) Reply(dst []byte, m *codec.Message, o *codec.Outcome) []byte {
	return reply(dst, m, o, math.MaxInt)
}

// reply appends the answer to a message, in at most room bytes, 4 or more.
func reply(dst []byte, m *codec.Message, o *codec.Outcome, room int) []byte {
	if o.Err != nil {
		return appendError(dst, o.Err, room)
	}
	switch m.Kind {
	case codec.Hello, codec.Proof:
		return appendWelcome(dst, o, room)
	case codec.Challenge:
		return appendBytes(dst, typeChallenge, o.Nonce)
	case codec.Beat:
		if len(m.Text) > 0 {
			return appendBytes(dst, typeBeat, m.Text)
		}
	case codec.Repace:
		if room >= header+8 {
			return appendNumbers(dst, typePace, millis(o.Timeout), millis(o.Interval))
		}
		return appendNumbers(dst, typePace, millis(o.Timeout))
	case codec.Sleep:
		return appendNumbers(dst, typeSleep, millis(o.Granted))
	case codec.Fail:
		return appendHeader(dst, typeFail, 0)
	case codec.Bye:
		return appendHeader(dst, typeBye, 0)
	default: // nothing to answer
	}
	return dst
}

// appendWelcome appends the answer to a hello, with as many of the fields as there is room for.
func appendWelcome(dst []byte, o *codec.Outcome, room int) []byte {
	var buffer [32]byte
	fields := appendTime(buffer[:0], fieldTTL, o.Timeout)
	fields = appendEpoch(fields, o.Epoch)
	fields = appendTime(fields, fieldInterval, o.Interval)
	whole := 0
	for whole < len(fields) {
		next := whole + 2 + int(fields[whole+1])
		if header+next > room {
			break
		}
		whole = next
	}
	return appendBytes(dst, typeHello, fields[:whole])
}

// Goodbye implements [codec.Codec].
func (stream) Goodbye(dst []byte, why string, err *codec.Error) []byte {
	if err != nil {
		return appendError(dst, err, math.MaxInt)
	}
	return appendBytes(dst, typeBye, cut(why))
}

// Probe implements [codec.Prober].
func (stream) Probe(dst []byte) []byte { return appendHeader(dst, typeProbe, 0) }

// Send implements [codec.Sender]. It returns an error if payload is longer than [MaxBody].
func (stream) Send(dst, payload []byte) ([]byte, error) {
	if len(payload) > MaxBody {
		text := fmt.Sprintf("frame: %d bytes to send; a frame has a body of at most %d", len(payload), MaxBody)
		return dst, &codec.Error{Code: codec.TooLong, Text: text}
	}
	return appendBytes(dst, typeData, payload), nil
}

// SendNumbered implements [codec.Numberer].
func (datagram) SendNumbered(dst []byte, number uint64, payload []byte) ([]byte, error) {
	if most := MaxBody - 8; len(payload) > most {
		text := fmt.Sprintf("frame: %d bytes to send; a numbered message has at most %d", len(payload), most)
		return dst, &codec.Error{Code: codec.TooLong, Text: text}
	}
	dst = binary.BigEndian.AppendUint64(appendHeader(dst, typeMessage, 8+len(payload)), number)
	return append(dst, payload...), nil
}

// codes are the codes of errors, by their number; see the package's documentation.
func codes() [18]codec.Code {
	return [...]codec.Code{
		"", codec.BadMessage, codec.BadHello, codec.BadID, codec.BadTTL, codec.BadEpoch, codec.BadSleep, codec.HelloFirst, codec.HelloAgain,
		codec.StaleEpoch, codec.Unauthorized, codec.Full, codec.Busy, codec.TooLong, codec.Duplicate, codec.NotSpoken, codec.Noise, codec.Timeout,
	}
}

// appendError appends an error in at most room bytes: without its text if need be, or not at all.
func appendError(dst []byte, e *codec.Error, room int) []byte {
	number := byte(0)
	for i, c := range codes() {
		if c == e.Code {
			number = byte(i)
		}
	}
	text := cut(e.Text)
	if header+1+len(text) > room {
		text = ""
	}
	if header+1 > room {
		return dst
	}
	return append(append(appendHeader(dst, typeError, 1+len(text)), number), text...)
}

// cut shortens a text for the device to what it may be expected to hold.
func cut(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), 240)], "")
}

// datagram is the codec of datagrams. It has no state.
type datagram struct{ stream }

// Next implements [codec.Codec].
func (d datagram) Next(input []byte, m *codec.Message) (int, error) {
	n, err := d.stream.Next(input, m)
	m.Note = uint64(n)
	if (m.Kind == codec.Challenge || m.Kind == codec.Proof) && m.Err == nil {
		m.Err = &codec.Error{Code: codec.BadMessage, Text: "there is no challenge in datagrams; send the token in each hello"}
	}
	return n, err
}

// Reply implements [codec.Codec]. A sender without a token may have forged its address, so it gets
// no more bytes than it sent.
func (datagram) Reply(dst []byte, m *codec.Message, o *codec.Outcome) []byte {
	room := int(m.Note)
	if o.Err == nil && len(m.Token) > 0 {
		room = math.MaxInt
	}
	return reply(dst, m, o, room)
}
