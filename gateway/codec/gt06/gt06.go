package gt06

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/holter-iot/holter/gateway/codec"
)

// Protocol is the GT06 protocol. The zero Protocol is ready to use.
type Protocol struct{}

// Name returns "gt06".
func (Protocol) Name() string { return "gt06" }

// Sniff says Yes to the two bytes that begin each frame.
func (Protocol) Sniff(first []byte) codec.Guess {
	switch {
	case !canStart(first):
		return codec.No
	case len(first) < 2:
		return codec.Maybe
	}
	return codec.Yes
}

// Codec returns a codec for a connection.
func (Protocol) Codec() codec.Codec { return &conn{} }

// Types of frames.
const (
	typeLogin   = 0x01
	typeStatus  = 0x13
	typeCommand = 0x80
	typeTime    = 0x8a
)

// isAnswered reports whether the device waits for an answer to frames of a type.
func isAnswered(kind byte) bool {
	switch kind {
	case typeLogin, typeTime,
		typeStatus, 0x23, 0x36, // heartbeats
		0x16, 0x19, 0x26, 0x27, 0x95, 0xa3, 0xa4, 0xa5: // alarms
		return true
	}
	return false
}

// imeiDigits is the number of digits of an IMEI.
const imeiDigits = 15

// conn is the codec of a connection.
type conn struct {
	id     [imeiDigits]byte // of the last login
	serial uint16           // of the last command to the device
}

// Next takes a frame, or what is between frames.
func (c *conn) Next(input []byte, m *codec.Message) (int, error) {
	f, n, odd := cut(input)
	m.Odd = odd
	if n == 0 || f.kind == 0 {
		return n, nil
	}
	m.Kind = codec.Beat
	if isAnswered(f.kind) {
		m.Note = noteOf(f)
	}
	if f.kind == typeLogin {
		m.Kind = codec.Hello
		m.ID, m.Err = c.login(f.content)
	}
	return n, nil
}

// login reads the IMEI of a login.
func (c *conn) login(content []byte) ([]byte, *codec.Error) {
	if len(content) < 8 {
		return nil, &codec.Error{Code: codec.BadHello, Text: "a login has 8 bytes of IMEI"}
	}
	for i := range c.id {
		// The first nibble is unused, so the digits begin with the second.
		digit := content[(i+1)/2]
		if i%2 == 1 {
			digit >>= 4
		}
		digit &= 0xf
		if digit > 9 {
			return nil, &codec.Error{Code: codec.BadID, Text: fmt.Sprintf("%x is no IMEI in BCD digits", content[:8])}
		}
		c.id[i] = '0' + digit
	}
	return c.id[:], nil
}

// Reply answers with type and serial number of the frame, and with the time of day if it was asked
// for.
func (c *conn) Reply(dst []byte, m *codec.Message, o *codec.Outcome) []byte {
	if m.Note == 0 || o.Err != nil {
		return dst
	}
	f := frameOf(m.Note)
	if f.kind == typeTime {
		t := o.Now.UTC()
		year, month, day := t.Date()
		hour, minute, second := t.Clock()
		f.content = []byte{byte(year - 2000), byte(month), byte(day), byte(hour), byte(minute), byte(second)}
	}
	return appendFrame(dst, f)
}

// noteOf keeps what the answer to a frame needs; frameOf makes the answer of that. A note is never
// 0.
func noteOf(f frame) uint64 {
	return uint64(f.start)<<24 | uint64(f.kind)<<16 | uint64(f.serial)
}

func frameOf(note uint64) frame {
	return frame{start: byte(note >> 24), kind: byte(note >> 16), serial: uint16(note)}
}

// Goodbye appends nothing: the protocol has no such message.
func (c *conn) Goodbye(dst []byte, _ string, _ *codec.Error) []byte { return dst }

// maxCommand is the length of the longest command, for the length of a frame is one byte.
const maxCommand = 0xff - overhead - 5

// Probe appends the command STATUS#.
func (c *conn) Probe(dst []byte) []byte { return c.appendCommand(dst, "STATUS#") }

// Send appends a command: the text of an SMS command in ASCII, with the # at its end.
func (c *conn) Send(dst, payload []byte) ([]byte, error) {
	switch {
	case len(payload) == 0:
		return dst, errors.New("gt06: the command is empty")
	case len(payload) > maxCommand:
		return dst, &codec.Error{Code: codec.TooLong, Text: fmt.Sprintf("gt06: a command has at most %d bytes, not %d", maxCommand, len(payload))}
	}
	for _, b := range payload {
		if b < ' ' || b > '~' {
			return dst, fmt.Errorf("gt06: a command is ASCII text; %q has the byte %#02x", payload, b)
		}
	}
	return c.appendCommand(dst, string(payload)), nil
}

func (c *conn) appendCommand(dst []byte, text string) []byte {
	c.serial++
	var content [5 + maxCommand]byte
	content[0] = byte(4 + len(text))
	binary.BigEndian.PutUint32(content[1:], 0) // a mark that the device returns
	n := 5 + copy(content[5:], text)
	return appendFrame(dst, frame{start: startShort, kind: typeCommand, content: content[:n], serial: c.serial})
}
