package websocket_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/websocket"
)

// echo is a protocol whose messages are a length and as many bytes, and are answered by themselves. A
// message "bad" is none.
type echo struct{}

func (echo) Name() string             { return "echo" }
func (echo) Sniff([]byte) codec.Guess { return codec.No }
func (echo) Codec() codec.Codec       { return &echoes{} }

type echoes struct{ pumped string }

func (e *echoes) Next(input []byte, m *codec.Message) (int, error) {
	if len(input) == 0 || len(input) < 1+int(input[0]) {
		return 0, nil
	}
	n := 1 + int(input[0])
	if string(input[1:n]) == "bad" {
		return 0, &codec.Error{Code: codec.BadMessage, Text: "bad"}
	}
	m.Kind, m.Text = codec.Beat, input[1:n]
	return n, nil
}

func (*echoes) Reply(dst []byte, m *codec.Message, _ *codec.Outcome) []byte {
	return append(dst, m.Text...)
}

func (*echoes) Goodbye(dst []byte, why string, err *codec.Error) []byte {
	if err != nil {
		why = err.Text
	}
	return append(dst, why...)
}
func (e *echoes) Attach(codec.Wire)                     {}
func (e *echoes) Pump(dst []byte, _ int) ([]byte, bool) { return append(dst, e.pumped...), false }
func (e *echoes) Continue() bool                        { return false }
func (e *echoes) Ended(bool)                            {}
func (e *echoes) HasWill() bool                         { return true }
func (e *echoes) MaxMessage() int                       { return 300 }
func (e *echoes) Revoked() bool                         { return false }
func (e *echoes) Authenticate(*codec.Message, codec.Origin) (codec.Admission, func() codec.Admission) {
	return codec.Admission{}, nil
}

// reviewed is an echo whose devices are looked at again.
type reviewed struct{ echo }

func (reviewed) Generation() uint64 { return 7 }

// The generation is that of the protocol that is carried.
func TestGeneration(t *testing.T) {
	for want, inner := range map[uint64]codec.Protocol{0: echo{}, 7: reviewed{}} {
		p := websocket.Protocol{Inner: inner}
		if got := p.Generation(); got != want {
			t.Errorf("Generation with %T = %d, want %d", inner, got, want)
		}
	}
}

func protocol() *websocket.Protocol {
	return &websocket.Protocol{Inner: echo{}, Path: "/mqtt", Subprotocols: []string{"mqtt", "mqttv3.1"}, Origins: func() []string { return []string{"https://fleet.example"} }}
}

// request returns a request that is granted, with some lines replaced or added.
func request(lines ...string) string {
	all := []string{"Host: 127.0.0.1:1883", "Connection: keep-alive, Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol: chat, mqtt"}
	for _, l := range lines {
		name, value, _ := strings.Cut(l, ":")
		found := false
		for i := range all {
			if strings.HasPrefix(all[i], name+":") {
				all[i], found = l, true
			}
		}
		if !found && value != "" {
			all = append(all, l)
		}
	}
	return "GET /mqtt HTTP/1.1\r\n" + strings.Join(all, "\r\n") + "\r\n\r\n"
}

// talk hands input to a codec, in pieces of a size, and returns all that it answers.
func talk(c codec.Codec, input []byte, size int) string {
	var out, rest []byte
	for len(input) > 0 {
		n := min(size, len(input))
		rest, input = append(rest, input[:n]...), input[n:]
		for len(rest) > 0 {
			var m codec.Message
			n, err := c.Next(rest, &m)
			if e, ok := errors.AsType[*codec.Error](err); ok {
				return string(c.Goodbye(out, "", e))
			}
			if n == 0 {
				break
			}
			var o codec.Outcome
			out, rest = c.Reply(out, &m, &o), rest[n:]
			if m.Kind == codec.Leave {
				return string(out)
			}
		}
	}
	return string(out)
}

// frame returns a frame of a client's.
func frame(head byte, payload string) []byte {
	b := []byte{head}
	switch {
	case len(payload) < 126:
		b = append(b, 0x80|byte(len(payload)))
	case len(payload) < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(len(payload)))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|127), uint64(len(payload)))
	}
	mask := []byte{1, 0x80, 3, 0xff}
	b = append(b, mask...)
	for i := range len(payload) {
		b = append(b, payload[i]^mask[i&3])
	}
	return b
}

