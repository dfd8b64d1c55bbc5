package dtu

import (
	"encoding/hex"
	"io"
	"unicode/utf8"
)

// match holds the beginning of a connection against the expression. It returns the id and the
// length of the registration, 0 if there is none; maybe says that there could be one if more came
// in.
func (p *Protocol) match(input []byte) (id []byte, n int, maybe bool) {
	r := reader{input: input[:min(len(input), maxRegistration)], hex: p.hex}
	at := p.expression.FindReaderSubmatchIndex(&r)
	if at == nil {
		return nil, 0, r.ended && len(input) < maxRegistration
	}
	group := at[4:]
	if len(group) == 0 || group[0] < 0 {
		group = at[2:4]
	}
	return r.text(group[0], group[1]), r.bytes(at[1]), false
}

// reader is the input as the expression sees it: as text, or in hexadecimal.
//
// It notes whether the expression wanted to see what follows the input. If it did not, it would say
// the same of a longer one.
type reader struct {
	input []byte
	hex   bool
	at    int // the next byte, or digit
	ended bool
}

// ReadRune implements [io.RuneReader].
func (r *reader) ReadRune() (c rune, size int, err error) {
	if r.hex {
		if r.at/2 >= len(r.input) {
			r.ended = true
			return 0, 0, io.EOF
		}
		digit := r.input[r.at/2] >> 4
		if r.at%2 == 1 {
			digit = r.input[r.at/2] & 15
		}
		r.at++
		return rune("0123456789abcdef"[digit]), 1, nil
	}
	rest := r.input[r.at:]
	if !utf8.FullRune(rest) {
		r.ended = true
		return 0, 0, io.EOF
	}
	c, size = utf8.DecodeRune(rest)
	r.at += size
	return c, size, nil
}

// text is a part of what the expression saw.
func (r *reader) text(from, to int) []byte {
	if !r.hex {
		return r.input[from:to:to]
	}
	return hex.AppendEncode(nil, r.input)[from:to]
}

// bytes is how much of the input is up to a place that the expression saw.
func (r *reader) bytes(to int) int {
	if r.hex {
		return (to + 1) / 2
	}
	return to
}
