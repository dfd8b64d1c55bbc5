package jt808

import (
	"bytes"

	"github.com/holter-iot/holter/gateway/codec"
)

// maxSentence is the longest sentence that is waited for, in bytes. Those that are known have fewer
// than 100.
const maxSentence = 1024

// nextSentence takes a sentence of the text dialect, which electronic locks send beside their
// frames: (ID,1,001,command,arguments). What begins like one and is none is garbage, up to the byte
// that shows it.
func nextSentence(input []byte, m *codec.Message) (int, error) {
	for i, b := range input[1:min(len(input), maxSentence)] {
		if b == ')' {
			understandSentence(input[:i+2], m)
			return i + 2, nil
		}
		if !inSentence(b) {
			m.Odd = oddGarbage
			return i + 1, nil
		}
	}
	if len(input) < maxSentence {
		return 0, nil
	}
	m.Odd = oddGarbage
	return maxSentence, nil
}

// inSentence reports whether a byte may stand in a sentence: printable ASCII without what begins
// a frame or another sentence.
func inSentence(b byte) bool { return b >= ' ' && b < flag && b != '(' }

// understandSentence decodes a sentence into m, whose device is in the first field. It is a
// heartbeat.
func understandSentence(text []byte, m *codec.Message) {
	field, _, _ := bytes.Cut(text[1:len(text)-1], []byte{','})
	if len(field) == 0 || len(field) > maxID || len(digits(field)) > 0 {
		m.Odd = oddGarbage
		return
	}
	m.Kind, m.Note, m.Text = codec.Beat, sentence, text
	if m.ID = bytes.TrimLeft(field, "0"); len(m.ID) == 0 {
		m.Err = noPhone()
	}
}

// digits returns what follows the digits at the beginning of text.
func digits(text []byte) (rest []byte) { return bytes.TrimLeft(text, "0123456789") }

// appendSentence appends the answer to a sentence. Only the query for the time, (ID,1,001,BASE,2,TIME),
// has one: itself with the time of day (UTC) in place of the word.
func appendSentence(dst, text []byte, o *codec.Outcome) []byte {
	const query, word = ",BASE,2", "TIME"
	if o.Err != nil || o.Now.IsZero() || !bytes.Contains(text, []byte(query)) {
		return dst
	}
	before, behind, ok := bytes.Cut(text, []byte(word))
	if !ok {
		return dst
	}
	dst = append(dst, before...)
	dst = o.Now.UTC().AppendFormat(dst, "20060102150405")
	return append(dst, behind...)
}

// sniffSentence reports whether a connection that begins with these bytes, the first of which is a
// parenthesis, speaks the text dialect: digits and a comma follow.
func sniffSentence(first []byte) codec.Guess {
	rest := digits(first[1:])
	switch n := len(first) - 1 - len(rest); {
	case n > maxID || n == 0 && len(rest) > 0:
		return codec.No
	case len(rest) == 0:
		return codec.Maybe
	case rest[0] == ',':
		return codec.Yes
	}
	return codec.No
}
