package packet

import "encoding/binary"

// A reader takes the fields of a packet off rest. After the first error there is nothing left to
// take, and every field is zero.
type reader struct {
	rest []byte
	err  *Error
}

func (r *reader) fail(c Code, text string) {
	if r.err == nil {
		r.err = &Error{Code: c, Text: text}
	}
	r.rest = nil
}

func (r *reader) short() {
	r.fail(MalformedPacket, "a packet ends within a field (MQTT 5, 4.13)")
}

// end returns what was wrong. The packet must have been read to its end.
func (r *reader) end() error {
	if len(r.rest) > 0 {
		r.fail(MalformedPacket, "a packet has more bytes than its fields (MQTT 5, 4.13)")
	}
	if r.err != nil {
		return r.err
	}
	return nil
}

func (r *reader) byte() byte {
	if len(r.rest) < 1 {
		r.short()
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *reader) uint16() uint16 {
	if len(r.rest) < 2 {
		r.short()
		return 0
	}
	n := binary.BigEndian.Uint16(r.rest)
	r.rest = r.rest[2:]
	return n
}

func (r *reader) uint32() uint32 {
	if len(r.rest) < 4 {
		r.short()
		return 0
	}
	n := binary.BigEndian.Uint32(r.rest)
	r.rest = r.rest[4:]
	return n
}

// varint reads a variable byte integer of MQTT 5, which has no more bytes than it needs.
func (r *reader) varint() int {
	value, n := varint(r.rest)
	switch {
	case n == 0:
		r.short()
		return 0
	case n != varintSize(value):
		r.fail(MalformedPacket, "a variable byte integer has more bytes than it may have (MQTT 5, 1.5.5)")
		return 0
	}
	r.rest = r.rest[n:]
	return value
}

// bytes reads binary data. It is not nil, unless there was an error.
func (r *reader) bytes() []byte {
	return r.takeBytes(int(r.uint16()))
}

func (r *reader) takeBytes(n int) []byte {
	if len(r.rest) < n {
		r.short()
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

// text reads a string.
func (r *reader) text() []byte {
	s := r.bytes()
	if !validText(s) {
		r.fail(MalformedPacket, "a string is not UTF-8, or has NUL (MQTT 5, 1.5.4)")
		return nil
	}
	return s
}

// id reads a packet identifier.
func (r *reader) id() uint16 {
	id := r.uint16()
	if id == 0 {
		r.fail(ProtocolError, "packet identifier 0 (MQTT 5, 2.2.1)")
	}
	return id
}
