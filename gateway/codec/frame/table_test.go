package frame_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/holter-iot/holter/gateway/codec/frame"
	"github.com/holter-iot/holter/gateway/codec/internal/reference"
)

// TestTable holds the table of messages in the reference against the codec.
func TestTable(t *testing.T) { reference.Check(t, "frame", messages()) }

// messages returns each type of frame.
func messages() reference.Table {
	names := [16]string{
		1: "hello", 2: "beat", 3: "pace", 4: "sleep", 5: "fail", 6: "bye", 7: "challenge", 8: "proof", 9: "data", 10: "probe", 11: "message", 15: "error",
	}
	t := reference.Table{Title: "`frame`, by types in decimal:", Codec: frame.Protocol{}.Codec, Answer: func(m reference.Message, out []byte) string {
		if int(out[1]&15) == m.Kind {
			return "the same type"
		}
		return fmt.Sprintf("type %d", out[1]&15)
	}}
	bodies := [16]string{1: "\x01\x06pump-3", 2: "\x00\x00\x00\x01", 3: "\x00\x00\xea\x60\x00\x00\x00\x00", 4: "\x00\x00\xea\x60", 7: "\x01\x06pump-3"}
	bodies[11] = "\x00\x00\x01\x93\x55\x2c\x3a\x00"
	bodies[8] = strings.Repeat("p", 32)
	for kind, name := range names {
		body := bodies[kind]
		input := binary.BigEndian.AppendUint16([]byte{0xa5, 0x10 | byte(kind)}, uint16(len(body)))
		m := reference.Message{Name: strings.TrimSpace(fmt.Sprintf("%d %s", kind, name)), Kind: kind, Input: append(input, body...)}
		t.Messages = append(t.Messages, m)
	}
	t.Messages[2].Name += " with a number"
	t.Messages = append(t.Messages, reference.Message{Name: "2 beat without one", Kind: 2, Input: []byte("\xa5\x12\x00\x00")})
	return t
}
