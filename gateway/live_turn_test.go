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
	"github.com/holter-iot/holter/internal/eventloop"
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
