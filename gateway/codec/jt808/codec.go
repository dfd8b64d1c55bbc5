package jt808

import (
	"bytes"
	"slices"

	"github.com/holter-iot/holter/gateway/codec"
)

// What was unusual, and tolerated unless the message means nothing.
const (
	// oddGarbage are bytes outside of frames; they mean nothing.
	oddGarbage = "garbage"
	// oddShort is a frame that ends within its header; it means nothing.
	oddShort = "short"
	// oddChecksum is a frame whose checksum is wrong; it means nothing.
	oddChecksum = "checksum"
	// oddLength is a body of another length than the header declares. It means nothing if they
	// differ by more than 32 bytes.
	oddLength = "length"
	// oddEcho is a message that the gateway sends itself; it means nothing.
	oddEcho = "echo"
	// oddEscape is a byte that begins an escape (7D) and is followed by neither 01 nor 02; it is
	// taken for itself.
	oddEscape = "escape"
	// oddVersion is a header of 2013 whose attributes say that it is one of 2019.
	oddVersion = "version"
	// oddPhone is a phone number that is not in BCD.
	oddPhone = "phone"
	// oddHeartbeat is a heartbeat with a body, or with a message id that is not the standard's.
	oddHeartbeat = "heartbeat"
	// oddAuth is an authentication that is encrypted, or laid out otherwise than in the standard.
	oddAuth = "auth"
)

// conn is the codec of a connection. It has 40 bytes.
type conn struct {
	terminal // of the last message

	known    bool        // there was one
	shares   bool        // what was taken last is a message, whose second flag may begin the next one, too
	bcd      bool        // its phone number is in BCD
	id       [maxID]byte // of the terminal
	idSize   uint8       // how much of id is used
	textFlag byte        // of Protocol
	serial   uint16      // of the next message to the device
}

// What the note of a message says beside its id and its serial number.
const (
	fragment = 1 << 32 // it is one
	unasked  = 1 << 33 // it wants no answer
	sentence = 1 << 34 // it is a sentence of the text dialect
)

// Named implements [codec.Named].
func (*conn) Named() {}

// Next implements [codec.Codec].
func (c *conn) Next(input []byte, m *codec.Message) (int, error) {
	if len(input) == 0 {
		return 0, nil
	}
	if !c.begins(input[0]) {
		if c.shares {
			return c.nextShared(input, m)
		}
		m.Odd = oddGarbage
		if n := slices.IndexFunc(input, c.begins); n > 0 {
			return n, nil
		}
		return len(input), nil
	}
	c.shares = false
	if input[0] == '(' {
		return nextSentence(input, m)
	}
	size := bytes.IndexByte(input[1:min(len(input), maxFrame)], input[0])
	switch {
	case size < 0 && len(input) >= maxFrame:
		return 0, &codec.Error{Code: codec.TooLong, Text: "a frame is longer than 4096 bytes; begin and end each with 7e"}
	case size < 0:
		return 0, nil
	case size == 0: // the flag before was the end of something
		m.Odd = oddGarbage
		return 1, nil
	}
	if !c.understand(input[1:1+size], input[0], m) {
		return 1 + size, nil // the second flag may be the beginning of a frame
	}
	c.shares = c.known
	return 1 + size + 1, nil
}

// nextShared takes a message that has one flag with the message before, which took it. What is none is
// garbage.
func (c *conn) nextShared(input []byte, m *codec.Message) (int, error) {
	size := bytes.IndexByte(input[:min(len(input), maxFrame)], c.flag)
	switch {
	case size < 0 && len(input) < maxFrame:
		return 0, nil
	case size > 0 && c.understand(input[:size], c.flag, m):
		return size + 1, nil
	case size < 0:
		size = maxFrame
	}
	c.shares = false
	m.Odd = oddGarbage
	return size, nil
}

// begins reports whether a message can begin with a byte. Once a device has sent a frame, its flag
// is known.
func (c *conn) begins(b byte) bool {
	if c.known && b != '(' {
		return b == c.flag
	}
	return isFlag(b) || b == '('
}

// understand decodes the content between two flags into m, and reports whether it is a message.
func (c *conn) understand(raw []byte, flag byte, m *codec.Message) bool {
	var (
		text content
		h    header
		ok   bool
	)
	text.read(raw, flag)
	if m.Odd, ok = h.parse(&text); !ok {
		return false
	}
	h.flag = flag
	m.Note = uint64(h.id)<<16 | uint64(h.serial)
	if isOurs(h.id) {
		m.Odd = oddEcho
		return true
	}
	c.meet(&h.terminal)
	if !c.bcd {
		m.Odd = oddPhone
	}
	m.ID = c.id[:c.idSize]
	m.Kind = codec.Beat
	if c.idSize == 0 {
		m.Err = noPhone()
	}
	if h.attr&fragmented != 0 {
		m.Note |= fragment
		return true
	}
	switch h.id {
	case msgRegister:
		m.Kind = codec.Register
	case msgLock, msgLockStored:
		if h.attr&wantsAnswer == 0 {
			m.Note |= unasked
		}
	case msgAuth:
		c.authenticate(raw, &h, m)
	case msgLogout:
		m.Kind = codec.Bye
	case msgHeartbeat:
		if h.body > 0 {
			m.Odd = oddHeartbeat
		}
	case msgOtherHeartbeat:
		m.Odd = oddHeartbeat
	}
	return true
}

// meet notes which device sends.
func (c *conn) meet(t *terminal) {
	if c.known && c.terminal == *t {
		return
	}
	c.terminal, c.known = *t, true
	var id []byte
	if id, c.bcd = appendID(c.id[:0], c.number()); len(id) == 2*len(c.number()) && len(bytes.Trim(id, "f")) == 0 {
		id = nil // that of no device
	}
	c.idSize = uint8(len(id))
}

// noPhone is the mistake of a message whose device has no phone number, as many have none when they
// are delivered: they would all be one device.
func noPhone() *codec.Error {
	return &codec.Error{Code: codec.BadID, Text: "all digits of the phone number are 0, or f; give the device a number of its own in its settings"}
}

// authenticate fills m with an authentication. If it is encrypted, it shows no token.
func (c *conn) authenticate(raw []byte, h *header, m *codec.Message) {
	m.Kind = codec.Hello
	if h.attr&encrypted != 0 {
		m.Odd = oddAuth
		return
	}
	body := plain(raw, h.flag)[h.size:][:h.body]
	if h.of2019 {
		var ok bool
		if body, ok = code2019(body); !ok {
			m.Odd = oddAuth
		}
	}
	// A STRING may end with zeros: those of 2011 always do.
	if body = bytes.TrimRight(body, "\x00"); len(body) > 0 {
		m.Token = body
	}
}

// code2019 returns the code of an authentication of 2019: behind its length, and before an IMEI and
// the version of the firmware. If they are not there, it is behind its length if that can be one,
// or else, as it was before 2019, the whole body.
func code2019(body []byte) (code []byte, ok bool) {
	const imei, firmware = 15, 20
	if len(body) == 0 {
		return nil, false
	}
	size := int(body[0])
	switch rest := len(body) - 1 - size; {
	case rest == imei+firmware:
		return body[1:][:size], true
	case rest >= 0 && size < ' ': // no letter of a code
		return body[1:][:size], false
	}
	return body, false
}
