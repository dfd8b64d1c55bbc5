package frame_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/codectest"
	"github.com/holter-iot/holter/gateway/codec/frame"
)

// bin is the bytes of a text of hexadecimal digits and spaces.
func bin(tb testing.TB, text string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		tb.Fatalf("%q: %v", text, err)
	}
	return b
}

// turn is what one side says.
type turn struct {
	device bool
	bytes  []byte
}

// conversations reads testdata/conversation.txt.
func conversations(tb testing.TB) (list [][]turn) {
	tb.Helper()
	text, err := os.ReadFile("testdata/conversation.txt")
	if err != nil {
		tb.Fatal(err)
	}
	list = [][]turn{nil}
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		line = strings.TrimSpace(line)
		switch side, digits, _ := strings.Cut(line, " "); side {
		case "":
		case "connection":
			list = append(list, nil)
		default:
			last := &list[len(list)-1]
			*last = append(*last, turn{device: side == ">", bytes: bin(tb, digits)})
		}
	}
	return list
}

// said is all that the device says in a conversation.
func said(conversation []turn) (stream []byte) {
	for _, t := range conversation {
		if t.device {
			stream = append(stream, t.bytes...)
		}
	}
	return stream
}

// granted is a gateway that grants everything.
func granted(m *codec.Message) *codec.Outcome {
	o := &codec.Outcome{Err: m.Err, Epoch: max(m.Epoch, 1), Timeout: m.Timeout, Interval: m.Interval, Granted: m.Duration}
	if o.Timeout == 0 {
		o.Timeout = 90 * time.Second
	}
	if m.Kind == codec.Challenge {
		o.Nonce = []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	}
	return o
}

func TestConversations(t *testing.T) {
	for _, conversation := range conversations(t) {
		c := frame.Protocol{}.Codec()
		var out []byte
		for _, turn := range conversation {
			if !turn.device {
				if !bytes.Equal(out, turn.bytes) {
					t.Errorf("the gateway answers % x, want % x", out, turn.bytes)
				}
				out = nil
				continue
			}
			if len(out) > 0 {
				t.Errorf("the gateway answers % x, want nothing", out)
			}
			var m codec.Message
			n, err := c.Next(turn.bytes, &m)
			if n != len(turn.bytes) || err != nil || m.Err != nil || m.Odd != "" {
				t.Fatalf("Next(% x) = %d, %v, mistake %v, odd %q", turn.bytes, n, err, m.Err, m.Odd)
			}
			out = c.Reply(nil, &m, granted(&m))
		}
	}
}

func TestProof(t *testing.T) {
	c := frame.Protocol{}.Codec()
	var m codec.Message
	if _, err := c.Next(conversations(t)[1][2].bytes, &m); err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, []byte("s3cret"))
	mac.Write(granted(&codec.Message{Kind: codec.Challenge}).Nonce)
	if want := mac.Sum(nil); m.Kind != codec.Proof || !hmac.Equal(m.Token, want) {
		t.Errorf("the proof is kind %d, % x; want % x", m.Kind, m.Token, want)
	}
}

func TestKit(t *testing.T) {
	all := conversations(t)
	codectest.Run(t, codectest.Kit{
		Protocol: frame.Protocol{},
		Client:   frame.Client{},
		Stream:   slices.Concat(said(all[1]), said(all[0])),
		Want: []codec.Kind{
			codec.Challenge, codec.Proof,
			codec.Hello, codec.Beat, codec.Beat, codec.Repace, codec.Sleep, codec.Fail, codec.Beat, codec.Bye,
		},
		IDs: []string{"pump-3"},
		Datagrams: [][]byte{
			said(all[0]),
			bin(t, "a511 0003 0101 61"),                    // hello, id a
			bin(t, "a511 0006 0101 61 0201 62"),            // with a token
			bin(t, "a511 0003 0101 61 a512 0004 12345678"), // and a beat
			bin(t, "a511 0003 0101 61 a513 0004 00007530"), // and a pace
		},
		Token: "s3cret",
	})
}

