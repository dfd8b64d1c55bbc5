package gt06

import (
	"bytes"
	"encoding/binary"

	"github.com/holter-iot/holter/gateway/codec/internal/crc16"
)

// What was unusual and tolerated.
const (
	oddCRC     = "crc"
	oddEarly   = "early"
	oddGarbage = "garbage"
	oddLength  = "length"
	oddShort   = "short"

	oddWrongCRC = "crc-wrong"
	oddNoCRC    = "crc-missing"
)

const (
	startShort = 0x78 // twice before a length of one byte
	startLong  = 0x79 // twice before a length of two

	overhead = 5 // what the length counts beside the content: type, serial number and checksum
	endSize  = 2 // 0D0A, which it does not count

	// The longest frame that is waited for. No device is known to send longer ones, so a greater
	// length is none.
	maxFrame = 4 << 10
	// Where a frame must have ended that does not end where its length says.
	maxLost = 512
)

// frame is a decoded frame. Its kind is 0 if it is none.
type frame struct {
	start   byte
	kind    byte
	content []byte
	serial  uint16
	form    form
}

// cut takes the first frame off input, or bytes that are none, and returns what was odd. It takes 0
// bytes if more are needed to tell. What it takes depends on the bytes and the form only, not on how
// many of the following are already there.
func cut(input []byte, as form) (f frame, n int, odd string) {
	switch {
	case !canStart(input):
		return frame{}, garbage(input), oddGarbage
	case len(input) < 4:
		return frame{}, 0, ""
	}
	if as != checked && input[0] == startShort {
		yes, more := isBareLogin(input)
		switch {
		case yes || as == bare:
			return cutBare(input)
		case more:
			return frame{}, 0, ""
		}
	}
	head, length := 3, int(input[2])
	if input[0] == startLong {
		head, length = 4, int(binary.BigEndian.Uint16(input[2:]))
	}
	n = head + length + endSize
	switch {
	case n > maxFrame:
		return frame{}, garbage(input), oddGarbage
	case len(input) < n:
		return frame{}, 0, ""
	case input[n-2] != '\r' || input[n-1] != '\n':
		return cutLost(input, head, max(n, maxLost))
	case length >= overhead:
		if f, ok := open(input[:n], head); ok {
			return f, n, ""
		}
		odd = oddCRC
	default:
		odd = oddShort
	}
	if as != checked {
		return openClone(input[:n], head, as)
	}
	return frame{}, n, odd
}

// cutLost takes a frame off that ends elsewhere than its length says, at the first 0D0A before
// limit, if its checksum is right.
func cutLost(input []byte, head, limit int) (f frame, n int, odd string) {
	i := bytes.Index(input[head+1:min(len(input), limit)], []byte("\r\n"))
	if i < 0 {
		if len(input) < limit {
			return frame{}, 0, ""
		}
		return frame{}, garbage(input[:limit]), oddGarbage
	}
	n = head + 1 + i + endSize
	if n >= head+overhead+endSize {
		if f, ok := open(input[:n], head); ok {
			return f, n, oddLength
		}
	}
	return frame{}, garbage(input[:n]), oddGarbage
}

// open checks and decodes a frame.
func open(input []byte, head int) (frame, bool) {
	end := len(input) - 2*endSize
	f := frame{
		start:   input[0],
		kind:    input[head],
		content: input[head+1 : end-2],
		serial:  binary.BigEndian.Uint16(input[end-2:]),
	}
	return f, f.kind != 0 && binary.BigEndian.Uint16(input[end:]) == checksum(input[2:end])
}

// canStart reports whether a frame can begin with these bytes.
func canStart(input []byte) bool {
	switch {
	case len(input) == 0:
		return true
	case input[0] != startShort && input[0] != startLong:
		return false
	}
	return len(input) == 1 || input[0] == input[1]
}

// garbage returns how many bytes are before the next possible start of a frame, not counting one at
// the first byte.
func garbage(input []byte) int {
	for i := 1; i < len(input); i++ {
		if canStart(input[i:min(len(input), i+2)]) {
			return i
		}
	}
	return len(input)
}

// appendFrame appends a frame, with its length and checksum. The content fits the length.
func appendFrame(dst []byte, f frame) []byte {
	length := len(f.content) + overhead
	dst = append(dst, f.start, f.start)
	begin := len(dst)
	if f.start == startLong {
		dst = append(dst, byte(length>>8))
	}
	dst = append(dst, byte(length), f.kind)
	dst = append(dst, f.content...)
	dst = binary.BigEndian.AppendUint16(dst, f.serial)
	dst = binary.BigEndian.AppendUint16(dst, checksum(dst[begin:]))
	return append(dst, '\r', '\n')
}

var crcTable = crc16.New(0x8408) //nolint:gochecknoglobals // a table that nobody changes

// checksum is CRC-16/X-25, which the documents call CRC-ITU.
func checksum(data []byte) uint16 { return ^crcTable.Update(0xffff, data) }
