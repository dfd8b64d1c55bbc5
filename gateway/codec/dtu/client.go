package dtu

import (
	"encoding/hex"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
)

// Client is a DTU that sends its registration once. The gateway answers nothing, so that its Window
// is 0.
type Client struct {
	// Before and After stand around the id in the registration.
	Before, After string
	// Hex says that the id is hexadecimal, and that its bytes are sent; an id that is not is sent
	// as it is.
	Hex bool
	// Heartbeat is the heartbeat packet. Default: one byte, 0.
	Heartbeat []byte
}

// AppendHello implements [codec.Client]. The registration holds neither the token nor the timeout.
func (c Client) AppendHello(dst []byte, id, _ string, _ time.Duration) []byte {
	dst = append(dst, c.Before...)
	if b, err := hex.DecodeString(id); c.Hex && err == nil {
		dst = append(dst, b...)
	} else {
		dst = append(dst, id...)
	}
	return append(dst, c.After...)
}

// AppendBeat implements [codec.Client].
func (c Client) AppendBeat(dst []byte, _ string, _ uint32) []byte {
	if len(c.Heartbeat) == 0 {
		return append(dst, 0)
	}
	return append(dst, c.Heartbeat...)
}

// AppendSleep implements [codec.Client]. DTUs have no such message.
func (c Client) AppendSleep(dst []byte, _ string, _ time.Duration) []byte { return dst }

// AppendBye implements [codec.Client]. DTUs have no such message.
func (c Client) AppendBye(dst []byte, _ string) []byte { return dst }

// Window implements [codec.Client].
func (c Client) Window() uint64 { return 0 }

// Next implements [codec.Client]. What comes in is for the serial line.
func (c Client) Next(input []byte) (codec.Answer, int) {
	return codec.Answer{Kind: codec.Noted}, len(input)
}