func join(frames ...[]byte) string { return string(bytes.Join(frames, nil)) }

// The answer to the request is that of the example (RFC 6455, 1.3).
const granted = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
	"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n"

func TestRequests(t *testing.T) {
	tests := map[string]struct{ request, want string }{
		"granted":                    {request(), granted},
		"a page of this address":     {request("Origin: http://127.0.0.1:1883"), granted},
		"a page that is listed":      {request("Origin: https://fleet.example"), granted},
		"another page":               {request("Origin: https://evil.example"), "HTTP/1.1 403 Forbidden"},
		"a page of a name like this": {request("Host: evil.example:1883", "Origin: http://evil.example:1883"), "HTTP/1.1 403 Forbidden"},
		"another path":               {strings.Replace(request(), "/mqtt ", "/x ", 1), "HTTP/1.1 404 Not Found"},
		"no upgrade":                 {request("Connection: close"), "HTTP/1.1 426 Upgrade Required\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13"},
		"an old version":             {request("Sec-WebSocket-Version: 8"), "HTTP/1.1 426 Upgrade Required"},
		"a bad key":                  {request("Sec-WebSocket-Key: x"), "HTTP/1.1 400 Bad Request"},
		"another protocol":           {request("Sec-WebSocket-Protocol: chat"), "HTTP/1.1 400 Bad Request"},
		"no HTTP":                    {"GET / x\r\n\r\n", "HTTP/1.1 400 Bad Request"},
		"endless":                    {"GET /" + strings.Repeat("x", 9000), "HTTP/1.1 431 Request Header Fields Too Large"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{1, 1 << 20} {
				if got := talk(protocol().Codec(), []byte(tt.request), size); !strings.HasPrefix(got, tt.want) {
					t.Errorf("in pieces of %d: %q, want %q …", size, got, tt.want)
				}
			}
		})
	}
}

func TestFrames(t *testing.T) {
	const text = 0x82
	long := strings.Repeat("x", 200)
	tests := map[string]struct{ input, want string }{
		"a message":                 {join(frame(text, "\x02hi")), "\x82\x02hi"},
		"two in a frame":            {join(frame(text, "\x02hi\x01x")), "\x82\x02hi\x82\x01x"},
		"one in three frames":       {join(frame(2, "\x05a"), frame(0, "bc"), frame(0x80, "de")), "\x82\x05abcde"},
		"one in two messages":       {join(frame(text, "\x03a"), frame(text, "bc\x01")), "\x82\x03abc"},
		"one in two, and the next":  {join(frame(text, "\x03a"), frame(text, "bc\x01x")), "\x82\x03abc\x82\x01x"},
		"a ping between its parts":  {join(frame(2, "\x03a"), frame(0x89, "ping"), frame(0x80, "bc")), "\x8a\x04ping\x82\x03abc"},
		"an empty frame":            {join(frame(text, ""), frame(text, "\x01x")), "\x82\x01x"},
		"a long one":                {join(frame(text, "\xc8"+long)), "\x82\x7e\x00\xc8" + long},
		"many":                      {join(frame(text, strings.Repeat("\x01x", 40_000))), strings.Repeat("\x82\x01x", 40_000)},
		"closed":                    {join(frame(0x88, "\x03\xe8")), "\x88\x02\x03\xe8"},
		"closed without a status":   {join(frame(0x88, "")), "\x88\x02\x03\xe8"},
		"text":                      {join(frame(0x81, "\x01x")), "\x82\x34a text message; send binary ones (MQTT 5, 6.0)"},
		"not masked":                {"\x82\x02\x01x", "\x82"},
		"an extension":              {join(frame(0xc2, "\x01x")), "\x82"},
		"an unknown kind":           {join(frame(0x83, "\x01x")), "\x82"},
		"a ping in parts":           {join(frame(0x09, "x")), "\x82"},
		"a long ping":               {join(frame(0x89, long)), "\x82"},
		"a part of no message":      {join(frame(0x80, "\x01x")), "\x82"},
		"a message in another":      {join(frame(2, "\x05a"), frame(text, "bc")), "\x82"},
		"a negative length":         {"\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff1234", "\x82"},
		"what the protocol refuses": {join(frame(text, "\x03bad")), "\x82\x03bad\x88\x02\x03\xe8"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{1, 3, 1 << 20} {
				got := talk(protocol().Codec(), []byte(request()+tt.input), size)
				got = strings.TrimPrefix(got, granted)
				if tt.want == "\x82" {
					if !strings.HasSuffix(got, "\x88\x02\x03\xea") {
						t.Errorf("in pieces of %d: %q, want an end with status 1002", size, got)
					}
				} else if got != tt.want && !(name == "text" && strings.HasSuffix(got, "\x88\x02\x03\xeb")) {
					t.Errorf("in pieces of %d: %q, want %q", size, got, tt.want)
				}
			}
		})
	}
}

