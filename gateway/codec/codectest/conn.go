package codectest

import (
	"bytes"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
)

// conn is one connection of a codec, with the gateway played by the kit.
type conn struct {
	tb    testing.TB
	codec codec.Codec
	judge func(c *conn, m *codec.Message) codec.Outcome

	input  []byte // what came in and was not taken yet
	before []byte // a copy of it, to see whether the codec changes it
	open   bool   // the session
	said   []said
	err    error // of Next: the connection is closed
	odd    map[string]bool
	dst    []byte // what answers are appended to
}

// said is a message, as far as it may not depend on how it came in, and its answer.
type said struct {
	kind                        codec.Kind
	id, token, text             string
	epoch                       uint64
	timeout, interval, duration time.Duration
	mistake                     codec.Code
	reply                       string
}

func (s said) String() string {
	text := kindName(s.kind)
	add := func(set bool, format string, v any) {
		if set {
			text += fmt.Sprintf(format, v)
		}
	}
	add(s.id != "", " id=%q", s.id)
	add(s.token != "", " token=%q", s.token)
	add(s.text != "", " text=%q", s.text)
	add(s.epoch != 0, " epoch=%d", s.epoch)
	add(s.timeout != 0, " timeout=%v", s.timeout)
	add(s.interval != 0, " interval=%v", s.interval)
	add(s.duration != 0, " duration=%v", s.duration)
	add(s.mistake != "", " mistake=%s", s.mistake)
	add(true, " answered by %q", s.reply)
	return text
}

// kindName names a kind as package codec does.
func kindName(k codec.Kind) string {
	names := []string{"None", "Register", "Challenge", "Proof", "Hello", "Beat", "Repace", "Sleep", "Fail", "Bye"}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("Kind(%d)", k)
}

func newConn(tb testing.TB, c codec.Codec) *conn {
	tb.Helper()
	return &conn{tb: tb, codec: c, judge: accept, odd: map[string]bool{}, dst: make([]byte, 0, 512)}
}

// play returns a connection on which the pieces came in.
func play(tb testing.TB, c codec.Codec, pieces ...[]byte) *conn {
	tb.Helper()
	conn := newConn(tb, c)
	for _, p := range pieces {
		conn.receive(p)
	}
	return conn
}

// receive is one read of the connection.
func (c *conn) receive(piece []byte) {
	c.tb.Helper()
	if c.err != nil {
		return
	}
	grown := slices.Concat(c.input, piece)
	poison(c.input)
	c.input = slices.Clip(grown)
	c.before = bytes.Clone(grown)
	for len(c.input) > 0 && c.readMore() {
		continue
	}
}

// readMore takes one message and answers it. It returns false if there is none.
func (c *conn) readMore() bool {
	c.tb.Helper()
	var m codec.Message
	n := c.next(&m)
	if n == 0 {
		return false
	}
	c.checkMessage(&m)
	s := said{
		kind: m.Kind, id: string(m.ID), token: string(m.Token), epoch: m.Epoch,
		timeout: m.Timeout, interval: m.Interval, duration: m.Duration,
	}
	if m.Kind == codec.Fail {
		s.text = string(m.Text)
	}
	if m.Err != nil {
		s.mistake = m.Err.Code
	}
	if m.Odd != "" {
		c.odd[m.Odd] = true
	}
	o := c.judge(c, &m)
	s.reply = string(c.reply(&m, &o))
	if s.kind != codec.None || s.reply != "" {
		c.said = append(c.said, s)
	}
	poison(c.input[:n])
	c.input, c.before = c.input[n:], c.before[n:]
	return true
}

// next calls Next and holds it against its contract. It returns 0 if there is no message, or no
// more.
func (c *conn) next(m *codec.Message) int {
	c.tb.Helper()
	var n int
	var err error
	c.guard("Next", func() { n, err = c.codec.Next(c.input, m) })
	switch {
	case !bytes.Equal(c.input, c.before):
		c.tb.Fatalf("Next changed its input, which it must not: it was\n%s\nand is\n%s", dump(c.before), dump(c.input))
	case err != nil:
		c.checkError(err)
		c.err = err
		return 0
	case n < 0 || n > len(c.input):
		c.tb.Fatalf("Next returned n = %d for an input of %d bytes; want 0 to %d\n%s", n, len(c.input), len(c.input), dump(c.before))
	case n == 0 && len(c.input) >= codec.MaxMessage:
		c.tb.Fatalf("Next still waits for more after %d bytes; a codec must find an end or return an error before codec.MaxMessage (%d bytes): "+
			"bound the length of your messages\n%s", len(c.input), codec.MaxMessage, dump(c.before))
	}
	return n
}

