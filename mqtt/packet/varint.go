package packet

// maxVarint is the largest variable byte integer (MQTT 5, 1.5.5).
const maxVarint = 268_435_455

// varint reads the variable byte integer that b begins with, of n bytes: 0 if b ends within it, -1
// if it goes on after the fourth.
func varint(b []byte) (value, n int) {
	for i := range 4 {
		if i == len(b) {
			return 0, 0
		}
		value |= int(b[i]&0x7F) << (7 * i)
		if b[i] < 0x80 {
			return value, i + 1
		}
	}
	return 0, -1
}

// varintSize returns the number of bytes that value needs.
func varintSize(value int) int {
	switch {
	case value < 1<<7:
		return 1
	case value < 1<<14:
		return 2
	case value < 1<<21:
		return 3
	default:
		return 4
	}
}

func appendVarint(dst []byte, value int) []byte {
	for ; value >= 0x80; value >>= 7 {
		dst = append(dst, byte(value)|0x80)
	}
	return append(dst, byte(value))
}
