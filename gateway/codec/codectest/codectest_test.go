package codectest_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/codectest"
)

func TestBeacon(t *testing.T) { checkBeacon(t) }

func TestClient(t *testing.T) {
	codectest.Run(t, filled(codectest.Kit{Protocol: Beacon{}, Client: client{window: 1}}))
}

func FuzzBeacon(f *testing.F) {
	codectest.Fuzz(f, codectest.Kit{Protocol: Beacon{}}, []byte("I pump-3\nB\n?\nB\n"))
}

// altered is a Beacon in which something is different.
type altered struct {
	Beacon

	name    string
	sniff   func(first []byte) codec.Guess
	codec   func() codec.Codec
	next    func(input []byte, m *codec.Message) (int, error)
	reply   func(dst []byte, m *codec.Message, o *codec.Outcome) []byte
	goodbye func(dst []byte, why string, err *codec.Error) []byte
}

func (a altered) Name() string {
	if a.name != "" {
		return a.name
	}
	return a.Beacon.Name()
}

func (a altered) Sniff(first []byte) codec.Guess {
	if a.sniff != nil {
		return a.sniff(first)
	}
	return a.Beacon.Sniff(first)
}

func (a altered) Codec() codec.Codec {
	if a.codec != nil {
		return a.codec()
	}
	return a
}

func (a altered) Next(input []byte, m *codec.Message) (int, error) {
	if a.next != nil {
		return a.next(input, m)
	}
	return a.Beacon.Next(input, m)
}

func (a altered) Reply(dst []byte, m *codec.Message, o *codec.Outcome) []byte {
	if a.reply != nil {
		return a.reply(dst, m, o)
	}
	return a.Beacon.Reply(dst, m, o)
}

func (a altered) Goodbye(dst []byte, why string, err *codec.Error) []byte {
	if a.goodbye != nil {
		return a.goodbye(dst, why, err)
	}
	return a.Beacon.Goodbye(dst, why, err)
}

// keeper remembers the first id by its slice.
type keeper struct {
	Beacon

	id []byte
}

func (k *keeper) Next(input []byte, m *codec.Message) (int, error) {
	n, err := k.Beacon.Next(input, m)
	if m.Kind == codec.Hello {
		k.id = m.ID
	}
	if m.Kind == codec.Beat {
		m.ID = k.id
	}
	return n, err
}

// counter closes the connection at the fourth message of all connections.
type counter struct {
	Beacon

	n int
}

func (c *counter) Next(input []byte, m *codec.Message) (int, error) {
	n, err := c.Beacon.Next(input, m)
	if n > 0 {
		c.n++
	}
	if c.n > 4 {
		return 0, errors.New("enough")
	}
	return n, err
}

// packets also answers datagrams, with the answers that reply appends.
type packets struct{ altered }

func (p packets) PacketCodec() codec.Codec { return p.altered }

// talker has all that a codec may have, wrong.
type talker struct{ Beacon }

func (t talker) Codec() codec.Codec { return t }

func (talker) Probe(dst []byte) []byte { return dst }

// sender sends so much of a payload, or, if that is less than 0, forgets what other codecs said.
type sender struct {
	Beacon

	most int
}

func (s sender) Codec() codec.Codec { return s }

func (s sender) Send(dst, payload []byte) ([]byte, error) {
	if s.most < 0 {
		return payload, nil
	}
	return append(dst, payload[:min(s.most, len(payload))]...), nil
}

// client is the device's side of a Beacon.
type client struct {
	window uint64
	hello  string // instead of the right one
	beat   string // instead of the right one
	sleep  string // a message that is none
	bye    string // a message that is none
	next   func([]byte) (codec.Answer, int)
}

func (c client) AppendHello(dst []byte, id, _ string, _ time.Duration) []byte {
	if c.hello != "" {
		return append(dst, c.hello...)
	}
	return fmt.Appendf(dst, "I %s\n", id)
}

func (c client) AppendBeat(dst []byte, _ string, _ uint32) []byte {
	if c.beat != "" {
		return append(dst, c.beat...)
	}
	return append(dst, "B\n"...)
}

func (c client) AppendSleep(dst []byte, _ string, _ time.Duration) []byte {
	return append(dst, c.sleep...)
}