func (c *conn) checkMessage(m *codec.Message) {
	c.tb.Helper()
	switch {
	case m.Kind > codec.Bye:
		c.tb.Fatalf("Next set Kind to %d, which is no codec.Kind\n%s", m.Kind, dump(c.before))
	case m.Timeout < 0 || m.Interval < 0 || m.Duration < 0:
		c.tb.Fatalf("Next set a duration below 0 (Timeout %v, Interval %v, Duration %v); bound it before you multiply it by its unit\n%s",
			m.Timeout, m.Interval, m.Duration, dump(c.before))
	case m.Odd != "" && !isLabel(m.Odd):
		c.tb.Fatalf("Next set Odd to %q; it becomes a metric's label: use a constant of lower-case letters, digits and hyphens\n%s", m.Odd, dump(c.before))
	}
	if m.Err != nil {
		c.checkError(m.Err)
	}
}

// checkError looks at what a device may be told.
func (c *conn) checkError(err error) {
	c.tb.Helper()
	e, ok := errors.AsType[*codec.Error](err)
	if !ok {
		return
	}
	if e == nil || e.Code == "" || e.Text == "" || strings.ContainsAny(e.Text, "\r\n") {
		c.tb.Fatalf("Next returned the error %#v; a *codec.Error needs a Code and a Text of one line: what is wrong, and what to do\n%s", e, dump(c.before))
	}
}

// reply calls Reply and holds it against its contract. It returns what was appended.
func (c *conn) reply(m *codec.Message, o *codec.Outcome) []byte {
	c.tb.Helper()
	id, kind := string(m.ID), m.Kind
	out := c.appended("Reply", func(dst []byte) []byte { return c.codec.Reply(dst, m, o) })
	if string(m.ID) != id {
		c.tb.Fatalf("the ID of a message of kind %s was %q after Next and is %q after Reply; a message's slices must hold until the next call of Next",
			kindName(kind), id, m.ID)
	}
	if !bytes.Equal(c.input, c.before) {
		c.tb.Fatalf("Reply changed the input that Next was given: it was\n%s\nand is\n%s", dump(c.before), dump(c.input))
	}
	return out
}

// maxAnswer is how much longer than the message an answer may be: an error's text, a token, a few
// fields.
const maxAnswer = 1024

// appended calls a method that appends to dst, and returns what it appended.
func (c *conn) appended(method string, call func(dst []byte) []byte) []byte {
	c.tb.Helper()
	const there = "what other codecs said"
	c.dst = append(c.dst[:0], there...)
	var out []byte
	c.guard(method, func() { out = call(c.dst) })
	if !bytes.HasPrefix(out, []byte(there)) {
		c.tb.Fatalf("%s did not return dst with its answer appended, but %s; write dst = append(dst, …) and return dst", method, dump(out))
	}
	out = out[len(there):]
	if most := len(c.input) + maxAnswer; len(out) > most {
		c.tb.Fatalf("%s appended %d bytes; want at most %d, %d more than came in: cut what you repeat", method, len(out), most, maxAnswer)
	}
	return bytes.Clone(out)
}

// guard turns a panic of the codec into a failure that names its input.
func (c *conn) guard(method string, call func()) {
	c.tb.Helper()
	defer func() {
		c.tb.Helper()
		if v := recover(); v != nil {
			c.tb.Fatalf("%s panicked: %v; the input was\n%s\n%s", method, v, dump(c.before), debug.Stack())
		}
	}()
	call()
}

// accept is a gateway that does what a device says.
func accept(c *conn, m *codec.Message) codec.Outcome {
	o := codec.Outcome{Err: m.Err, Now: time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)}
	if o.Err != nil || m.Kind == codec.None {
		return o
	}
	switch m.Kind {
	case codec.Register:
		o.Token = []byte("k7Rw2")
		return o
	case codec.Challenge:
		o.Nonce = []byte("0123456789abcdef")
		return o
	case codec.Hello, codec.Proof:
		c.open = true
	default:
		c.open = c.open || len(m.ID) > 0
	}
	if !c.open {
		o.Err = &codec.Error{Code: codec.HelloFirst, Text: "say hello before anything else"}
		return o
	}
	o.Epoch, o.Timeout, o.Interval, o.Granted = max(m.Epoch, 1), m.Timeout, m.Interval, m.Duration
	if o.Timeout == 0 {
		o.Timeout = 90 * time.Second
	}
	return o
}

// poison overwrites what the codec may no longer look at.
func poison(b []byte) {
	for i := range b {
		b[i] = 0xdd
	}
}

// dump shows bytes, the first of many.
func dump(b []byte) string {
	const most = 256
	text := fmt.Sprintf("%d bytes: % x", len(b), b[:min(len(b), most)])
	if len(b) > most {
		text += " …"
	}
	return text
}
