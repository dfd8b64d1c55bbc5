package codectest

import (
	"bytes"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
)

// codes are the codes that a gateway may refuse with.
func codes() []codec.Code { return append(codec.Codes(), "a-code-of-a-later-version") }

// checkReplies lets a gateway refuse each message for each reason, and accept it with the oddest
// values.
func checkReplies(tb testing.TB, k Kit) {
	tb.Helper()
	outcomes := []codec.Outcome{
		{},
		{
			Epoch: math.MaxUint64, Timeout: math.MaxInt64, Interval: math.MaxInt64, Granted: math.MaxInt64,
			Nonce: make([]byte, 64), Token: make([]byte, 255), Now: time.Date(9999, 12, 31, 23, 59, 59, 999, time.UTC),
		},
		{Epoch: 1, Timeout: time.Nanosecond, Interval: 1500 * time.Millisecond, Granted: time.Nanosecond, Now: time.Unix(0, 0)},
	}
	for _, code := range codes() {
		outcomes = append(outcomes, codec.Outcome{Err: &codec.Error{Code: code, Text: "the gateway's reason, and what to do about it"}})
	}
	for _, o := range outcomes {
		c := newConn(tb, k.Protocol.Codec())
		c.judge = func(_ *conn, m *codec.Message) codec.Outcome {
			if m.Err != nil {
				return codec.Outcome{Err: m.Err}
			}
			return o
		}
		c.receive(k.Stream)
	}
}

// checkGoodbye says goodbye at the beginning, after the stream, and in the middle of a message.
func checkGoodbye(tb testing.TB, k Kit) {
	tb.Helper()
	for _, stream := range [][]byte{nil, k.Stream, k.Stream[:len(k.Stream)/2], k.Stream[:len(k.Stream)-1]} {
		c := play(tb, k.Protocol.Codec(), stream)
		for _, why := range []string{"silence", "shutdown", ""} {
			c.appended("Goodbye", func(dst []byte) []byte { return c.codec.Goodbye(dst, why, nil) })
		}
		for _, code := range codes() {
			c.goodbye(&codec.Error{Code: code, Text: "the gateway's reason, and what to do about it"})
		}
	}
}

// goodbye ends the connection because of an error.
func (c *conn) goodbye(err error) {
	c.tb.Helper()
	e, ok := errors.AsType[*codec.Error](err)
	if !ok {
		e = &codec.Error{Code: codec.BadMessage, Text: err.Error()}
	}
	c.appended("Goodbye", func(dst []byte) []byte { return c.codec.Goodbye(dst, "", e) })
}

// checkAllocations looks whether the first heartbeat of the stream, sent again and again,
// allocates.
func checkAllocations(tb testing.TB, k Kit) {
	tb.Helper()
	c := newConn(tb, k.Protocol.Codec())
	beat := c.untilBeat(k.Stream)
	if beat == nil {
		tb.Fatalf("Stream holds no message of kind Beat; add a heartbeat")
	}
	dst := make([]byte, 0, 4096)
	var m codec.Message
	o := codec.Outcome{Now: time.Unix(1<<30, 0)}
	var n int
	var err error
	allocs := testing.AllocsPerRun(100, func() {
		m = codec.Message{}
		n, err = c.codec.Next(beat, &m)
		dst = c.codec.Reply(dst[:0], &m, &o)
	})
	if n != len(beat) || err != nil || m.Kind != codec.Beat {
		tb.Fatalf("a heartbeat that is sent again is n = %d of %d bytes, kind %s, error %v; want it to be a heartbeat again\n%s",
			n, len(beat), kindName(m.Kind), err, dump(beat))
	}
	if allocs > 0 {
		tb.Errorf("Next and Reply of a heartbeat allocate %v times; want 0: return slices of the input, and append to dst\n%s", allocs, dump(beat))
	}
}

// untilBeat takes the messages before the first heartbeat, and returns its bytes.
func (c *conn) untilBeat(stream []byte) []byte {
	c.tb.Helper()
	for len(stream) > 0 {
		c.input, c.before = bytes.Clone(stream), bytes.Clone(stream)
		said := len(c.said)
		if !c.readMore() {
			return nil
		}
		n := len(stream) - len(c.input)
		if len(c.said) > said && c.said[said].kind == codec.Beat {
			return bytes.Clone(stream[:n])
		}
		stream = stream[n:]
	}
	return nil
}

// checkCodecs looks whether connections are apart from each other, and what else their codecs can
// append.
func checkCodecs(tb testing.TB, k Kit) {
	tb.Helper()
	a, b := newConn(tb, k.Protocol.Codec()), newConn(tb, k.Protocol.Codec())
	for i := range k.Stream {
		a.receive(k.Stream[i : i+1])
		b.receive(k.Stream[i : i+1])
	}
	alone := play(tb, k.Protocol.Codec(), k.Stream)
	for _, c := range []*conn{a, b} {
		if got, want := k.collapsed(c.said), k.collapsed(alone.said); len(got) != len(want) {
			tb.Fatalf("two connections at once give %d messages each of Stream, one alone %d; "+
				"Codec must return a new codec for each connection if it has any state", len(got), len(want))
		}
	}
	if p, ok := a.codec.(codec.Prober); ok {
		if out := a.appended("Probe", p.Probe); len(out) == 0 {
			tb.Errorf("Probe appended nothing; leave the method out if there is no question")
		}
	}
	if s, ok := a.codec.(codec.Sender); ok {
		a.checkSend(s)
	}
}

func (c *conn) checkSend(s codec.Sender) {
	c.tb.Helper()
	for _, payload := range [][]byte{nil, []byte("status"), []byte("a\r\nb\x00\x7e\xff"), make([]byte, 300), make([]byte, 2*codec.MaxMessage)} {
		const there = "what other codecs said"
		var out []byte
		var err error
		c.guard("Send", func() { out, err = s.Send([]byte(there), payload) })
		switch {
		case err == nil && !bytes.HasPrefix(out, []byte(there)):
			c.tb.Fatalf("Send did not return dst with the message appended, but %s", dump(out))
		case err == nil && len(out) > len(there)+2*len(payload)+maxAnswer:
			c.tb.Fatalf("Send made %d bytes of a payload of %d", len(out)-len(there), len(payload))
		case err == nil && string(payload) == "status" && len(out) == len(there):
			c.tb.Fatalf("Send of %q appended nothing; return an error if it cannot be a message", payload)
		}
	}
}
