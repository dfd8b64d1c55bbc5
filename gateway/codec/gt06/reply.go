package gt06

import "github.com/holter-iot/holter/gateway/codec"

// Types of frames that are more than heartbeats to the gateway, or that it sends.
const (
	typeLogin   = 0x01
	typeStatus  = 0x13
	typeRequest = 0x2a // of the address of a position
	typeModules = 0x70 // positions, cells and sensors, as a list
	typeCommand = 0x80
	typeTime    = 0x8a
	typeAddress = 0x97
)

// isAnswered reports whether devices may wait for an answer to frames of a type.
func isAnswered(kind byte) bool {
	switch kind {
	case typeLogin, typeTime, typeRequest, typeModules,
		typeStatus, 0x23, 0x36, // heartbeats
		0x16, 0x19, 0x26, 0x27, 0x39, 0x95, 0xa3, 0xa4, 0xa5, 0xa9, // alarms
		0x32, 0x33, 0x40, 0x41, 0xf1, 0xf2: // positions of an AZ735, batteries, pictures, states
		return true
	}
	return isPosition(kind)
}

// isPosition reports whether a type is a position: by satellites, by cells or by networks nearby.
// The documents of Concox want no answer to those, but take one. Trackers of other makers connect
// again if there is none.
func isPosition(kind byte) bool {
	switch kind {
	case 0x10, 0x11, 0x12, 0x1a, 0x1e, 0x22, 0x25, 0x2d, 0x31, 0x34, 0x37, 0xa0, // satellites
		0x17, 0x18, 0x24, 0x28, 0x2c, 0x2e, 0x69, 0xa1, 0xa2, 0xa7, 0xf3: // cells and networks
		return true
	}
	return false
}

// timeSize is the number of bytes of a time, from the year to the second.
const timeSize = 6

// Reply answers with type and serial number of the frame; with the time of day or an address if it
// was asked for.
func (c *conn) Reply(dst []byte, m *codec.Message, o *codec.Outcome) []byte {
	if m.Note == 0 || o.Err != nil {
		return dst
	}
	f := frameOf(m.Note)
	switch {
	case f.form == bare && (f.kind == typeTime || f.kind == typeRequest):
		return dst // no such tracker is known to ask
	case f.form == bare:
		return appendBare(dst, f.kind, m.Text)
	}
	switch f.kind {
	case typeTime:
		t := o.Now.UTC()
		year, month, day := t.Date()
		hour, minute, second := t.Clock()
		f.content = []byte{byte(year - 2000), byte(month), byte(day), byte(hour), byte(minute), byte(second)}
	case typeRequest:
		f.start, f.kind, f.content = startLong, typeAddress, []byte(noAddress)
	case typeModules:
		f.start = startShort // although the frame is a long one
	}
	return appendFrame(dst, f)
}

// noAddress is the answer to the request of an address, which the device passes on to a telephone:
// its length, a mark of four bytes, and in place of the address and the telephone number that there
// is none.
const noAddress = "\x0b\x00\x00\x00\x00NA&&NA&&0##"

// noteOf keeps what the answer to a frame needs; frameOf makes the answer of that. A note is never
// 0.
func noteOf(f frame) uint64 {
	return uint64(f.form)<<32 | uint64(f.start)<<24 | uint64(f.kind)<<16 | uint64(f.serial)
}

func frameOf(note uint64) frame {
	return frame{form: form(note >> 32), start: byte(note >> 24), kind: byte(note >> 16), serial: uint16(note)}
}
