package codectest

import (
	"bytes"
	"slices"
	"testing"

	"github.com/holter-iot/holter/gateway/codec"
)

// checkDatagrams looks at each datagram, at each beginning of it, and at each byte of it changed.
func checkDatagrams(tb testing.TB, k Kit) {
	tb.Helper()
	p, ok := k.Protocol.(codec.Packets)
	if !ok {
		if len(k.Datagrams) > 0 {
			tb.Fatalf("the kit has Datagrams, but the protocol has no method PacketCodec")
		}
		return
	}
	if len(k.Datagrams) == 0 {
		tb.Fatalf("the protocol has a method PacketCodec; put valid datagrams into Datagrams")
	}
	for _, d := range k.Datagrams {
		c := datagram(tb, p, d, accept)
		if c.err != nil || len(c.input) > 0 || len(c.said) == 0 {
			tb.Errorf("a datagram gives %d messages and the error %v, and leaves %d bytes; want all of it understood\n%s",
				len(c.said), c.err, len(c.input), dump(d))
		} else if c.said[0].id == "" {
			tb.Errorf("the first message of a datagram is %s; want one with an ID\n%s", c.said[0], dump(d))
		}
		for i := range d {
			refuseAndAccept(tb, p, d[:i])
			for _, flip := range []byte{1, 0x80, 0xff} {
				changed := slices.Concat(d[:i], []byte{d[i] ^ flip}, d[i+1:])
				refuseAndAccept(tb, p, changed)
			}
		}
		refuseAndAccept(tb, p, d)
	}
}

// refuseAndAccept holds the answers to a datagram against its length, so that nobody can make the gateway flood a stranger.
func refuseAndAccept(tb testing.TB, p codec.Packets, d []byte) {
	tb.Helper()
	datagram(tb, p, d, accept)
	for _, code := range codes() {
		datagram(tb, p, d, func(*conn, *codec.Message) codec.Outcome {
			return codec.Outcome{Err: &codec.Error{Code: code, Text: "the gateway's reason, and what to do about it"}}
		})
	}
}

// datagram plays a datagram, and fails if its answers are longer than it is without a token that was accepted.
func datagram(tb testing.TB, p codec.Packets, d []byte, judge func(*conn, *codec.Message) codec.Outcome) *conn {
	tb.Helper()
	c := newConn(tb, p.PacketCodec())
	shown := false
	c.judge = func(c *conn, m *codec.Message) codec.Outcome {
		o := judge(c, m)
		shown = shown || o.Err == nil && len(m.Token) > 0
		return o
	}
	c.input, c.before = slices.Clip(bytes.Clone(d)), bytes.Clone(d)
	total := 0
	for len(c.input) > 0 && c.take() {
		total += len(c.out)
		if total > len(d) && !shown {
			tb.Fatalf("a datagram of %d bytes without an accepted token is answered by %d bytes; who sends it may have forged its address: "+
				"the answer must not be longer\n%s", len(d), total, dump(d))
		}
	}
	return c
}
