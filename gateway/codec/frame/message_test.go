package frame_test

import (
	"fmt"
	"testing"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/frame"
)

// The example of docs/reference/protocols.md.
func TestNumberedMessage(t *testing.T) {
	c := frame.Protocol{}.PacketCodec()
	out, err := c.(codec.Numberer).SendNumbered(nil, 1732293600123, []byte("open the valve"))
	const want = "A5 1B 00 16 00 00 01 93 54 BE A3 7B 6F 70 65 6E 20 74 68 65 20 76 61 6C 76 65"
	if got := fmt.Sprintf("% X", out); err != nil || got != want {
		t.Errorf("SendNumbered = %s, %v, want %s", got, err, want)
	}
	for body, want := range map[string]uint64{
		"\x00\x08\x00\x00\x01\x93\x54\xbe\xa3\x7b": 1732293600123, "\x00\x00": 0, "\x00\x07\x00\x00\x01\x93\x54\xbe\xa3": 0,
		"\x00\x08\xff\xff\xff\xff\xff\xff\xff\xff": 0,
	} {
		var m codec.Message
		if n, err := c.Next([]byte("\xa5\x1b"+body), &m); err != nil || n != 2+len(body) || m.Kind != codec.Beat || m.Acknowledged != want {
			t.Errorf("Next(% x) = %d, %v, %+v, want the number %d", body, n, err, m, want)
		}
	}
}
