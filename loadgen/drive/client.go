package drive

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unsafe"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/loadgen/plan"
)

// gatewayProtocol is the device's side of one of the gateway's protocols.
type gatewayProtocol struct {
	client codec.Client
	plan   *plan.Plan
	room   []byte // for an id
}

// dialect is both sides of a protocol.
type dialect struct {
	codec.Protocol
	codec.Client
}

// newGatewayProtocol rejects ids that the gateway's side would not read back unchanged.
func newGatewayProtocol(both dialect, p *plan.Plan) (*gatewayProtocol, error) {
	if strings.ContainsFunc(p.Token, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return nil, errors.New("drive: a token is one word, without spaces and control characters")
	}
	t := &gatewayProtocol{client: both.Client, plan: p}
	for _, n := range []int{0, p.Devices - 1} {
		id := strings.Clone(t.id(n))
		var m codec.Message
		if _, err := both.Codec().Next(t.hello(nil, n), &m); err != nil || m.Err != nil || string(m.ID) != id {
			return nil, fmt.Errorf("drive: a device of the protocol %s cannot say that it is %q; %s", p.Protocol, id,
				"choose other ids, with --id-format: phones and IMEIs are numbers, as in 139%08d or 86000%010d")
		}
	}
	return t, nil
}

// id returns that of device n. It is valid until the next call.
func (c *gatewayProtocol) id(n int) string {
	c.room = c.plan.AppendID(c.room[:0], n)
	return unsafe.String(unsafe.SliceData(c.room), len(c.room))
}

func (c *gatewayProtocol) hello(dst []byte, n int) []byte {
	return c.client.AppendHello(dst, c.id(n), c.plan.Token, c.plan.Timeout)
}

func (c *gatewayProtocol) birth(dst []byte, _ int) []byte { return dst }

func (c *gatewayProtocol) beat(dst []byte, n int, seq uint32) []byte {
	return c.client.AppendBeat(dst, c.id(n), seq)
}

func (c *gatewayProtocol) answered() bool { return c.client.Window() > 0 }

func (c *gatewayProtocol) bye(dst []byte, n int) []byte { return c.client.AppendBye(dst, c.id(n)) }

func (c *gatewayProtocol) sleep(dst []byte, n int, d time.Duration) []byte {
	return c.client.AppendSleep(dst, c.id(n), d)
}

func (c *gatewayProtocol) matches(a answer, seq uint32) bool {
	window := c.client.Window()
	return uint64(a.seq)%window == uint64(seq)%window
}

func (c *gatewayProtocol) next(data []byte) (answer, []byte) {
	a, n := c.client.Next(data)
	if n == 0 {
		return answer{}, data
	}
	kinds := [...]answerKind{
		codec.Garbage: garbage, codec.Welcome: welcome, codec.Heard: pong, codec.Noted: noted, codec.Farewell: goodbye, codec.Refused: rejected,
	}
	return answer{kind: kinds[a.Kind], seq: a.Seq, code: string(a.Code)}, data[n:]
}