func (c client) AppendBye(dst []byte, _ string) []byte { return append(dst, c.bye...) }

func (c client) Window() uint64 { return c.window }
func (c client) Next(input []byte) (a codec.Answer, n int) {
	if c.next != nil {
		return c.next(input)
	}
	end := bytes.IndexByte(input, '\n')
	switch {
	case end < 0:
		return a, 0
	case input[0] == 'E':
		a.Kind = codec.Refused
	case string(input[:end]) == "K":
		a.Kind = codec.Welcome
	case string(input[:end]) == "B":
		a.Kind = codec.Heard
	}
	return a, end + 1
}

// hears is a client's Next to which everything means the same.
func hears(a codec.Answer) func(input []byte) (codec.Answer, int) {
	return func(input []byte) (codec.Answer, int) {
		n := bytes.IndexByte(input, '\n') + 1
		if n == 0 {
			return codec.Answer{}, 0
		}
		return a, n
	}
}

// TestKitFindsMistakes: each mistake is found by the check that is made for it, in words that say
// what is wrong.
func TestKitFindsMistakes(t *testing.T) {
	beacon := Beacon{}
	tests := []struct {
		name, check, says string
		kit               codectest.Kit
	}{
		{name: "no stream", check: "kit", says: "set Protocol, Stream", kit: codectest.Kit{Protocol: beacon, Stream: []byte{}}},
		{name: "client without an id", check: "kit", says: "set IDs or ID", kit: codectest.Kit{
			Protocol: beacon, Client: client{}, Stream: []byte("B\n"), Want: []codec.Kind{codec.Beat},
		}},
		{name: "wrong expectation", check: "stream", says: "means [Hello Beat Beat]; want [Hello]", kit: codectest.Kit{
			Protocol: beacon, Want: []codec.Kind{codec.Hello},
		}},
		{name: "wrong ids", check: "stream", says: `name ["pump-3"]; want ["pump-4"]`, kit: codectest.Kit{Protocol: beacon, IDs: []string{"pump-4"}}},
		{name: "half a message", check: "stream", says: "it waits for more", kit: codectest.Kit{Protocol: beacon, Stream: []byte("I pump-3\nB\nB\nB"), Want: []codec.Kind{codec.Hello, codec.Beat, codec.Beat}}},
		{name: "no heartbeat", check: "allocations", says: "add a heartbeat", kit: codectest.Kit{
			Protocol: beacon, Stream: []byte("I pump-3\n"), Want: []codec.Kind{codec.Hello},
		}},
		{name: "datagrams of none", check: "datagrams", says: "no method PacketCodec", kit: codectest.Kit{
			Protocol: beacon, Datagrams: [][]byte{[]byte("I pump-3\n")},
		}},
		{name: "name", check: "name", says: "lower-case", kit: codectest.Kit{Protocol: altered{name: "Bea con"}}},
		{name: "takes too much", check: "stream", says: "want 0 to 15", kit: codectest.Kit{Protocol: altered{
			next: func(input []byte, _ *codec.Message) (int, error) { return len(input) + 1, nil },
		}}},
		{name: "changes its input", check: "stream", says: "changed its input", kit: codectest.Kit{Protocol: altered{
			next: func(input []byte, m *codec.Message) (int, error) {
				n, err := beacon.Next(input, m)
				if n > 0 {
					input[n-1] = 0
				}
				return n, err
			},
		}}},
		{name: "waits forever", check: "endless", says: "codec.MaxMessage", kit: codectest.Kit{Protocol: altered{
			next: func(input []byte, m *codec.Message) (int, error) {
				n, _ := beacon.Next(input, m)
				return n, nil
			},
		}}},
		{name: "panics when cut", check: "splits", says: "Next panicked: runtime error", kit: codectest.Kit{Protocol: altered{
			next: func(input []byte, m *codec.Message) (int, error) {
				_ = input[1]
				return beacon.Next(input, m)
			},
		}}},
		{name: "half messages", check: "splits", says: "must return 0 until it has seen the whole message", kit: codectest.Kit{Protocol: altered{
			next: func(input []byte, m *codec.Message) (int, error) {
				if n, err := beacon.Next(input, m); n > 0 || err != nil {
					return n, err
				}
				m.Kind = codec.Beat
				return len(input), nil
			},
		}}},
		{name: "looks too far", check: "splits", says: "ends with the error", kit: codectest.Kit{
			Stream: []byte("I pump-3\nB\n?\n?\n"), Want: []codec.Kind{codec.Hello, codec.Beat},
			Protocol: altered{next: func(input []byte, m *codec.Message) (int, error) {
				if string(input) == "?\n?\n" {
					return 0, &codec.Error{Code: codec.Noise, Text: "this is noise"}
				}
				return beacon.Next(input, m)
			}},
		}},
		{name: "keeps its input", check: "stream", says: `name ["pump-3" "\xdd`, kit: codectest.Kit{Protocol: altered{
			codec: func() codec.Codec { return &keeper{} },
		}}},
		{name: "one state for all", check: "codecs", says: "a new codec for each connection", kit: codectest.Kit{Protocol: sharing()}},
		{name: "allocates", check: "allocations", says: "want 0", kit: codectest.Kit{Protocol: altered{
			next: func(input []byte, m *codec.Message) (int, error) {
				return beacon.Next(bytes.Clone(input), m)
			},
		}}},
		{name: "odd texts", check: "random", says: "metric's label", kit: codectest.Kit{Protocol: altered{
			next: func(input []byte, m *codec.Message) (int, error) {
				n, err := beacon.Next(input, m)
				if m.Odd != "" {
					m.Odd = fmt.Sprintf("line-of-%d", n)
				}
				return n, err
			},
		}}},
		{name: "odd input", check: "stream", says: `Odd to "odd: ?"`, kit: codectest.Kit{Protocol: altered{
			next: func(input []byte, m *codec.Message) (int, error) {
				n, err := beacon.Next(input, m)
				if m.Odd != "" {
					m.Odd = "odd: " + string(input[:n-1])
				}
				return n, err
			},
		}}},
		{name: "negative", check: "stream", says: "duration below 0", kit: codectest.Kit{Protocol: altered{
			next: func(input []byte, m *codec.Message) (int, error) {
				m.Timeout = -time.Second
				return beacon.Next(input, m)
			},
		}}},
		{name: "unknown kind", check: "stream", says: "no codec.Kind", kit: codectest.Kit{Protocol: altered{
			next: func(input []byte, m *codec.Message) (int, error) {
				m.Kind = codec.Bye + 1
				return len(input), nil
			},
		}}},
		{name: "error of two lines", check: "stream", says: "Text of one line", kit: codectest.Kit{Protocol: altered{
			next: func([]byte, *codec.Message) (int, error) {
				return 0, &codec.Error{Code: codec.BadMessage, Text: "one\ntwo"}
			},
		}}},
		{name: "sniffs no", check: "sniff", says: "Sniff says No to the first 1 bytes", kit: codectest.Kit{Protocol: altered{
			sniff: func(first []byte) codec.Guess {
				if bytes.HasPrefix(first, []byte("I ")) {
					return codec.Yes
				}
				return codec.No
			},
		}}},
		{name: "sniffs maybe", check: "sniff", says: "Maybe to the whole", kit: codectest.Kit{Protocol: altered{
			sniff: func([]byte) codec.Guess { return codec.Maybe },
		}}},
		{name: "sniffs maybe for long", check: "sniff", says: "still says Maybe after 64", kit: codectest.Kit{Protocol: altered{
			sniff: func(first []byte) codec.Guess { return max(beacon.Sniff(first), codec.Maybe) },
		}}},
		{name: "sniffs unsure", check: "sniff", says: "after it had said Yes", kit: codectest.Kit{Protocol: altered{
			sniff: func(first []byte) codec.Guess {
				if len(first) == 1 && first[0] == 'I' {
					return codec.Yes
				}
				return min(beacon.Sniff(first), codec.Maybe)
			},
		}}},
		{name: "sniff writes", check: "sniff", says: "Sniff changed its input", kit: codectest.Kit{Protocol: altered{
			sniff: func(first []byte) codec.Guess {
				g := beacon.Sniff(first)
				first[0] = 0
				return g
			},
		}}},
		{name: "reply panics", check: "replies", says: "Reply panicked", kit: codectest.Kit{Protocol: panicky}},
		{name: "reply drops", check: "stream", says: "did not return dst", kit: codectest.Kit{Protocol: altered{
			reply: func([]byte, *codec.Message, *codec.Outcome) []byte { return []byte("K\n") },
		}}},
		{name: "reply floods", check: "stream", says: "cut what you repeat", kit: codectest.Kit{Protocol: altered{
			reply: func(dst []byte, _ *codec.Message, _ *codec.Outcome) []byte { return append(dst, make([]byte, 4000)...) },
		}}},
		{name: "reply spoils the message", check: "stream", says: "must hold until the next call", kit: codectest.Kit{Protocol: altered{
			reply: func(dst []byte, m *codec.Message, o *codec.Outcome) []byte {
				clear(m.ID)
				return beacon.Reply(dst, m, o)
			},
		}}},
		{name: "goodbye panics", check: "goodbye", says: "Goodbye panicked", kit: codectest.Kit{Protocol: altered{
			goodbye: func(dst []byte, _ string, err *codec.Error) []byte { return append(dst, err.Text...) },
		}}},
		{name: "client that is not answered", check: "client", says: "want a Welcome", kit: codectest.Kit{
			Protocol: beacon, Client: client{window: 1, next: hears(codec.Answer{})},
		}},
		{name: "client that hears nothing", check: "client", says: "want {Kind:2", kit: codectest.Kit{
			Protocol: beacon, Client: client{window: 1, next: hears(codec.Answer{Kind: codec.Welcome})},
		}},
		{name: "client that is answered", check: "client", says: "although its Window is 0", kit: codectest.Kit{
			Protocol: beacon, Client: client{},
		}},
		{name: "empty probe", check: "codecs", says: "Probe appended nothing", kit: codectest.Kit{Protocol: talker{}}},
		{name: "send drops", check: "codecs", says: "Send did not return dst", kit: codectest.Kit{Protocol: sender{most: -1}}},
		{name: "send of nothing", check: "codecs", says: "return an error if it cannot be a message", kit: codectest.Kit{Protocol: sender{}}},
		{name: "client without a hello", check: "client", says: "opens the session", kit: codectest.Kit{Protocol: beacon, Client: client{window: 1, hello: "B\n"}}},
		{name: "client of another name", check: "client", says: "the codec understood \"pump-4\"", kit: codectest.Kit{Protocol: beacon, Client: client{window: 1, hello: "I pump-4\n"}}},
		{name: "half a hello", check: "client", says: "waits for more after what the client says", kit: codectest.Kit{Protocol: beacon, Client: client{window: 1, hello: "I p"}}},
		{name: "hello that is too long", check: "client", says: "returns the error too-long", kit: codectest.Kit{Protocol: beacon, Client: client{window: 1, hello: "I " + strings.Repeat("p", 300)}}},
		{name: "no heartbeat from the client", check: "client", says: "want one heartbeat", kit: codectest.Kit{Protocol: beacon, Client: client{window: 1, beat: "?\n"}}},
		{name: "sleep that is none", check: "client", says: "sleep of an hour as [Beat", kit: codectest.Kit{Protocol: beacon, Client: client{window: 1, sleep: "B\n"}}},
		{name: "goodbye that is none", check: "client", says: "goodbye as [Beat", kit: codectest.Kit{Protocol: beacon, Client: client{window: 1, bye: "B\n"}}},
		{name: "client that waits", check: "client", says: "does not take an answer", kit: codectest.Kit{Protocol: beacon, Client: client{next: func([]byte) (codec.Answer, int) { return codec.Answer{}, 0 }}}},
		{name: "client that takes too much", check: "client", says: "Next of the client returned n = 3", kit: codectest.Kit{Protocol: beacon, Client: client{next: func(b []byte) (codec.Answer, int) { return codec.Answer{}, len(b) + 1 }}}},
		{name: "client that takes halves", check: "client", says: "want 0 until it is whole", kit: codectest.Kit{Protocol: beacon, Client: client{next: func(b []byte) (codec.Answer, int) { return codec.Answer{}, len(b) }}}},
		{name: "client that panics", check: "client", says: "Next of the client panicked", kit: codectest.Kit{Protocol: beacon, Client: client{next: func(b []byte) (codec.Answer, int) { return codec.Answer{}, int(b[len(b)]) }}}},
		{name: "goodbye that is not understood", check: "client", says: "goodbye as [Garbage]", kit: codectest.Kit{
			Protocol: altered{goodbye: func(dst []byte, _ string, _ *codec.Error) []byte { return append(dst, '\n') }}, Client: client{window: 1},
		}},
		{name: "refusal that is not understood", check: "client", says: "refused as unauthorized as {Kind:3", kit: codectest.Kit{
			Protocol: beacon, Client: client{window: 1, next: func(b []byte) (codec.Answer, int) {
				a, n := client{}.Next(b)
				if a.Kind == codec.Refused {
					a.Kind = codec.Noted
				}
				return a, n
			}},
		}},
		{name: "client that panics at noise", check: "client", says: "Next of the client panicked", kit: codectest.Kit{
			Protocol: beacon, Client: client{window: 1, next: func(b []byte) (codec.Answer, int) {
				if b[0] > 'K' {
					panic("noise")
				}
				return client{}.Next(b)
			}},
		}},
		{name: "no datagrams", check: "datagrams", says: "put valid datagrams", kit: codectest.Kit{Protocol: packets{}}},
		{name: "datagram without an id", check: "datagrams", says: "want one with an ID", kit: codectest.Kit{
			Protocol: packets{altered{reply: silent}}, Datagrams: [][]byte{[]byte("B\n")},
		}},
		{name: "datagram of two halves", check: "datagrams", says: "and leaves 1 bytes", kit: codectest.Kit{
			Protocol: packets{}, Datagrams: [][]byte{[]byte("I p\nB")},
		}},
		{name: "datagram that panics", check: "datagrams", says: "Reply panicked", kit: codectest.Kit{
			Protocol: packets{panicky}, Datagrams: [][]byte{[]byte("I p\n")},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if text := codectest.FailureOf(filled(tt.kit), tt.check); !strings.Contains(text, tt.says) {
				t.Errorf("the check %q says %q; want %q in it", tt.check, text, tt.says)
			}
		})
	}
}

