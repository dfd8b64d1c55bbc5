package gt06_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/codectest"
	"github.com/holter-iot/holter/gateway/codec/gt06"
	"github.com/holter-iot/holter/gateway/codec/internal/vector"
)

// frames is the file of frames as their makers send them.
const frames = "testdata/frames.txt"

func TestVectors(t *testing.T) {
	// The time in the document's example of an answer.
	now := time.Date(2015, 12, 29, 2, 0, 21, 0, time.FixedZone("", 2*60*60))
	for _, v := range vector.Read(t, frames) {
		t.Run(v.Name, func(t *testing.T) { check(t, v, met(t, gt06.Protocol{}.Codec()), now) })
	}
	for _, v := range vector.Read(t, "testdata/clones.txt") {
		t.Run("lenient "+v.Name, func(t *testing.T) { check(t, v, met(t, gt06.Protocol{Lenient: true}.Codec()), now) })
	}
}

// met returns the codec of a connection on which a device has logged in.
func met(tb testing.TB, c codec.Codec) codec.Codec {
	tb.Helper()
	var m codec.Message
	if n, err := c.Next(vector.Find(tb, frames, "login-13"), &m); n == 0 || err != nil || m.Kind != codec.Hello {
		tb.Fatalf("Next = %d, %v, kind %v, want a login", n, err, m.Kind)
	}
	return c
}

// check is [vector.Vector.Check], and wants no answer to a frame that is refused, nor a mistake in others
// than hellos.
func check(t *testing.T, v vector.Vector, c codec.Codec, now time.Time) {
	t.Helper()
	m := v.Check(t, c, now)
	if bad := m.Kind == codec.Hello && v.ID == ""; bad != (m.Err != nil) {
		t.Errorf("Next(%x) finds the mistake %v", v.Input, m.Err)
	}
	refused := &codec.Outcome{Err: &codec.Error{Code: codec.Busy, Text: "later"}}
	if answer := c.Reply(nil, &m, refused); len(answer) > 0 {
		t.Errorf("Reply to a frame that is refused = %x, want nothing", answer)
	}
}

// conversation is a login and one frame of each kind.
func conversation(tb testing.TB) []byte {
	tb.Helper()
	var stream []byte
	for _, name := range []string{
		"login-13", "heartbeat", "heartbeat-length", "login-crc", "alarm-95", "time-document", "serial-9b-crlf", "short", "heartbeat-23",
	} {
		stream = append(stream, vector.Find(tb, frames, name)...)
	}
	return stream
}

func TestKit(t *testing.T) {
	codectest.Run(t, codectest.Kit{
		Protocol: gt06.Protocol{},
		Client:   gt06.Client{},
		Stream:   conversation(t),
		Want:     append([]codec.Kind{codec.Hello}, slices.Repeat([]codec.Kind{codec.Beat}, 6)...),
		IDs:      []string{"864717003283581"},
	})
}

func FuzzNext(f *testing.F) {
	seeds := [][]byte{conversation(f)}
	for _, v := range vector.Read(f, frames) {
		seeds = append(seeds, v.Input)
	}
	codectest.Fuzz(f, codectest.Kit{Protocol: gt06.Protocol{}}, seeds...)
}

func FuzzLenient(f *testing.F) {
	seeds := [][]byte{conversation(f), bareConversation(f)}
	for _, v := range vector.Read(f, "testdata/clones.txt") {
		seeds = append(seeds, v.Input)
	}
	codectest.Fuzz(f, codectest.Kit{Protocol: gt06.Protocol{Lenient: true}}, seeds...)
}

// beats returns how many heartbeats a codec finds, what was odd, and how many bytes are left.
func beats(t *testing.T, input []byte) (n int, odd []string, left int) {
	t.Helper()
	c := met(t, gt06.Protocol{}.Codec())
	for len(input) > 0 {
		var m codec.Message
		taken, err := c.Next(input, &m)
		if err != nil {
			t.Fatal(err)
		}
		if taken == 0 {
			break
		}
		if m.Kind == codec.Beat {
			n++
		}
		if m.Odd != "" {
			odd = append(odd, m.Odd)
		}
		input = input[taken:]
	}
	return n, odd, len(input)
}

