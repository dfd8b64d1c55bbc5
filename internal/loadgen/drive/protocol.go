package drive

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/frame"
	"github.com/holter-iot/holter/gateway/codec/gt06"
	"github.com/holter-iot/holter/gateway/codec/jt808"
	"github.com/holter-iot/holter/gateway/codec/line"
	"github.com/holter-iot/holter/gateway/codec/teltonika"
	"github.com/holter-iot/holter/internal/loadgen/plan"
)

// dialect is both sides of one of the gateway's protocols.
type dialect struct {
	codec.Protocol
	codec.Client
}

// newProtocol returns the device's side of the protocol of a plan.
func newProtocol(p *plan.Plan) (codec.Client, error) {
	both := []dialect{
		{line.Protocol{}, line.Client{}},
		{frame.Protocol{}, frame.Client{}},
		{jt808.Protocol{}, jt808.Client{}},
		{teltonika.Protocol{}, teltonika.Client{}},
		{gt06.Protocol{}, gt06.Client{}},
	}
	for _, d := range both {
		if d.Name() == p.Protocol {
			return d.Client, d.check(p)
		}
	}
	if p.SpeaksMQTT() {
		return newMQTT(p)
	}
	return nil, fmt.Errorf("drive: there is no protocol %q; there are %s", p.Protocol, strings.Join(plan.Protocols(), ", "))
}

// check rejects ids that the gateway's side would not read back unchanged.
func (d dialect) check(p *plan.Plan) error {
	if strings.ContainsFunc(p.Token, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return errors.New("drive: a token is one word, without spaces and control characters")
	}
	for _, n := range []int{0, p.Devices - 1} {
		id := p.DeviceID(n)
		var m codec.Message
		if _, err := d.Codec().Next(d.AppendHello(nil, id, p.Token, p.Timeout), &m); err != nil || m.Err != nil || string(m.ID) != id {
			return fmt.Errorf("drive: a device of the protocol %s cannot say that it is %q; %s", p.Protocol, id,
				"choose other ids, with --id-format: phones and IMEIs are numbers, as in 139%08d or 86000%010d")
		}
	}
	return nil
}

// id returns that of device i. It is valid until the next call.
func (d *Drive) id(i int32) string {
	d.room = d.cfg.Plan.AppendID(d.room[:0], d.number(i))
	return unsafe.String(unsafe.SliceData(d.room), len(d.room))
}

// sayHello hands the greeting of device i to the kernel, and returns when that was.
func (d *Drive) sayHello(i, fd int32) (int64, error) {
	d.out = d.protocol.AppendHello(d.out[:0], d.id(i), d.cfg.Plan.Token, d.cfg.Plan.Timeout)
	at := d.clock()
	return at, d.send(fd, d.out)
}
