package jt808

import (
	"bytes"
	"encoding/binary"
	"slices"
)

const (
	flag   = 0x7E // begins and ends a frame
	escape = 0x7D // 7D 01 stands for 7D, 7D 02 for 7E

	// The same in the dialect of some OBD trackers, which has one more escape: 3E 01 stands for 3E,
	// 3E 02 for 3D.
	otherFlag    = 0xE7
	otherEscape  = 0xE6
	secondEscape = 0x3E
)

// isFlag reports whether a frame can begin and end with a byte.
func isFlag(b byte) bool { return b == flag || b == otherFlag }

// firstEscape returns where the first escape of a content is, -1 if there is none.
func firstEscape(raw []byte, flag byte) int {
	if flag == otherFlag {
		return slices.IndexFunc(raw, func(b byte) bool { return b == otherEscape || b == secondEscape })
	}
	return bytes.IndexByte(raw, escape)
}

// unescaped returns the byte that b, followed by rest, stands for. escaped reports whether the next
// byte belongs to it, and bad whether it should.
func unescaped(b byte, rest []byte, flag byte) (plain byte, escaped, bad bool) {
	if !(flag == otherFlag && (b == otherEscape || b == secondEscape) || flag != otherFlag && b == escape) {
		return b, false, false
	}
	switch {
	case len(rest) == 0 || rest[0] != 1 && rest[0] != 2:
		return b, false, true
	case rest[0] == 1:
		return b, true, false
	case b == secondEscape:
		return secondEscape - 1, true, false
	}
	return b + 1, true, false
}

// maxFrame is the longest frame that is taken, in bytes. The longest that the standard knows has a
// header of 21 bytes, a body of 1023 and a checksum, each byte of them escaped, and two flags: 2092
// bytes.
const maxFrame = 4096

// maxHead is the longest header: that of a fragment, of 2019.
const maxHead = 21

// content is what stands between two flags, without the escapes.
type content struct {
	head       [maxHead]byte // its first bytes
	size       int           // its length, with the checksum
	sum        byte          // of all its bytes; 0 if the checksum is right, since it is their XOR
	badEscapes bool          // an escape was followed by something else, and stands for itself
}

// read takes the escapes out of raw, which stands between two flags.
func (c *content) read(raw []byte, flag byte) {
	first := firstEscape(raw, flag)
	if first < 0 {
		c.size = len(raw)
		c.sum = xor(raw)
		copy(c.head[:], raw)
		return
	}
	c.size = first
	c.sum = xor(raw[:first])
	copy(c.head[:], raw[:first])
	for i := first; i < len(raw); i++ {
		b, escaped, bad := unescaped(raw[i], raw[i+1:], flag)
		if escaped {
			i++
		}
		c.badEscapes = c.badEscapes || bad
		if c.size < maxHead {
			c.head[c.size] = b
		}
		c.size++
		c.sum ^= b
	}
}

// plain returns raw without escapes: raw itself if there is none in it.
func plain(raw []byte, flag byte) []byte {
	if firstEscape(raw, flag) < 0 {
		return raw
	}
	text := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		b, escaped, _ := unescaped(raw[i], raw[i+1:], flag)
		if escaped {
			i++
		}
		text = append(text, b)
	}
	return text
}

// xor is the XOR of all bytes, eight at a time.
func xor(b []byte) byte {
	var words uint64
	for len(b) >= 8 {
		words ^= binary.LittleEndian.Uint64(b)
		b = b[8:]
	}
	words ^= words >> 32
	words ^= words >> 16
	words ^= words >> 8
	sum := byte(words)
	for _, v := range b {
		sum ^= v
	}
	return sum
}

// writer appends a frame to dst and escapes what must be escaped.
type writer struct {
	dst  []byte
	sum  byte
	flag byte
}

func (w *writer) byte(b byte) {
	w.sum ^= b
	switch {
	case b == w.flag:
		w.dst = append(w.dst, w.flag-1, 2)
	case b == w.flag-1:
		w.dst = append(w.dst, b, 1)
	case w.flag == otherFlag && (b == secondEscape || b == secondEscape-1):
		w.dst = append(w.dst, secondEscape, 1+secondEscape-b)
	default:
		w.dst = append(w.dst, b)
	}
}

func (w *writer) word(v uint16) {
	w.byte(byte(v >> 8))
	w.byte(byte(v))
}

func (w *writer) bytes(p []byte) {
	for _, b := range p {
		w.byte(b)
	}
}

// text appends the first bytes of s, at most n of them.
func (w *writer) text(s string, n int) {
	for i := range min(len(s), n) {
		w.byte(s[i])
	}
}

// end appends the checksum and the flag, and returns the whole.
func (w *writer) end() []byte {
	w.byte(w.sum)
	return append(w.dst, w.flag)
}