// TestResync holds that heartbeats are found among what is none.
func TestResync(t *testing.T) {
	beat := string(vector.Find(t, frames, "heartbeat"))
	tests := []struct {
		name, input string
		beats, left int
		odd         []string
	}{
		{"noise before", "noise" + beat, 1, 0, []string{"garbage"}},
		{"end of a frame before", "\x06\x04\x00\x02\x01\x29\r\n" + beat, 1, 0, []string{"garbage"}},
		{"half a start before", "\x78\x0a" + beat, 1, 0, []string{"garbage"}},
		{"beginning of a frame before", beat[:7] + beat + beat, 2, 0, []string{"garbage"}},
		{"end of a frame missing", beat[:13] + beat + beat, 2, 0, []string{"garbage"}},
		{"byte of a frame missing", beat[:5] + beat[6:] + beat, 1, 0, []string{"garbage"}},
		{"byte of a frame wrong", beat[:5] + "x" + beat[6:] + beat, 1, 0, []string{"crc"}},
		{"length too great", beat[:2] + "\x0c" + beat[3:] + beat + beat, 2, 0, []string{"garbage"}},
		{"length far too great", "\x79\x79\xff\xff" + beat, 1, 0, []string{"garbage"}},
		{"no type", "\x78\x78\x05\x00\x00\x00\x00\x00\r\n" + beat, 1, 0, []string{"crc"}},
		{"noise behind", beat + "noise", 1, 0, []string{"garbage"}},
		{"start behind", beat + "\x78", 1, 1, nil},
		{"half a frame behind", beat + beat[:8], 1, 8, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n, odd, left := beats(t, []byte(tt.input))
			if n != tt.beats || left != tt.left || !slices.Equal(odd, tt.odd) {
				t.Errorf("Next finds %d heartbeats, odd %q, and leaves %d bytes of %x; want %d, %q, %d", n, odd, left, tt.input, tt.beats, tt.odd, tt.left)
			}
		})
	}
}

// TestLost holds that a wrong length delays the heartbeats that follow for some hundred bytes at
// most.
// TestEarly: frames before the login are those of nobody yet, whatever they are, and are not answered.
func TestEarly(t *testing.T) {
	c := gt06.Protocol{}.Codec()
	for name, odd := range map[string]string{"heartbeat": "early", "heartbeat-length": "length", "time-document": "early"} {
		var m codec.Message
		frame := vector.Find(t, frames, name)
		if n, err := c.Next(frame, &m); n != len(frame) || err != nil || m.Kind != codec.None || m.Odd != odd {
			t.Errorf("%s: Next = %d, %v, %+v, want one that means nothing and is odd as %s", name, n, err, m, odd)
		}
		if answer := c.Reply(nil, &m, &codec.Outcome{}); len(answer) > 0 {
			t.Errorf("%s is answered: %x", name, answer)
		}
	}
	var m codec.Message
	if _, err := met(t, c).Next(vector.Find(t, frames, "heartbeat"), &m); err != nil || m.Kind != codec.Beat || m.Odd != "" {
		t.Errorf("after the login a heartbeat is %+v, %v", m, err)
	}
}

func TestLost(t *testing.T) {
	beat := vector.Find(t, frames, "heartbeat")
	wrong := slices.Concat([]byte{0x78, 0x78, 0xff}, beat[3:])
	for followers := range 100 {
		n, _, left := beats(t, append(wrong, bytes.Repeat(beat, followers)...))
		if missing := followers - n; missing > 17 || left > 300 {
			t.Fatalf("of %d heartbeats after a wrong length %d are not heard, %d bytes wait; want 17 and 300 at most", followers, missing, left)
		}
	}
	if n, _, left := beats(t, append([]byte{0x78, 0x78, 0x10}, bytes.Repeat([]byte{1}, 600)...)); n != 0 || left != 0 {
		t.Errorf("of a frame without an end %d bytes wait; want 0", left)
	}
}

// TestLongFrame holds that an answer has the form of its frame.
func TestLongFrame(t *testing.T) {
	long := vector.Unhex(t, "7979000513012A5C510D0A")
	c := met(t, gt06.Protocol{}.Codec())
	var m codec.Message
	if n, err := c.Next(long, &m); n != len(long) || err != nil || m.Kind != codec.Beat {
		t.Fatalf("Next = %d, %v, kind %d, odd %q, want a heartbeat", n, err, m.Kind, m.Odd)
	}
	if got := c.Reply(nil, &m, &codec.Outcome{}); !bytes.Equal(got, long) {
		t.Errorf("Reply = %x, want %x", got, long)
	}
}