func TestNext(t *testing.T) {
	tests := []struct {
		name, frame string
		want        codec.Message
		err         codec.Code // of the message
	}{
		{name: "hello with everything", frame: "a511 001e 0101 61 0203 786170 0304 00000001 0404 ffffffff 0508 0000000100000000", want: codec.Message{
			Kind: codec.Hello, ID: []byte("a"), Token: []byte("xap"), Timeout: time.Millisecond, Interval: (1<<32 - 1) * time.Millisecond, Epoch: 1 << 32,
		}},
		{name: "fields of a later version", frame: "a511 0008 6300 0101 61 ff01 00", want: codec.Message{Kind: codec.Hello, ID: []byte("a")}},
		{name: "a field twice", frame: "a511 0006 0101 61 0101 62", want: codec.Message{Kind: codec.Hello, ID: []byte("b")}},
		{name: "no id", frame: "a511 0000", want: codec.Message{Kind: codec.Hello}, err: codec.BadHello},
		{name: "empty id", frame: "a511 0002 0100", want: codec.Message{Kind: codec.Hello}, err: codec.BadHello},
		{name: "field cut off", frame: "a511 0003 0102 61", want: codec.Message{Kind: codec.Hello}, err: codec.BadHello},
		{name: "half a field", frame: "a511 0001 01", want: codec.Message{Kind: codec.Hello}, err: codec.BadHello},
		{name: "short ttl", frame: "a511 0006 0101 61 0301 62", want: codec.Message{Kind: codec.Hello, ID: []byte("a")}, err: codec.BadTTL},
		{name: "epoch beyond the last", frame: "a511 000d 0101 61 0508 8000000000000000", want: codec.Message{Kind: codec.Hello, ID: []byte("a")}, err: codec.BadEpoch},
		{name: "short epoch", frame: "a511 0006 0101 61 0501 62", want: codec.Message{Kind: codec.Hello, ID: []byte("a")}, err: codec.BadEpoch},
		{name: "challenge with a token", frame: "a517 0006 0101 61 0201 62", want: codec.Message{Kind: codec.Challenge, ID: []byte("a")}},
		{name: "challenge without id", frame: "a517 0000", want: codec.Message{Kind: codec.Challenge}, err: codec.BadHello},
		{name: "short proof", frame: "a518 0001 00", want: codec.Message{Kind: codec.Proof, Token: []byte{0}}, err: codec.BadMessage},
		{name: "beat", frame: "a512 0000", want: codec.Message{Kind: codec.Beat}},
		{name: "long beat", frame: "a512 0006 01020304 0506", want: codec.Message{Kind: codec.Beat, Text: []byte{1, 2, 3, 4}}},
		{name: "short beat", frame: "a512 0002 0102", want: codec.Message{Kind: codec.Beat, Odd: "length"}},
		{name: "ttl alone", frame: "a513 0004 000003e8", want: codec.Message{Kind: codec.Repace, Timeout: time.Second}},
		{name: "interval alone", frame: "a513 0008 00000000 000003e8", want: codec.Message{Kind: codec.Repace, Interval: time.Second}},
		{name: "no ttl", frame: "a513 0000", want: codec.Message{Kind: codec.Repace}, err: codec.BadTTL},
		{name: "long sleep", frame: "a514 0006 000003e8 0000", want: codec.Message{Kind: codec.Sleep, Duration: time.Second}},
		{name: "short sleep", frame: "a514 0002 03e8", want: codec.Message{Kind: codec.Sleep}, err: codec.BadSleep},
		{name: "text that is none", frame: "a515 0002 61ff", want: codec.Message{Kind: codec.Fail, Text: []byte("a\uFFFD")}},
		{name: "bye with more", frame: "a516 0001 61", want: codec.Message{Kind: codec.Bye}},
		{name: "data", frame: "a519 0001 61", want: codec.Message{Kind: codec.Beat}},
		{name: "type of a later version", frame: "a51e 0001 61", want: codec.Message{Kind: codec.Beat, Odd: "type"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			input := bin(t, tt.frame)
			var m codec.Message
			n, err := frame.Protocol{}.Codec().Next(append(input, 0xa5), &m)
			if n != len(input) || err != nil {
				t.Fatalf("Next = %d, %v; want %d bytes taken", n, err, len(input))
			}
			if got := codeOf(m.Err); got != tt.err {
				t.Errorf("the mistake is %v, want %q", m.Err, tt.err)
			}
			if m.Kind != tt.want.Kind || !bytes.Equal(m.ID, tt.want.ID) || !bytes.Equal(m.Token, tt.want.Token) || !bytes.Equal(m.Text, tt.want.Text) ||
				m.Timeout != tt.want.Timeout || m.Interval != tt.want.Interval || m.Duration != tt.want.Duration || m.Epoch != tt.want.Epoch ||
				m.Odd != tt.want.Odd {
				t.Errorf("Next(%s) is %+v, want %+v", tt.frame, m, tt.want)
			}
		})
	}
}

