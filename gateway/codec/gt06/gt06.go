package gt06

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/holter-iot/holter/gateway/codec"
)

// Protocol is the GT06 protocol. The zero Protocol is ready to use.
type Protocol struct {
	// Lenient also takes frames whose checksum is wrong or missing, as some clones send them. Each is
	// counted as odd. Default: false, they are not heartbeats.
	Lenient bool
}

// Name returns "gt06".
func (Protocol) Name() string { return "gt06" }

// Sniff says Yes to the two bytes that begin each frame, also behind the ends of lines: some modems
// send one when the connection begins.
func (Protocol) Sniff(first []byte) codec.Guess {
	const most = 64
	rest := bytes.TrimLeft(first, "\r\n")
	switch {
	case !canStart(rest), len(rest) < 2 && len(first) >= most:
		return codec.No
	case len(rest) < 2:
		return codec.Maybe
	}
	return codec.Yes
}

// Codec returns a codec for a connection.
func (p Protocol) Codec() codec.Codec {
	if p.Lenient {
		return &conn{form: wrongCRC}
	}
	return &conn{}
}

// imeiDigits is the number of digits of an IMEI.
const imeiDigits = 15

// conn is the codec of a connection.
type conn struct {
	id     [imeiDigits]byte // of the last login
	login  bool             // there was one
	form   form             // of its frames
	serial uint16           // of the last command to the device
}

// Next takes a frame, or what is between frames.
func (c *conn) Next(input []byte, m *codec.Message) (int, error) {
	f, n, odd := cut(input, c.form)
	m.Odd = odd
	if n == 0 || f.kind == 0 {
		return n, nil
	}
	if f.kind != typeLogin && !c.login { // trackers may send what they have stored first; whose it is shows later
		if m.Odd == "" {
			m.Odd = oddEarly
		}
		return n, nil
	}
	m.Kind = codec.Beat
	if isAnswered(f.kind) {
		m.Note = noteOf(f)
	}
	if f.form == bare && isPosition(f.kind) {
		m.Text = f.content[:min(timeSize, len(f.content))]
	}
	if f.kind == typeLogin {
		m.Kind, c.login = codec.Hello, true
		m.ID, m.Err = c.imei(f.content)
		if f.form != checked {
			c.form = f.form
		}
	}
	return n, nil
}

// imei reads the IMEI of a login.
func (c *conn) imei(content []byte) ([]byte, *codec.Error) {
	if len(content) < imeiSize {
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
			return nil, &codec.Error{Code: codec.BadID, Text: fmt.Sprintf("%x is no IMEI in BCD digits", content[:imeiSize])}
		}
		c.id[i] = '0' + digit
	}
	if c.id == [imeiDigits]byte([]byte("000000000000000")) { // that of many devices: all would be one
		return nil, &codec.Error{Code: codec.BadID, Text: "the IMEI is 000000000000000; give the device its own"}
	}
	return c.id[:], nil
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