// counted counts the bytes that the protocol that is carried has to look at.
type counted struct {
	echo

	bytes *int
}

func (c counted) Codec() codec.Codec { return &countedCodec{echoes{}, c.bytes} }

type countedCodec struct {
	echoes

	bytes *int
}

func (c *countedCodec) Next(input []byte, m *codec.Message) (int, error) {
	*c.bytes += len(input)
	return c.echoes.Next(input, m)
}

// A message costs the same however many come behind it in its frame.
func TestManyInAFrame(t *testing.T) {
	cost := func(messages int) int {
		p, n := protocol(), 0
		p.Inner = counted{bytes: &n}
		talk(p.Codec(), []byte(request()+join(frame(0x82, strings.Repeat("\x01x", messages)))), 1<<20)
		return n / messages
	}
	if few, many := cost(1000), cost(30_000); many > few+few/2 {
		t.Errorf("a message costs %d bytes among 30,000, and %d among 1000", many, few)
	}
}

// However a client cuts its bytes into frames and packets, the protocol gets them as they are.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("\x02hi\x00\x05abcde"), uint8(3), uint8(2))
	f.Add([]byte("\xff"+strings.Repeat("y", 255)), uint8(200), uint8(1))
	f.Fuzz(func(t *testing.T, said []byte, perFrame, perRead uint8) {
		var input, want []byte
		for rest := said; len(rest) > 0; {
			n := 1 + int(rest[0])
			if len(rest) < n || string(rest[1:n]) == "bad" {
				said = said[:len(said)-len(rest)]
				break
			}
			if n > 1 {
				want = append(want, rest[1:n]...)
			}
			rest = rest[n:]
		}
		for rest := said; len(rest) > 0; {
			n := min(len(rest), 1+int(perFrame))
			input, rest = append(input, frame(0x82, string(rest[:n]))...), rest[n:]
		}
		out := talk(protocol().Codec(), append([]byte(request()), input...), 1+int(perRead))
		out = strings.TrimPrefix(out, granted)
		var got []byte
		for len(out) > 0 {
			size, head := int(out[1]), 2
			if size == 126 {
				size, head = int(binary.BigEndian.Uint16([]byte(out[2:]))), 4
			}
			got, out = append(got, out[head:head+size]...), out[head+size:]
		}
		if len(said) > 0 && !bytes.Equal(got, want) {
			t.Errorf("%q came as %q", want, got)
		}
	})
}

// What the protocol sends on its own accord is framed, too.
func TestPump(t *testing.T) {
	c := protocol().Codec().(codec.Live)
	if out, _ := c.Pump([]byte("before"), 1); string(out) != "before" {
		t.Errorf("nothing to send is %q", out)
	}
	if !c.HasWill() {
		t.Error("the will of the inner protocol is lost")
	}
	if fmt.Sprint(protocol().Name(), protocol().Sniff([]byte("GE")), protocol().Sniff([]byte("GET /x")), protocol().Sniff([]byte("\x10"))) != fmt.Sprint("websocket", codec.Maybe, codec.Yes, codec.No) {
		t.Error("it is not recognised")
	}
}
