package line

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"
)

// Kind is what a line means.
type Kind uint8

const (
	// Beat is a line without a meaning of its own.
	Beat Kind = iota
	// Ping asks for a Pong.
	Ping
	// Hello opens a session.
	Hello
	// TTL announces a new timeout.
	TTL
	// Sleep announces silence.
	Sleep
	// Fail reports a failure.
	Fail
	// Bye ends the session.
	Bye
)

// Message is a line, understood. Its slices are parts of the line.
type Message struct {
	Kind     Kind
	ID       []byte        // of Hello
	Token    []byte        // of Hello, nil without one
	Epoch    uint64        // of Hello, 0 without one
	Duration time.Duration // of Hello (its ttl, 0 without one), TTL and Sleep
	Text     []byte        // of Ping (its seq) and Fail
}

// Code names a kind of mistake, the second word of an ERR line.
type Code string

// The codes. Those that Parse returns leave the connection open; the gateway closes it after the ones marked so.
const (
	BadHello     Code = "bad-hello"
	BadID        Code = "bad-id"
	BadTTL       Code = "bad-ttl"
	BadEpoch     Code = "bad-epoch"
	BadSleep     Code = "bad-sleep"
	HelloFirst   Code = "hello-first"  // closes, when repeated
	HelloAgain   Code = "hello-again"  // a second HELLO with another id
	StaleEpoch   Code = "stale-epoch"  // closes
	Unauthorized Code = "unauthorized" // closes
	Full         Code = "full"         // closes
	Busy         Code = "busy"         // closes before the HELLO is answered; later the message is to be said again
	TooLong      Code = "too-long"     // closes
	NotText      Code = "not-text"     // closes
	Timeout      Code = "timeout"      // closes: no HELLO in time
)

// Error is a mistake in a line.
type Error struct {
	Code Code
	Text string // what is wrong and what to do; one line
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Text }

// MaxDuration is the longest duration that is understood.
const MaxDuration = 366 * 24 * time.Hour

// Parse understands a line, given without its end. Its error is nil or an [*Error]. The line is not changed.
func Parse(text []byte) (Message, *Error) {
	command, rest := word(text)
	switch {
	case is(command, "PING"):
		return Message{Kind: Ping, Text: bytes.TrimSpace(rest)}, nil
	case is(command, "HELLO"):
		return parseHello(rest)
	case is(command, "TTL"):
		return parseDuration(TTL, BadTTL, rest)
	case is(command, "SLEEP"):
		return parseDuration(Sleep, BadSleep, rest)
	case is(command, "FAIL"):
		return Message{Kind: Fail, Text: bytes.ToValidUTF8(bytes.TrimSpace(rest), []byte("\uFFFD"))}, nil
	case is(command, "BYE"):
		return Message{Kind: Bye}, nil
	}
	return Message{Kind: Beat}, nil
}

func parseHello(rest []byte) (Message, *Error) {
	m := Message{Kind: Hello}
	m.ID, rest = word(rest)
	if len(m.ID) == 0 {
		return m, &Error{BadHello, "write HELLO <id> [token] [ttl=60s] [epoch=n]"}
	}
	for {
		var w []byte
		if w, rest = word(rest); len(w) == 0 {
			return m, nil
		}
		switch value, isTTL := bytes.CutPrefix(w, []byte("ttl=")); {
		case isTTL:
			d, ok := duration(value)
			if !ok {
				return m, &Error{BadTTL, fmt.Sprintf("ttl=%q is no duration above 0; write ttl=60s", value)}
			}
			m.Duration = d
		case bytes.HasPrefix(w, []byte("epoch=")):
			n, err := strconv.ParseUint(string(w[len("epoch="):]), 10, 64)
			if err != nil || n == 0 {
				return m, &Error{BadEpoch, fmt.Sprintf("%q is no epoch; write a whole number above 0", w)}
			}
			m.Epoch = n
		case m.Token == nil:
			m.Token = w
		default:
			return m, &Error{BadHello, fmt.Sprintf("%q is too much; write HELLO <id> [token] [ttl=60s] [epoch=n]", w)}
		}
	}
}

func parseDuration(kind Kind, code Code, rest []byte) (Message, *Error) {
	w, rest := word(rest)
	d, ok := duration(w)
	if !ok || len(bytes.TrimSpace(rest)) > 0 {
		name := [...]string{TTL: "TTL", Sleep: "SLEEP"}[kind]
		return Message{Kind: Beat}, &Error{code, "write " + name + " and a duration above 0, for instance " + name + " 90s"}
	}
	return Message{Kind: kind, Duration: d}, nil
}

// duration understands a number of seconds, or Go's notation.
func duration(w []byte) (time.Duration, bool) {
	d, err := time.ParseDuration(string(w))
	if err != nil {
		s, err := strconv.ParseFloat(string(w), 64)
		if err != nil || math.IsNaN(s) || s > MaxDuration.Seconds() {
			return 0, false
		}
		d = time.Duration(s * float64(time.Second))
	}
	return d, d > 0 && d <= MaxDuration
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
	if len(w) != len(command) {
		return false
	}
	for i := range w {
		c := w[i]
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		if c != command[i] {
			return false
		}
	}
	return true
}

// Split cuts the first line off. It returns the line without its end, and what follows; ok is false if there is no whole line.
func Split(buffer []byte) (text, rest []byte, ok bool) {
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

// IsText says whether a line could have been typed: UTF-8 without control characters but the tab.
func IsText(text []byte) bool {
	for _, b := range text {
		if b < ' ' && b != '\t' || b == 0x7f {
			return false
		}
	}
	return utf8.Valid(text)
}

// AppendOK appends the answer to a HELLO.
func AppendOK(dst []byte, epoch uint64, ttl time.Duration) []byte {
	dst = append(dst, "OK "...)
	dst = strconv.AppendUint(dst, epoch, 10)
	dst = append(dst, " ttl="...)
	return append(appendSeconds(dst, ttl), '\n')
}

// AppendPong appends the answer to a PING.
func AppendPong(dst, seq []byte) []byte {
	if len(seq) == 0 {
		return append(dst, "PONG\n"...)
	}
	dst = append(dst, "PONG "...)
	dst = append(dst, seq...)
	return append(dst, '\n')
}

// AppendTTL appends the timeout that holds from now on.
func AppendTTL(dst []byte, ttl time.Duration) []byte {
	return append(appendSeconds(append(dst, "TTL "...), ttl), "s\n"...)
}

// AppendSleep appends the answer to a SLEEP.
func AppendSleep(dst []byte, granted time.Duration) []byte {
	return append(appendSeconds(append(dst, "OK sleep="...), granted), '\n')
}

// AppendError appends the answer to a mistake.
func AppendError(dst []byte, e *Error) []byte {
	dst = append(dst, "ERR "...)
	dst = append(dst, e.Code...)
	dst = append(dst, ' ')
	dst = append(dst, e.Text...)
	return append(dst, '\n')
}

// AppendBye appends the gateway's goodbye.
func AppendBye(dst []byte, why string) []byte {
	dst = append(dst, "BYE"...)
	if why != "" {
		dst = append(dst, ' ')
		dst = append(dst, why...)
	}
	return append(dst, '\n')
}

func appendSeconds(dst []byte, d time.Duration) []byte {
	return strconv.AppendFloat(dst, d.Seconds(), 'f', -1, 64)
}
