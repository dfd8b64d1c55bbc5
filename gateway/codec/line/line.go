package line

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/holter-iot/holter/gateway/codec"
)

// maxDuration is the longest duration that is understood, minDuration the shortest.
const (
	maxDuration = 366 * 24 * time.Hour
	minDuration = time.Millisecond
)

// parse decodes a line, given without its end.
func parse(text []byte, m *codec.Message) {
	command, rest := word(text)
	m.Kind = codec.Beat
	switch {
	case is(command, "PING"):
		m.Note, m.Text = ping, bytes.TrimSpace(rest)
	case is(command, "HELLO"):
		parseHello(rest, m)
	case is(command, "PROOF"):
		parseProof(rest, m)
	case is(command, "TTL"):
		m.Kind = codec.Repace
		m.Timeout = parseDuration(m, codec.BadTTL, "TTL", rest)
	case is(command, "SLEEP"):
		m.Kind = codec.Sleep
		m.Duration = parseDuration(m, codec.BadSleep, "SLEEP", rest)
	case is(command, "FAIL"):
		m.Kind, m.Text = codec.Fail, bytes.ToValidUTF8(bytes.TrimSpace(rest), []byte("\uFFFD"))
	case is(command, "ACK"):
		number, _ := word(rest)
		if n, err := strconv.ParseUint(string(number), 10, 63); err == nil {
			m.Acknowledged = n
		}
	case is(command, "BYE"):
		m.Kind = codec.Bye
	case !isText(text):
		m.Odd = oddBinary
	}
}

// ping is the note of a heartbeat that wants an answer.
const ping = 1

// oddBinary is a line that could not have been typed.
const oddBinary = "binary"

func parseHello(rest []byte, m *codec.Message) {
	m.Kind = codec.Hello
	if m.ID, rest = word(rest); len(m.ID) == 0 {
		m.Err = &codec.Error{Code: codec.BadHello, Text: usage}
		return
	}
	if !isText(m.ID) {
		m.Odd = oddBinary
	}
	for {
		var w []byte
		if w, rest = word(rest); len(w) == 0 {
			return
		}
		if m.Err = parseOption(w, m); m.Err != nil {
			return
		}
	}
}

const bounds = "from 1 ms to 366 days (8784h)"

const usage = "write HELLO <id> [token] [ttl=60s] [epoch=n]"

func parseOption(w []byte, m *codec.Message) *codec.Error {
	if value, ok := bytes.CutPrefix(w, []byte("ttl=")); ok {
		d, ok := duration(value)
		if !ok {
			return &codec.Error{Code: codec.BadTTL, Text: fmt.Sprintf("ttl=%s is no duration %s; write ttl=60s", quote(value), bounds)}
		}
		m.Timeout = d
		return nil
	}
	if value, ok := bytes.CutPrefix(w, []byte("epoch=")); ok {
		n, err := strconv.ParseUint(string(value), 10, 63) // the half above is left to number on
		if err != nil || n == 0 {
			return &codec.Error{Code: codec.BadEpoch, Text: quote(w) + " is no epoch; write a whole number from 1 to 9223372036854775807"}
		}
		m.Epoch = n
		return nil
	}
	switch {
	case string(w) == "auth=hmac":
		m.Kind = codec.Challenge
	case m.Token == nil:
		m.Token = w
	default:
		return &codec.Error{Code: codec.BadHello, Text: quote(w) + " is unexpected; " + usage}
	}
	return nil
}

// quote returns a device's word for an error, cut to its beginning if it is long.
func quote(word []byte) string {
	const most = 40
	if len(word) > most {
		return strconv.Quote(string(word[:most])) + "…"
	}
	return strconv.Quote(string(word))
}

func parseProof(rest []byte, m *codec.Message) {
	w, rest := word(rest)
	m.Kind = codec.Proof
	m.Token = make([]byte, hex.DecodedLen(len(w)))
	if _, err := hex.Decode(m.Token, w); err != nil || len(w) == 0 || len(bytes.TrimSpace(rest)) > 0 {
		m.Err = &codec.Error{Code: codec.BadHello, Text: "write PROOF and the HMAC-SHA256 of the nonce under the device's secret, as 64 hexadecimal digits"}
	}
}

func parseDuration(m *codec.Message, code codec.Code, name string, rest []byte) time.Duration {
	w, rest := word(rest)
	d, ok := duration(w)
	if !ok || len(bytes.TrimSpace(rest)) > 0 {
		m.Err = &codec.Error{Code: code, Text: "write " + name + " and a duration " + bounds + ", for instance " + name + " 90s"}
		return 0
	}
	return d
}

// duration parses a number of seconds, or Go's notation.
func duration(w []byte) (time.Duration, bool) {
	d, err := time.ParseDuration(string(w))
	if err != nil {
		s, err := strconv.ParseFloat(string(w), 64)
		if err != nil || math.IsNaN(s) || s > maxDuration.Seconds() {
			return 0, false
		}
		d = time.Duration(s * float64(time.Second))
	}
	return d, d >= minDuration && d <= maxDuration
}

// word cuts the first word off.
func word(text []byte) (w, rest []byte) {
	i := 0
	for i < len(text) && isSpace(text[i]) {
		i++
	}
	j := i
	for j < len(text) && !isSpace(text[j]) {
		j++
	}
	return text[i:j], text[j:]
}

func isSpace(b byte) bool { return b == ' ' || b == '\t' || b == '\r' }

// is compares a word with a command in capitals.
func is(w []byte, command string) bool {
	return len(w) == len(command) && bytes.EqualFold(w, []byte(command))
}

// split cuts the first line off. It returns the line without its end, and what follows; ok is false
// if there is no whole line.
func split(buffer []byte) (text, rest []byte, ok bool) {
	i := bytes.IndexByte(buffer, '\n')
	if i < 0 {
		return nil, buffer, false
	}
	text = buffer[:i]
	if i > 0 && text[i-1] == '\r' {
		text = text[:i-1]
	}
	return text, buffer[i+1:], true
}

// isText reports whether a line could have been typed: UTF-8 without control characters but the
// tab.
func isText(text []byte) bool {
	for _, b := range text {
		if b < ' ' && b != '\t' || b == 0x7f {
			return false
		}
	}
	return utf8.Valid(text)
}