// TestCommands holds a command against one of Traccar (Gt06ProtocolEncoderTest) but for the serial
// number, which Traccar leaves at 0, and against the example of Concox's document, whose mark and
// serial number are others.
func TestCommands(t *testing.T) {
	c := met(t, gt06.Protocol{}.Codec())
	sender := c.(codec.Sender)
	got, err := sender.Send([]byte("x"), []byte("Relay,1#"))
	if want := "787878" + "12800c0000000052656c61792c3123" + "00018c67" + "0d0a"; err != nil || hex.EncodeToString(got) != want {
		t.Errorf("Send = %x, %v, want %s", got, err, want)
	}
	got, err = sender.Send(nil, []byte("sos#"))
	if want := "78780e800800000000736f732300025ff10d0a"; err != nil || hex.EncodeToString(got) != want {
		t.Errorf("Send = %x, %v, want %s", got, err, want)
	}
	got = c.(codec.Prober).Probe(nil)
	if !bytes.Contains(got, []byte("STATUS#\x00\x03")) {
		t.Errorf("Probe = %q, want the command STATUS# with the serial number 3", got)
	}
	if a, n := (gt06.Client{}).Next(got); n != len(got) || a.Kind != codec.Noted {
		t.Errorf("the client takes %d bytes of a probe, as %+v; want %d, Noted", n, a, len(got))
	}
	longest := strings.Repeat("x", 245)
	if got, err := sender.Send(nil, []byte(longest)); err != nil || got[2] != 0xff || len(got) != 260 {
		t.Errorf("Send of 245 bytes = %d bytes, %v, want 260", len(got), err)
	}
	for _, payload := range []string{"", longest + "x", "WHERE#\r\n", "größer#"} {
		if got, err := sender.Send([]byte("x"), []byte(payload)); err == nil || string(got) != "x" {
			t.Errorf("Send(%q) = %x, %v, want an error", payload, got, err)
		}
	}
}

func TestSniff(t *testing.T) {
	vector.Sniff(t, gt06.Protocol{}, map[codec.Guess]map[string]string{
		codec.Yes: {
			"short frame":               "\x78\x78",
			"long frame":                "\x79\x79\x00",
			"end of a line and a frame": "\r\n\x78\x78\x0d\x01",
			"ends of lines and a frame": "\r\n\n\x79\x79",
		},
		codec.Maybe: {
			"a byte":                   "\x78",
			"end of a line":            "\r\n",
			"end of a line and a byte": "\r\n\x78",
		},
		codec.No: {
			"two starts":                          "\x78\x79",
			"JT/T 808":                            "\x7e\x01",
			"line protocol":                       "HELLO",
			"end of a line and the line protocol": "\r\nHELLO",
			"ends of lines without an end":        strings.Repeat("\r\n", 32),
		},
	})
}

// TestSniffPieces holds that a login behind the end of a line is never denied, however it comes in.
func TestSniffPieces(t *testing.T) {
	first := append([]byte("\r\n"), vector.Find(t, frames, "login-13")...)
	for n := range len(first) {
		if got := (gt06.Protocol{}).Sniff(first[:n+1]); got == codec.No {
			t.Errorf("Sniff(%q) = No", first[:n+1])
		}
	}
}

func TestClientID(t *testing.T) {
	tests := []struct{ id, want string }{
		{"752533678900242", "752533678900242"},
		{"7", "000000000000007"},
		{"dev-00012", "000000000000012"},
		{"12752533678900242", "752533678900242"},
		{"", ""},
	}
	for _, tt := range tests {
		t.Run(tt.id, func(t *testing.T) {
			var m codec.Message
			hello := gt06.Client{}.AppendHello(nil, tt.id, "", 0)
			if n, err := (gt06.Protocol{}).Codec().Next(hello, &m); n != len(hello) || err != nil || string(m.ID) != tt.want {
				t.Errorf("Next(AppendHello(%q)) = %d, %v, id %q, want id %q", tt.id, n, err, m.ID, tt.want)
			}
		})
	}
}

func ExampleProtocol() {
	c := gt06.Protocol{}.Codec()
	input := gt06.Client{}.AppendHello(nil, "752533678900242", "", 0)
	input = gt06.Client{}.AppendBeat(input, "752533678900242", 2)
	for len(input) > 0 {
		var m codec.Message
		n, err := c.Next(input, &m)
		if n == 0 || err != nil {
			break
		}
		answer := c.Reply(nil, &m, &codec.Outcome{})
		fmt.Printf("%x is answered by %x\n", input[:n], answer)
		input = input[n:]
	}
	// Output:
	// 78780d010752533678900242000182db0d0a is answered by 787805010001d9dc0d0a
	// 78780a1346060400020002b8f40d0a is answered by 787805130002db6a0d0a
}

func BenchmarkBeat(b *testing.B) {
	c := met(b, gt06.Protocol{}.Codec())
	input := gt06.Client{}.AppendBeat(nil, "752533678900242", 1)
	var dst []byte
	b.SetBytes(int64(len(input)))
	b.ReportAllocs()
	for b.Loop() {
		var m codec.Message
		if _, err := c.Next(input, &m); err != nil {
			b.Fatal(err)
		}
		dst = c.Reply(dst[:0], &m, &codec.Outcome{})
	}
}
