package gt06

import (
	"bytes"
	"encoding/binary"
)

// form is what a device puts behind the content of its frames. A device that is a clone of the GT06
// shows its form by its login.
type form uint8

const (
	checked  form = iota // a serial number and a right checksum; others are not taken
	wrongCRC             // a serial number and a checksum, which may be wrong
	noCRC                // a serial number
	bare                 // nothing; the length does not tell where the frame ends
)

// trailer returns how many bytes a form has between the content and 0D0A.
func (f form) trailer() int {
	switch f {
	case checked, wrongCRC:
		return 4
	case noCRC:
		return 2
	case bare:
	}
	return 0
}

// odd returns how a frame of a clone is counted.
func (f form) odd() string {
	if f == wrongCRC {
		return oddWrongCRC
	}
	return oddNoCRC
}

// imeiSize is the number of bytes of the IMEI in a login.
const imeiSize = 8

// formOfLogin returns the form of a login that has so many bytes behind its type: the IMEI, then a
// type and a time zone of two bytes each or nothing, or one byte with a version.
func formOfLogin(size int) form {
	switch {
	case size < imeiSize+2:
		return bare
	case size < imeiSize+4:
		return noCRC
	}
	return wrongCRC
}

// isBareLogin reports whether input begins with a login that ends behind the IMEI, or a byte later.
// A login with a serial number of 0D0A looks the same. more reports whether the next byte tells.
func isBareLogin(input []byte) (yes, more bool) {
	const end = 4 + imeiSize
	switch {
	case input[0] != startShort || input[3] != typeLogin, 3+int(input[2]) < end:
		return false, false
	case len(input) < end+endSize:
		return false, true
	case isEnd(input[end:]):
		return true, false
	}
	return isEnd(input[end+1:]), len(input) == end+endSize
}

func isEnd(input []byte) bool { return len(input) >= endSize && input[0] == '\r' && input[1] == '\n' }

// cutBare takes a frame without serial number and checksum off, which ends at the first 0D0A.
func cutBare(input []byte) (f frame, n int, odd string) {
	const head = 3
	from := head + 1
	if input[head] == typeLogin {
		from += imeiSize
	}
	switch i := bytes.Index(input[min(from, len(input)):min(len(input), maxLost)], []byte("\r\n")); {
	case i >= 0:
		n = from + i + endSize
		return openClone(input[:n], head, bare)
	case len(input) < maxLost:
		return frame{}, 0, ""
	}
	return frame{}, garbage(input[:maxLost]), oddGarbage
}

// openClone decodes a frame whose checksum is wrong or missing.
func openClone(input []byte, head int, as form) (f frame, n int, odd string) {
	body := input[head : len(input)-endSize]
	if len(body) == 0 || body[0] == 0 {
		return frame{}, len(input), oddShort
	}
	f = frame{start: input[0], kind: body[0]}
	rest := body[1:]
	switch {
	case f.kind == typeLogin:
		as = formOfLogin(len(rest))
	case as == wrongCRC && len(rest) < as.trailer():
		as = noCRC
	}
	end := max(len(rest)-as.trailer(), 0)
	f.form, f.content = as, rest[:end]
	if len(rest) >= end+2 && as != bare {
		f.serial = binary.BigEndian.Uint16(rest[end:])
	}
	return f, len(input), as.odd()
}

// appendBare appends an answer in the form of a bare frame: its type, or its type and the time that
// the frame began with, which the length does not count.
func appendBare(dst []byte, kind byte, time []byte) []byte {
	length := byte(1)
	if len(time) > 0 {
		length = 0
	}
	dst = append(dst, startShort, startShort, length, kind)
	return append(append(dst, time...), '\r', '\n')
}
