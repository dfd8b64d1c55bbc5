package line

import (
	"bytes"
	"strconv"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
)

// Client is the device's side.
type Client struct{}

// longestAnswer is the longest line that is taken from a gateway.
const longestAnswer = 4096

// AppendHello implements [codec.Client].
func (Client) AppendHello(dst []byte, id, token string, timeout time.Duration) []byte {
	dst = append(append(dst, "HELLO "...), id...)
	if token != "" {
		dst = append(append(dst, ' '), token...)
	}
	if timeout > 0 {
		dst = append(append(dst, " ttl="...), timeout.String()...)
	}
	return append(dst, '\n')
}

// AppendBeat implements [codec.Client].
func (Client) AppendBeat(dst []byte, _ string, seq uint32) []byte {
	return append(strconv.AppendUint(append(dst, "PING "...), uint64(seq), 10), '\n')
}

// AppendSleep implements [codec.Client].
func (Client) AppendSleep(dst []byte, _ string, d time.Duration) []byte {
	return append(strconv.AppendInt(append(dst, "SLEEP "...), int64((d+time.Second-1)/time.Second), 10), '\n')
}

// AppendBye implements [codec.Client].
func (Client) AppendBye(dst []byte, _ string) []byte { return append(dst, "BYE\n"...) }

// Window implements [codec.Client].
func (Client) Window() uint64 { return 1 << 32 }

// Next implements [codec.Client].
func (Client) Next(input []byte) (codec.Answer, int) {
	text, rest, ok := split(input)
	if !ok {
		if len(input) > longestAnswer {
			return codec.Answer{}, len(input)
		}
		return codec.Answer{}, 0
	}
	n := len(input) - len(rest)
	if number, found := bytes.CutPrefix(text, []byte("PONG ")); found {
		if seq, ok := parseNumber(number); ok {
			return codec.Answer{Kind: codec.Heard, Seq: seq}, n
		}
		return codec.Answer{}, n
	}
	command, more := word(text)
	switch string(command) {
	case "OK":
		return codec.Answer{Kind: codec.Welcome}, n
	case "TTL", "MSG", "PING?", "CHALLENGE":
		return codec.Answer{Kind: codec.Noted}, n
	case "BYE":
		return codec.Answer{Kind: codec.Farewell}, n
	case "ERR":
		code, _ := word(more)
		return codec.Answer{Kind: codec.Refused, Code: codec.KnownCode(code)}, n
	default:
		return codec.Answer{}, n
	}
}

// parseNumber understands up to 10 decimal digits. It does not allocate.
func parseNumber(text []byte) (uint32, bool) {
	if len(text) == 0 || len(text) > 10 {
		return 0, false
	}
	var n uint64
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return uint32(n), n <= 1<<32-1
}
