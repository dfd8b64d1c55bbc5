// Package pulse is a device protocol of one's own in one file, as package codec of the gateway wants it.
// Its sentences look like those of GPS receivers (NMEA 0183): a word, fields, a checksum.
//
//	$HI,pump-3,60*01     the device says who it is, and for how many seconds it may be silent
//	$OK*04               answers that; $NO,busy*… refuses
//	$PU,17*2F            a heartbeat with a number, answered by the same
//	$ZZ,3600*29          it will be silent for an hour; answered by $OK,3600*…
//	$BY*1B               goodbye, answered by the same
//
// The checksum is the exclusive or of all bytes between $ and *, as two hexadecimal digits.
package pulse

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
)

// longest is the longest sentence with its end, in bytes.
const longest = 256

// Protocol is the protocol. Its codec has no state, so that all connections share it.
type Protocol struct{}

// Name implements [codec.Protocol].
func (Protocol) Name() string { return "pulse" }

// Sniff implements [codec.Protocol].
func (Protocol) Sniff(first []byte) codec.Guess {
	hello := []byte("$HI,")
	switch {
	case bytes.HasPrefix(first, hello):
		return codec.Yes
	case bytes.HasPrefix(hello, first):
		return codec.Maybe
	}
	return codec.No
}

// Codec implements [codec.Protocol].
func (p Protocol) Codec() codec.Codec { return p }

// Next implements [codec.Codec].
func (Protocol) Next(input []byte, m *codec.Message) (int, error) {
	end := bytes.IndexByte(input[:min(len(input), longest)], '\n')
	switch {
	case end < 0 && len(input) >= longest:
		return 0, &codec.Error{Code: codec.TooLong, Text: fmt.Sprintf("a sentence has less than %d bytes", longest)}
	case end < 0:
		return 0, nil
	}
	word, field, rest, ok := open(bytes.TrimSuffix(input[:end], []byte("\r")))
	if !ok { // line noise: the checksum tells
		m.Odd = "checksum"
		return end + 1, nil
	}
	parse(string(word), field, rest, m)
	return end + 1, nil
}

// open takes a sentence apart, and reports whether its checksum is right.
func open(sentence []byte) (word, field, rest []byte, ok bool) {
	content, sum, found := bytes.Cut(sentence, []byte("*"))
	if !found || len(content) == 0 || content[0] != '$' {
		return nil, nil, nil, false
	}
	content = content[1:]
	if want, err := strconv.ParseUint(string(sum), 16, 8); err != nil || byte(want) != checksum(content) {
		return nil, nil, nil, false
	}
	word, rest, _ = bytes.Cut(content, []byte(","))
	field, rest, _ = bytes.Cut(rest, []byte(","))
	return word, field, rest, true
}

func checksum(content []byte) (sum byte) {
	for _, b := range content {
		sum ^= b
	}
	return sum
}

// parse fills in what a sentence means.
func parse(word string, field, rest []byte, m *codec.Message) {
	switch word {
	case "HI":
		m.Kind, m.ID = codec.Hello, field
		m.Timeout = seconds(rest, codec.BadTTL, m)
	case "PU":
		m.Kind, m.Text = codec.Beat, field
	case "ZZ":
		m.Kind = codec.Sleep
		m.Duration = seconds(field, codec.BadSleep, m)
	case "BY":
		m.Kind = codec.Bye
	default:
		m.Odd = "unknown"
	}
}

// seconds returns a field as a duration. Nothing is 0, which leaves it to the policy.
func seconds(field []byte, code codec.Code, m *codec.Message) time.Duration {
	if len(field) == 0 && code == codec.BadTTL {
		return 0
	}
	n, err := strconv.ParseUint(string(field), 10, 24)
	if err != nil || n == 0 {
		m.Err = &codec.Error{Code: code, Text: "write a whole number of seconds from 1 to 16777215"}
	}
	return time.Duration(n) * time.Second
}

// Reply implements [codec.Codec].
func (Protocol) Reply(dst []byte, m *codec.Message, o *codec.Outcome) []byte {
	switch {
	case m.Kind == codec.None:
		return dst
	case o.Err != nil:
		return appendSentence(dst, "NO", string(o.Err.Code))
	case m.Kind == codec.Beat:
		return appendSentence(dst, "PU", string(m.Text))
	case m.Kind == codec.Sleep:
		return appendSentence(dst, "OK", strconv.Itoa(int(o.Granted/time.Second)))
	case m.Kind == codec.Bye:
		return appendSentence(dst, "BY", "")
	}
	return appendSentence(dst, "OK", "")
}

// Goodbye implements [codec.Codec].
func (Protocol) Goodbye(dst []byte, _ string, err *codec.Error) []byte {
	if err != nil {
		return appendSentence(dst, "NO", string(err.Code))
	}
	return appendSentence(dst, "BY", "")
}

func appendSentence(dst []byte, word, field string) []byte {
	dst = append(dst, '$')
	from := len(dst)
	dst = append(dst, word...)
	if field != "" {
		dst = append(append(dst, ','), field...)
	}
	return fmt.Appendf(dst, "*%02X\r\n", checksum(dst[from:]))
}
