package drive

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/holter-iot/holter/gateway/line"
	"github.com/holter-iot/holter/loadgen/plan"
)

// maxLine is the longest line that is taken from a gateway.
const maxLine = 4096

// lineCodec is the line protocol, which package line describes.
type lineCodec struct {
	plan  *plan.Plan
	words string // that follow the id in HELLO
}

func newLineCodec(p *plan.Plan) (*lineCodec, error) {
	var words strings.Builder
	if p.Token != "" {
		if strings.ContainsFunc(p.Token, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			return nil, errors.New("drive: a token of the line protocol is one word, without spaces and control characters")
		}
		words.WriteString(" " + p.Token)
	}
	if p.Timeout > 0 {
		words.WriteString(" ttl=" + p.Timeout.String())
	}
	words.WriteByte('\n')
	return &lineCodec{plan: p, words: words.String()}, nil
}

func (c *lineCodec) hello(dst []byte, n int) []byte {
	return append(c.plan.AppendID(append(dst, "HELLO "...), n), c.words...)
}

func (c *lineCodec) birth(dst []byte, _ int) []byte { return dst }

func (c *lineCodec) beat(dst []byte, _ int, seq uint32) []byte {
	dst = strconv.AppendUint(append(dst, "PING "...), uint64(seq), 10)
	return append(dst, '\n')
}

func (c *lineCodec) answered() bool { return true }

func (c *lineCodec) bye(dst []byte) []byte { return append(dst, "BYE\n"...) }

func (c *lineCodec) sleep(dst []byte, d time.Duration) []byte {
	dst = strconv.AppendInt(append(dst, "SLEEP "...), int64((d+time.Second-1)/time.Second), 10)
	return append(dst, '\n')
}

func (c *lineCodec) matches(a answer, seq uint32) bool { return a.seq == seq }

func (c *lineCodec) next(data []byte) (answer, []byte) {
	text, rest, ok := line.Split(data)
	if !ok {
		if len(data) > maxLine {
			return answer{kind: garbage}, nil
		}
		return answer{}, data
	}
	if number, found := bytes.CutPrefix(text, []byte("PONG ")); found {
		if seq, ok := parseNumber(number); ok {
			return answer{kind: pong, seq: seq}, rest
		}
		return answer{kind: garbage}, rest
	}
	word, more, _ := bytes.Cut(text, []byte(" "))
	switch string(word) {
	case "OK":
		return answer{kind: welcome}, rest
	case "TTL":
		return answer{kind: noted}, rest
	case "BYE":
		return answer{kind: goodbye}, rest
	case "ERR":
		code, _, _ := bytes.Cut(more, []byte(" "))
		return answer{kind: rejected, code: knownCode(code)}, rest
	default:
		return answer{kind: garbage}, rest
	}
}

// parseNumber understands up to 10 decimal digits.
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
	return uint32(n), n <= 1<<32-1 //nolint:gosec // checked
}

// knownCode keeps a gateway from making up causes without end.
func knownCode(code []byte) string {
	switch c := line.Code(code); c {
	case line.BadHello, line.BadID, line.BadTTL, line.BadEpoch, line.BadSleep, line.HelloFirst, line.HelloAgain, line.StaleEpoch,
		line.Unauthorized, line.Full, line.Busy, line.TooLong, line.NotText, line.Timeout:
		return string(c)
	default:
		return ""
	}
}
