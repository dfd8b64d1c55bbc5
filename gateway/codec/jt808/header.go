package jt808

import "encoding/binary"

// The bits of the attributes of a message.
const (
	bodyLength  = 0x03FF
	encrypted   = 0x1C00 // 0: not encrypted
	fragmented  = 0x2000
	edition2019 = 0x4000
	wantsAnswer = 0x8000 // in the messages of locks, whose encryption bits mean something else
)

// maxBody is the longest body, in bytes.
const maxBody = bodyLength

// slack is by how many bytes the length of a body may differ from the declared one. A frame is told
// from garbage by a checksum of one byte and by this length, so it cannot be arbitrary; the devices
// that get it wrong are a few bytes off.
const slack = 32

// terminal is how a device identifies itself in its headers, and how the gateway addresses it.
type terminal struct {
	phone   [10]byte // its number, in BCD, to the right
	version byte     // of the protocol, in the headers of 2019
	of2019  bool     // the header has a version, and a phone of 10 bytes instead of 6
	flag    byte     // that its frames begin and end with
}

// number returns the bytes of the phone number as they stand in the header.
func (t *terminal) number() []byte {
	if t.of2019 {
		return t.phone[:]
	}
	return t.phone[4:]
}

// begin begins a frame to or from the terminal, with a body of the given length.
func (t *terminal) begin(dst []byte, id uint16, length int, serial uint16) writer {
	w := writer{dst: append(dst, t.flag), flag: t.flag}
	w.word(id)
	if t.of2019 {
		w.word(uint16(length) | edition2019)
		w.byte(t.version)
	} else {
		w.word(uint16(length))
	}
	w.bytes(t.number())
	if id == msgLockAnswer {
		w.byte(byte(serial))
	} else {
		w.word(serial)
	}
	return w
}

// header is the decoded header of a message.
type header struct {
	terminal

	id, attr, serial uint16
	size             int // its length; the body follows
	body             int // the length of the body
}

// parse decodes the header of a frame and checks its length and its checksum. It returns what was
// odd, and false if it is no frame.
func (h *header) parse(c *content) (odd string, ok bool) {
	const shortest = 12 + 1 // a header and a checksum
	if c.size < shortest {
		return oddShort, false
	}
	if c.sum != 0 {
		return oddChecksum, false
	}
	if c.badEscapes {
		odd = oddEscape
	}
	h.id = binary.BigEndian.Uint16(c.head[0:])
	h.attr = binary.BigEndian.Uint16(c.head[2:])
	declared := int(h.attr & bodyLength)
	h.of2019 = h.attr&edition2019 != 0
	h.measure(c.size)
	if h.of2019 && h.body != declared && h.body+5 == declared {
		// Some devices set the bit of 2019 in a header of 2013; its length tells.
		h.of2019 = false
		h.measure(c.size)
		odd = oddVersion
	}
	switch off := h.body - declared; {
	case h.body < 0:
		return oddShort, false
	case off < -slack || off > slack:
		return oddLength, false
	case off != 0:
		odd = oddLength
	}
	rest := c.head[4:]
	if h.of2019 {
		h.version = rest[0]
		rest = rest[1:]
	}
	rest = rest[copy(h.number(), rest):]
	h.serial = binary.BigEndian.Uint16(rest)
	if isLock(h.id) {
		h.serial >>= 8
	}
	return odd, true
}

// measure computes the lengths of the header and of the body of a frame.
func (h *header) measure(size int) {
	h.size = 12
	if h.of2019 {
		h.size = 17
	}
	if h.attr&fragmented != 0 {
		h.size += 4 // how many fragments there are, and which one this is
	}
	if isLock(h.id) {
		h.size-- // its serial number has one byte
	}
	h.body = size - 1 - h.size
}
