package drive

import (
	"fmt"
	"strings"
	"time"

	"github.com/holter-iot/holter/gateway/codec/frame"
	"github.com/holter-iot/holter/gateway/codec/gt06"
	"github.com/holter-iot/holter/gateway/codec/jt808"
	"github.com/holter-iot/holter/gateway/codec/line"
	"github.com/holter-iot/holter/gateway/codec/teltonika"
	"github.com/holter-iot/holter/loadgen/plan"
)

// protocol encodes the messages of devices and decodes the answers to them. It keeps no state of
// devices.
type protocol interface {
	// hello appends the greeting of device n, birth what follows its welcome.
	hello(dst []byte, n int) []byte
	birth(dst []byte, n int) []byte
	// beat appends heartbeat number seq of device n. answered reports whether the gateway answers
	// each, in order.
	beat(dst []byte, n int, seq uint32) []byte
	answered() bool
	bye(dst []byte, n int) []byte
	// sleep announces silence. A protocol without such a message appends nothing; no valid plan
	// asks for it.
	sleep(dst []byte, n int, d time.Duration) []byte
	// next takes the first answer off data. Without a whole one it returns kind incomplete.
	next(data []byte) (a answer, rest []byte)
	// matches reports whether an answer belongs to heartbeat seq.
	matches(a answer, seq uint32) bool
}

type answerKind uint8

const (
	incomplete answerKind = iota
	garbage
	welcome
	rejected
	pong
	goodbye
	noted // to a word that asks for no more than that
)

type answer struct {
	kind answerKind
	seq  uint32 // of a pong, if the protocol numbers them
	code string // of rejected: one of a few
}

// newProtocol returns the protocol of a plan.
func newProtocol(p *plan.Plan) (protocol, error) {
	both := []dialect{
		{line.Protocol{}, line.Client{}},
		{frame.Protocol{}, frame.Client{}},
		{jt808.Protocol{}, jt808.Client{}},
		{teltonika.Protocol{}, teltonika.Client{}},
		{gt06.Protocol{}, gt06.Client{}},
	}
	for _, d := range both {
		if d.Name() == p.Protocol {
			return newGatewayProtocol(d, p)
		}
	}
	if p.Protocol == plan.MQTT {
		return newMQTTProtocol(p)
	}
	return nil, fmt.Errorf("drive: there is no protocol %q; there are %s", p.Protocol, strings.Join(plan.Protocols(), ", "))
}