func codeOf(e *codec.Error) codec.Code {
	if e == nil {
		return ""
	}
	return e.Code
}

// A connection on which no frame can follow ends, as soon as that shows.
func TestErrors(t *testing.T) {
	tests := []struct {
		name, input string
		want        string
	}{
		{"no frame", "16", "bad-message: a frame begins with 0x16, want 0xa5; is the length of the frame before it right?"},
		{"later version", "a5 21", "not-spoken: version 2 of the frame protocol is not spoken here; speak version 1"},
		{"too long", "a5 11 10 01", "too-long: a frame announces a body of 4097 bytes; want at most 4096"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := frame.Protocol{}.Codec()
			n, err := c.Next(bin(t, tt.input), &codec.Message{})
			if n != 0 || err == nil || err.Error() != tt.want {
				t.Errorf("Next(%s) = %d, %v, want %s", tt.input, n, err, tt.want)
			}
		})
	}
	longest := append(bin(t, "a519 1000"), make([]byte, frame.MaxBody)...)
	if n, err := (frame.Protocol{}).Codec().Next(longest, &codec.Message{}); n != len(longest) || err != nil {
		t.Errorf("Next of a body of MaxBody bytes = %d, %v", n, err)
	}
}

func TestReplies(t *testing.T) {
	hello := codec.Message{Kind: codec.Hello, ID: []byte("a")}
	tests := []struct {
		name    string
		message codec.Message
		outcome codec.Outcome
		want    string
	}{
		{"everything", hello, codec.Outcome{Epoch: 2, Timeout: time.Second, Interval: time.Millisecond}, "a511 0016 0304 000003e8 0508 0000000000000002 0404 00000001"},
		{"rounded up", hello, codec.Outcome{Epoch: 1, Timeout: time.Nanosecond}, "a511 0010 0304 00000001 0508 0000000000000001"},
		{"longer than fits", hello, codec.Outcome{Epoch: 1, Timeout: 1<<63 - 1}, "a511 0010 0304 ffffffff 0508 0000000000000001"},
		{"refused", hello, codec.Outcome{Err: &codec.Error{Code: codec.Unauthorized, Text: "no"}}, "a51f 0003 0a 6e6f"},
		{"duplicate", hello, codec.Outcome{Err: &codec.Error{Code: codec.Duplicate, Text: "no"}}, "a51f 0003 0e 6e6f"},
		{"unknown code", hello, codec.Outcome{Err: &codec.Error{Code: "odd", Text: "no"}}, "a51f 0003 00 6e6f"},
		{"noise", codec.Message{}, codec.Outcome{}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := frame.Protocol{}.Codec().Reply(nil, &tt.message, &tt.outcome)
			if want := bin(t, tt.want); !bytes.Equal(got, want) {
				t.Errorf("Reply = % x, want % x", got, want)
			}
		})
	}
	long := &codec.Error{Code: codec.BadMessage, Text: strings.Repeat("ä", 200)}
	if got := (frame.Protocol{}).Codec().Goodbye(nil, "", long); len(got) != 4+1+240 {
		t.Errorf("an error with a text of 400 bytes has %d bytes, want 245", len(got))
	}
}