var panicky = altered{reply: func(dst []byte, m *codec.Message, o *codec.Outcome) []byte {
	if o.Err != nil {
		_ = o.Nonce[0]
	}
	return Beacon{}.Reply(dst, m, o)
}}

func silent(dst []byte, _ *codec.Message, _ *codec.Outcome) []byte { return dst }

// filled sets what the tests leave out.
func filled(k codectest.Kit) codectest.Kit {
	if k.Stream == nil {
		k.Stream = []byte("I pump-3\nB\n?\nB\n")
		if k.IDs == nil {
			k.IDs = []string{"pump-3"}
		}
		if k.Want == nil {
			k.Want = []codec.Kind{codec.Hello, codec.Beat, codec.Beat}
		}
	}
	return k
}

func sharing() codec.Protocol {
	shared := &counter{}
	n := 0
	return altered{codec: func() codec.Codec {
		if n++; n%2 == 1 {
			shared = &counter{}
		}
		return shared
	}}
}

// TestFuzzFindsMistakes: the fuzz target holds an input against the same promises.
func TestFuzzFindsMistakes(t *testing.T) {
	half := altered{next: func(input []byte, m *codec.Message) (int, error) {
		m.Kind = codec.Beat
		return len(input), nil
	}}
	tests := []struct {
		name, input, says string
		kit               codectest.Kit
	}{
		{"fine", "I a\nB\nx\n", "", codectest.Kit{Protocol: Beacon{}}},
		{"empty", "", "", codectest.Kit{Protocol: Beacon{}}},
		{"half messages", "abc", "must return 0", codectest.Kit{Protocol: half}},
		{"half messages, unframed", "abc", "", codectest.Kit{Protocol: half, Unframed: true}},
		{"refused", "I a\n", "Reply panicked", codectest.Kit{Protocol: panicky}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := codectest.FailureOfInput(tt.kit, []byte(tt.input))
			if tt.says == "" && got != "" || !strings.Contains(got, tt.says) {
				t.Errorf("the fuzz target says %q; want %q", got, tt.says)
			}
		})
	}
}
