package codectest

import (
	"bytes"
	"math"
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
	c := newConn(tb, p.PacketCodec())
	if n, ok := c.codec.(codec.Numberer); ok {
		c.checkSend(numbered{n})
	}
}

// numbered sends messages with the greatest number that there may be.
type numbered struct{ codec.Numberer }

func (n numbered) Send(dst, payload []byte) ([]byte, error) {
	return n.SendNumbered(dst, math.MaxInt64, payload)
}

// refuseAndAccept plays a datagram that is accepted, and refused for each reason.
func refuseAndAccept(tb testing.TB, p codec.Packets, d []byte) {
	tb.Helper()
	datagram(tb, p, d, accept)
	for _, code := range codes() {
		datagram(tb, p, d, func(*conn, *codec.Message) codec.Outcome {
			return codec.Outcome{Err: &codec.Error{Code: code, Text: "the gateway's reason, and what to do about it"}}
		})
	}
}

// datagram plays a datagram. Its answers may be longer than it is: the gateway drops them if its
// sender may be forged.
func datagram(tb testing.TB, p codec.Packets, d []byte, judge func(*conn, *codec.Message) codec.Outcome) *conn {
	tb.Helper()
	c := newConn(tb, p.PacketCodec())
	c.judge = judge
	c.input, c.before = slices.Clip(bytes.Clone(d)), bytes.Clone(d)
	for len(c.input) > 0 && c.readMore() {
		continue
	}
	return c
}