// In datagrams there is no challenge, and an answer is as long as its question at most, unless a
// token was accepted.
func TestDatagram(t *testing.T) {
	refused := &codec.Error{Code: codec.Full, Text: "the registry is full"}
	tests := []struct {
		name, frame string
		refuse      *codec.Error
		want        string
	}{
		{"short hello", "a511 0003 0101 61", nil, "a511 0000"},
		{"hello", "a511 0006 0104 61626364", nil, "a511 0006 0304 00015f90"},
		{"hello with a token", "a511 0006 0101 61 0201 62", nil, "a511 0010 0304 00015f90 0508 0000000000000001"},
		{"wrong token", "a511 0006 0101 61 0201 62", refused, "a51f 0001 0b"},
		{"challenge", "a517 0003 0101 61", nil, "a51f 0001 01"},
		{"refused bye", "a516 0000", refused, ""},
		{"beat", "a512 0004 01020304", nil, "a512 0004 01020304"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := frame.Protocol{}.PacketCodec()
			var m codec.Message
			if _, err := c.Next(bin(t, tt.frame), &m); err != nil {
				t.Fatal(err)
			}
			o := granted(&m)
			if tt.refuse != nil {
				o = &codec.Outcome{Err: tt.refuse}
			}
			if got, want := c.Reply(nil, &m, o), bin(t, tt.want); !bytes.Equal(got, want) {
				t.Errorf("the answer is % x, want % x", got, want)
			}
		})
	}
}

// What the gateway says without being asked.
func TestUnasked(t *testing.T) {
	c := frame.Protocol{}.Codec()
	sent, err := c.(codec.Sender).Send(nil, []byte("on"))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		got  []byte
		want string
		kind codec.AnswerKind
	}{
		{"probe", c.(codec.Prober).Probe(nil), "a51a 0000", codec.Noted},
		{"send", sent, "a519 0002 6f6e", codec.Noted},
		{"goodbye", c.Goodbye(nil, "silence", nil), "a516 0007 73696c656e6365", codec.Farewell},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if want := bin(t, tt.want); !bytes.Equal(tt.got, want) {
				t.Errorf("the frame is % x, want % x", tt.got, want)
			}
			if a, n := (frame.Client{}).Next(tt.got); a.Kind != tt.kind || n != len(tt.got) {
				t.Errorf("the client understands %+v, %d bytes; want kind %d", a, n, tt.kind)
			}
		})
	}
	if _, err := c.(codec.Sender).Send(nil, make([]byte, frame.MaxBody+1)); err == nil {
		t.Errorf("Send of more than MaxBody bytes succeeds")
	}
}

func FuzzNext(f *testing.F) {
	var seeds [][]byte
	for _, c := range conversations(f) {
		seeds = append(seeds, said(c))
	}
	codectest.Fuzz(f, codectest.Kit{Protocol: frame.Protocol{}}, seeds...)
}

func FuzzClient(f *testing.F) {
	for _, c := range conversations(f) {
		for _, t := range c {
			f.Add(t.bytes)
		}
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		if _, n := (frame.Client{}).Next(input); n < 0 || n > len(input) {
			t.Errorf("Next(% x) takes %d bytes", input, n)
		}
	})
}

func BenchmarkBeat(b *testing.B) {
	c := frame.Protocol{}.Codec()
	input := bin(b, "a512 0004 00000007")
	var m codec.Message
	var o codec.Outcome
	var out []byte
	b.ReportAllocs()
	b.SetBytes(int64(len(input)))
	for b.Loop() {
		m = codec.Message{}
		if _, err := c.Next(input, &m); err != nil {
			b.Fatal(err)
		}
		out = c.Reply(out[:0], &m, &o)
	}
}
