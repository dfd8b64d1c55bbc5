package line_test

import (
	"testing"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/line"
)

// The example of docs/reference/protocols.md.
func TestNumberedMessage(t *testing.T) {
	c := line.Protocol{}.PacketCodec()
	out, err := c.(codec.Numberer).SendNumbered(nil, 1732293600123, []byte("open the valve"))
	if want := "MSG #1732293600123 open the valve\n"; err != nil || string(out) != want {
		t.Errorf("SendNumbered = %q, %v, want %q", out, err, want)
	}
	for text, want := range map[string]uint64{
		"ACK 1732293600123\n": 1732293600123, "ack 7": 7, "ACK": 0, "ACK x": 0, "ACK -1": 0, "ACK 99999999999999999999": 0, "PING 7": 0,
	} {
		var m codec.Message
		if n, err := c.Next([]byte(text), &m); err != nil || n != len(text) || m.Kind != codec.Beat || m.Acknowledged != want {
			t.Errorf("Next(%q) = %d, %v, %+v, want the number %d", text, n, err, m, want)
		}
	}
}
