package gateway_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/line"
	"github.com/holter-iot/holter/internal/net/eventloop"
	"github.com/holter-iot/holter/liveness"
)

// heavy is the line protocol as one whose messages are for many others: each takes longer than a connection's turn.
type heavy struct {
	line.Protocol

	most *atomic.Int64 // bytes that were shown at a time
}

// Codec implements [codec.Protocol].
func (p heavy) Codec() codec.Codec { return &heavyCodec{Codec: p.Protocol.Codec(), most: p.most} }

type heavyCodec struct {
	codec.Codec

	most *atomic.Int64
}

var _ codec.Live = (*heavyCodec)(nil)

// Next implements [codec.Codec].
func (c *heavyCodec) Next(input []byte, m *codec.Message) (int, error) {
	c.most.Store(max(c.most.Load(), int64(len(input))))
	return c.Codec.Next(input, m)
}

// Reply implements [codec.Codec].
func (c *heavyCodec) Reply(dst []byte, m *codec.Message, o *codec.Outcome) []byte {
	for time.Since(o.Now) < 3*time.Millisecond { //nolint:revive // it is busy
	}
	return c.Codec.Reply(dst, m, o)
}

// Attach implements [codec.Live].
func (*heavyCodec) Attach(codec.Wire) {}

// Pump implements [codec.Live].
func (*heavyCodec) Pump(dst []byte, _ int) ([]byte, bool) { return dst, false }

// Continue implements [codec.Live].
func (*heavyCodec) Continue() bool { return false }

// Ended implements [codec.Live].
func (*heavyCodec) Ended(bool) {}

// HasWill implements [codec.Live].
func (*heavyCodec) HasWill() bool { return false }

// A connection whose messages are for many others is not read while its turn is over: what it sends waits in the kernel.
func TestTurn(t *testing.T) {
	var most atomic.Int64
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: []gateway.Listener{{
		Address: "127.0.0.1:0", Protocols: []codec.Protocol{heavy{most: &most}},
	}}})
	d := r.dial()
	d.say("HELLO publisher\n")
	d.expect("OK 1 …")
	const n = 60
	pad := strings.Repeat("x", 400)
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, "PING %d%s\n", i, pad)
	}
	d.say(all.String())
	for i := range n {
		d.expect(fmt.Sprintf("PONG %d%s", i, pad))
	}
	if got := most.Load(); got > 2*eventloop.Slice {
		t.Errorf("of %d bytes, %d were shown at a time, want no more than %d", all.Len(), got, 2*eventloop.Slice)
	}
}

// endless is the line protocol as one whose message "PING unfinished" is unfinished until another connection has said "PING heard".
type endless struct {
	line.Protocol

	heard *atomic.Bool // the other connection was
	early *atomic.Bool // a message was taken before the one before was finished
}

// Codec implements [codec.Protocol].
func (p endless) Codec() codec.Codec {
	return &endlessCodec{heavyCodec: heavyCodec{Codec: p.Protocol.Codec()}, protocol: p}
}

type endlessCodec struct {
	heavyCodec

	protocol   endless
	unfinished bool
}

// Next implements [codec.Codec].
func (c *endlessCodec) Next(input []byte, m *codec.Message) (int, error) {
	if c.unfinished {
		c.protocol.early.Store(true)
	}
	return c.Codec.Next(input, m)
}

// Reply implements [codec.Codec].
func (c *endlessCodec) Reply(dst []byte, m *codec.Message, o *codec.Outcome) []byte {
	switch string(m.Text) {
	case "unfinished":
		c.unfinished, o.Unfinished = true, true
	case "heard":
		c.protocol.heard.Store(true)
	}
	return c.Codec.Reply(dst, m, o)
}

// Continue implements [codec.Live].
func (c *endlessCodec) Continue() bool {
	c.unfinished = !c.protocol.heard.Load()
	return c.unfinished
}

// While a message is unfinished, others on the event loop are heard, and no more is taken from its connection. Over TLS the connections
// have goroutines of their own.
func TestUnfinished(t *testing.T) {
	k := newKeys(t)
	for name, tls := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			var heard, early atomic.Bool
			l := gateway.Listener{Address: "127.0.0.1:0", Protocols: []codec.Protocol{endless{heard: &heard, early: &early}}}
			if tls {
				l.TLS = k.server
			}
			r := startRig(t, liveness.Config{}, gateway.Config{Loops: 1, Listen: []gateway.Listener{l}})
			dial := r.dial
			if tls {
				dial = func() *device { return r.dialTLS(k) }
			}
			one, other := dial(), dial()
			one.say("HELLO one\n")
			one.expect("OK 1 …")
			other.say("HELLO other\n")
			other.expect("OK 1 …")
			one.say("PING unfinished\nPING next\n")
			if !tls {
				one.expect("PONG unfinished")
			}
			other.say("PING heard\n")
			other.expect("PONG heard")
			if tls {
				one.expect("PONG unfinished")
			}
			one.expect("PONG next")
			if early.Load() {
				t.Error("the next message was taken before the first was finished")
			}
		})
	}
}

// A connection may end while its message is unfinished.
func TestUnfinishedEnd(t *testing.T) {
	var heard, early atomic.Bool
	r := startRig(t, liveness.Config{}, gateway.Config{Loops: 1, Listen: []gateway.Listener{{
		Address: "127.0.0.1:0", Protocols: []codec.Protocol{endless{heard: &heard, early: &early}},
	}}})
	d := r.dial()
	d.say("HELLO d\n")
	d.expect("OK 1 …")
	d.say("PING unfinished\n")
	d.expect("PONG unfinished")
	_ = d.conn.Close()
	again := r.dial()
	again.say("HELLO other\nPING it is served\n")
	again.expect("OK 1 …")
	again.expect("PONG it is served")
}
