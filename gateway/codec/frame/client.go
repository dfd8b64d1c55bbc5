package frame

import (
	"encoding/binary"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
)

// Client is the device's side of the protocol.
type Client struct{}

// AppendHello implements [codec.Client].
func (Client) AppendHello(dst []byte, id, token string, timeout time.Duration) []byte {
	start := len(dst)
	dst = appendText(appendHeader(dst, typeHello, 0), fieldID, id)
	if token != "" {
		dst = appendText(dst, fieldToken, token)
	}
	dst = appendTime(dst, fieldTTL, timeout)
	binary.BigEndian.PutUint16(dst[start+2:], uint16(len(dst)-start-header))
	return dst
}

// AppendBeat implements [codec.Client].
func (Client) AppendBeat(dst []byte, _ string, seq uint32) []byte {
	return appendNumbers(dst, typeBeat, seq)
}

// AppendSleep implements [codec.Client].
func (Client) AppendSleep(dst []byte, _ string, d time.Duration) []byte {
	return appendNumbers(dst, typeSleep, millis(d))
}

// AppendBye implements [codec.Client].
func (Client) AppendBye(dst []byte, _ string) []byte { return appendHeader(dst, typeBye, 0) }

// Window implements [codec.Client].
func (Client) Window() uint64 { return 1 << 32 }

// Next implements [codec.Client].
func (Client) Next(input []byte) (a codec.Answer, n int) {
	kind, body, n, err := split(input)
	switch {
	case err != nil:
		return codec.Answer{}, len(input)
	case n == 0:
		return codec.Answer{}, 0
	}
	switch kind {
	case typeHello:
		a.Kind = codec.Welcome
	case typeBeat:
		if len(body) >= 4 {
			a.Kind, a.Seq = codec.Heard, binary.BigEndian.Uint32(body)
		}
	case typeBye:
		a.Kind = codec.Farewell
	case typeError:
		a.Kind = codec.Refused
		if numbers := codes(); len(body) > 0 && int(body[0]) < len(numbers) {
			a.Code = numbers[body[0]]
		}
	default:
		a.Kind = codec.Noted
	}
	return a, n
}
