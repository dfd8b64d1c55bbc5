package jt808

import (
	"bytes"
	"encoding/binary"
)

const (
	flag   = 0x7E // begins and ends a frame
	escape = 0x7D // 7D 01 stands for 7D, 7D 02 for 7E
)

// maxFrame is the longest frame that is taken, in bytes. The longest that the standard knows has a header of 21 bytes, a body of 1023 and
// a checksum, each byte of them escaped, and two flags: 2092 bytes.
const maxFrame = 4096

// maxHead is the longest header: that of a fragment, of 2019.
const maxHead = 21

// A content is what stands between two flags, with the escapes taken out.
type content struct {
	head       [maxHead]byte // its first bytes
	size       int           // its length, with the checksum
	sum        byte          // of all its bytes; 0 if the checksum is right, since it is their XOR
	badEscapes bool          // 7D was followed by something else, and stands for itself
}

// read takes the escapes out of raw.
func (c *content) read(raw []byte) {
	first := bytes.IndexByte(raw, escape)
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
		b := raw[i]
		if b == escape {
			if plain, ok := unescaped(raw[i+1:]); ok {
				b = plain
				i++
			} else {
				c.badEscapes = true
			}
		}
		if c.size < maxHead {
			c.head[c.size] = b
		}
		c.size++
		c.sum ^= b
	}
}

// unescaped is what a 7D that is followed by rest stands for.
func unescaped(rest []byte) (byte, bool) {
	if len(rest) == 0 || rest[0] != 1 && rest[0] != 2 {
		return 0, false
	}
	return escape - 1 + rest[0], true
}

// plain returns raw without escapes: raw itself if there is none in it.
func plain(raw []byte) []byte {
	if bytes.IndexByte(raw, escape) < 0 {
		return raw
	}
	text := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		b := raw[i]
		if b == escape {
			if p, ok := unescaped(raw[i+1:]); ok {
				b = p
				i++
			}
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

// A writer appends a frame to dst and escapes what must be.
type writer struct {
	dst []byte
	sum byte
}

func (w *writer) byte(b byte) {
	w.sum ^= b
	switch b {
	case flag:
		w.dst = append(w.dst, escape, 2)
	case escape:
		w.dst = append(w.dst, escape, 1)
	default:
		w.dst = append(w.dst, b)
	}
}

func (w *writer) word(v uint16) {
	w.byte(byte(v >> 8))
	w.byte(byte(v))
}

func (w *writer) dword(v uint32) {
	w.word(uint16(v >> 16))
	w.word(uint16(v))
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
	return append(w.dst, flag)
}
