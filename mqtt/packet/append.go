package packet

import "encoding/binary"

// open begins a packet whose length is not known yet: seal writes it to opened[at], when the packet
// is complete.
func open(dst []byte, t Type) (opened []byte, at int) {
	dst = append(dst, byte(t)<<4|t.flags(), 0)
	return dst, len(dst) - 1
}

// seal writes the length of all that is behind dst[at] to dst[at], a byte that was left free for
// it, and makes room for the length if it needs more.
func seal(dst []byte, at int) []byte {
	size := len(dst) - at - 1
	n := varintSize(size)
	for range n - 1 {
		dst = append(dst, 0)
	}
	copy(dst[at+n:], dst[at+1:at+1+size])
	appendVarint(dst[:at], size)
	return dst
}

// appendText appends a string, or binary data: its length in two bytes before it.
func appendText[T []byte | string](dst []byte, s T) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(s)))
	return append(dst, s...)
}

// appendString appends a property that is a string, unless it is empty.
func appendString[T []byte | string](dst []byte, property byte, s T) []byte {
	if len(s) == 0 {
		return dst
	}
	return appendText(append(dst, property), s)
}

func appendUint16(dst []byte, property byte, value uint16) []byte {
	return binary.BigEndian.AppendUint16(append(dst, property), value)
}

func appendUint32(dst []byte, property byte, value uint32) []byte {
	return binary.BigEndian.AppendUint32(append(dst, property), value)
}
