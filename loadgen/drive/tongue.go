package drive

import (
	"fmt"
	"time"

	"github.com/holter-iot/holter/loadgen/plan"
)

// codec is a protocol, as devices speak it: bytes in, bytes out. It keeps no state, and appends to what it is given.
type codec interface {
	// hello greets as device n, and birth is said once it is welcomed.
	hello(dst []byte, n int) []byte
	birth(dst []byte, n int) []byte
	// beat is heartbeat number seq of device n. If answered says so, each is answered, in order.
	beat(dst []byte, n int, seq uint32) []byte
	answered() bool
	bye(dst []byte) []byte
	// sleep announces silence. A protocol that has no word for it appends nothing; no valid plan asks for that.
	sleep(dst []byte, d time.Duration) []byte
	// next takes the first answer off data. Without a whole one it returns kind incomplete.
	next(data []byte) (a answer, rest []byte)
	// matches says whether an answer is that to heartbeat seq.
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

// newCodec returns the protocol of a plan.
func newCodec(p *plan.Plan) (codec, error) {
	switch p.Protocol {
	case plan.Line:
		return newLineCodec(p)
	case plan.MQTT:
		return newMQTTCodec(p)
	default:
		return nil, fmt.Errorf("drive: there is no protocol %q; it is line or mqtt", p.Protocol)
	}
}
