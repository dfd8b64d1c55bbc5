package packet

import "encoding/binary"

// AppendForwarded appends those of the properties of a PUBLISH packet, or of a will, that a server
// passes on unchanged and in order: payload format, content type, response topic, correlation data
// and user properties (MQTT 5, 3.3.2.3), without a length before them. Topic alias, expiry,
// subscription identifiers and will delay are left out.
//
// properties are the raw ones of a decoded Publish or Will. Of others, all from the first mistake
// on is left out.
func AppendForwarded(dst, properties []byte) []byte {
	for len(properties) > 0 {
		n := propertySize(properties)
		if n == 0 {
			break
		}
		if forwarded.has(properties[0]) {
			dst = append(dst, properties[:n]...)
		}
		properties = properties[n:]
	}
	return dst
}

// UTF8Payload reports whether properties say that the payload is UTF-8 text: payload format 1
// (MQTT 5, 3.3.2.3.2). They are raw, or what AppendForwarded wrote.
func UTF8Payload(properties []byte) bool {
	for len(properties) > 0 {
		n := propertySize(properties)
		if n == 0 {
			break
		}
		if properties[0] == propPayloadFormat {
			return properties[1] == 1
		}
		properties = properties[n:]
	}
	return false
}

// propertySize returns the number of bytes of the property that b begins with, or 0 if there is
// none or if b ends within it.
func propertySize(b []byte) int {
	size := 0
	switch kindOf(b[0]) {
	case kindNone:
		return 0
	case kindByte:
		size = 2
	case kindUint16:
		size = 3
	case kindUint32:
		size = 5
	case kindVarint:
		_, n := varint(b[1:])
		if n <= 0 {
			return 0
		}
		size = 1 + n
	case kindText, kindBinary:
		size = textEnd(b, 1)
	case kindPair:
		size = textEnd(b, textEnd(b, 1))
	}
	if size > len(b) {
		return 0
	}
	return size
}

// textEnd returns where the string ends that begins at b[at], or more than len(b) if b ends before.
func textEnd(b []byte, at int) int {
	if at+2 > len(b) {
		return len(b) + 1
	}
	return at + 2 + int(binary.BigEndian.Uint16(b[at:]))
}
