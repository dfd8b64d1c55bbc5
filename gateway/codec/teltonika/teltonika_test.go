package teltonika_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/codectest"
	"github.com/holter-iot/holter/gateway/codec/internal/vector"
	"github.com/holter-iot/holter/gateway/codec/teltonika"
)

func TestVectors(t *testing.T) {
	for _, v := range vector.Read(t, "testdata/tcp.txt") {
		t.Run("tcp/"+v.Name, func(t *testing.T) { v.Check(t, teltonika.Protocol{}.Codec(), time.Time{}) })
	}
	for _, v := range vector.Read(t, "testdata/udp.txt") {
		t.Run("udp/"+v.Name, func(t *testing.T) { v.Check(t, teltonika.Protocol{}.PacketCodec(), time.Time{}) })
	}
}

// conversation is a login, and a packet of each kind.
func conversation(tb testing.TB) (stream []byte, kinds []codec.Kind) {
	tb.Helper()
	for _, v := range vector.Read(tb, "testdata/tcp.txt") {
		switch v.Name {
		case "login":
			kinds = append(kinds, codec.Hello)
		case "codec-8-traccar", "codec-8-count", "codec-12-camera":
			kinds = append(kinds, codec.Beat)
		case "codec-8-crc":
		default:
			continue
		}
		stream = append(stream, v.Input...)
	}
	return append(stream, 0xff, 0xff), append(kinds, codec.Beat, codec.Beat)
}

func datagrams(tb testing.TB) (list [][]byte) {
	tb.Helper()
	var several []byte
	for _, v := range vector.Read(tb, "testdata/udp.txt") {
		list = append(list, v.Input)
		several = append(several, v.Input...)
	}
	return append(list, several)
}

func TestKit(t *testing.T) {
	stream, kinds := conversation(t)
	codectest.Run(t, codectest.Kit{
		Protocol:  teltonika.Protocol{},
		Client:    teltonika.Client{},
		Stream:    stream,
		Want:      kinds,
		IDs:       []string{"356307042441013"},
		Datagrams: datagrams(t),
	})
}

func FuzzNext(f *testing.F) {
	var seeds [][]byte
	for _, v := range vector.Read(f, "testdata/tcp.txt") {
		seeds = append(seeds, v.Input)
	}
	stream, _ := conversation(f)
	codectest.Fuzz(f, codectest.Kit{Protocol: teltonika.Protocol{}}, append(append(seeds, datagrams(f)...), stream)...)
}

func FuzzClient(f *testing.F) {
	for _, answer := range []string{"\x01", "\x00\x00\x00\x01", "\x00\x00\x00\x00\x00\x00\x00\x0e\x0c\x01\x05\x00\x00\x00\x06getver\x01\x00\x00\xa4\xc2"} {
		f.Add([]byte(answer))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		for rest := input; len(rest) > 0; {
			a, n := teltonika.Client{}.Next(rest)
			if n < 0 || n > len(rest) || n == 0 && len(rest) >= codec.MaxMessage {
				t.Fatalf("Next(%x) = %+v, %d", rest, a, n)
			}
			if n == 0 {
				break
			}
			rest = rest[n:]
		}
	})
}

func TestSniff(t *testing.T) {
	login := "\x00\x0f356307042441013"
	vector.Sniff(t, teltonika.Protocol{}, map[codec.Guess]map[string]string{
		codec.Yes: {
			"login":                 login,
			"login and packet":      login + "\x00\x00\x00\x00",
			"keep-alives and login": "\xff\xff" + login,
		},
		codec.Maybe: {
			"a byte":                 login[:1],
			"without the last digit": login[:16],
			"keep-alives":            "\xff\xff",
		},
		codec.No: {
			"keep-alives without an end": strings.Repeat("\xff", 64),
			"packet without login":       "\x00\x00\x00\x00",
			"Modbus/TCP":                 "\x00\x0f\x00\x00\x00\x06\x01\x03",
			"too long":                   "\x00\x12",
			"too short":                  "\x00\x07",
			"letters":                    "\x00\x0f35a",
			"MQTT":                       "\x10\x10\x00\x04MQTT",
		},
	})
}

func TestMistakes(t *testing.T) {
	tests := []struct {
		name, input string
		code        codec.Code
	}{
		{"no packet", "x", codec.BadMessage},
		{"login of letters", "\x00\x0f35a", codec.BadMessage},
		{"login of 18 digits", "\x00\x12", codec.BadMessage},
		{"three zeros", "\x00\x00\x00\x01", codec.BadMessage},
		{"no data", "\x00\x00\x00\x00\x00\x00\x00\x00\x08\x01\x00\x00", codec.BadMessage},
		{"much data", "\x00\x00\x00\x00\x00\x01\x00\x00", codec.TooLong},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var m codec.Message
			n, err := teltonika.Protocol{}.Codec().Next([]byte(tt.input), &m)
			if e, ok := errors.AsType[*codec.Error](err); !ok || e.Code != tt.code || n != 0 {
				t.Errorf("Next(%q) = %d, %v, want code %q", tt.input, n, err, tt.code)
			}
		})
	}
}

func TestDatagramMistakes(t *testing.T) {
	good := vector.Read(t, "testdata/udp.txt")[0].Input
	tests := []struct {
		name  string
		input []byte
		code  codec.Code
	}{
		{"cut", good[:len(good)-1], codec.BadMessage},
		{"very short", good[:3], codec.BadMessage},
		{"length of the header", []byte("\x00\x02\xca\xfe\x01\x05"), codec.BadMessage},
		{"no IMEI", []byte("\x00\x04\xca\xfe\x01\x05"), codec.BadID},
		{"IMEI of letters", bytes.Replace(good, []byte("3520"), []byte("a520"), 1), codec.BadID},
		{"nothing behind the IMEI", append([]byte("\x00\x15"), good[2:23]...), codec.BadMessage},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var m codec.Message
			n, err := teltonika.Protocol{}.PacketCodec().Next(tt.input, &m)
			if e, ok := errors.AsType[*codec.Error](err); !ok || e.Code != tt.code || n != 0 {
				t.Errorf("Next(%x) = %d, %v, want code %q", tt.input, n, err, tt.code)
			}
		})
	}
}

// TestRefused holds that a device keeps what the gateway did not take.
func TestRefused(t *testing.T) {
	refused := &codec.Outcome{Err: &codec.Error{Code: codec.Busy, Text: "later"}}
	tcp, udp := vector.Read(t, "testdata/tcp.txt"), vector.Read(t, "testdata/udp.txt")
	tests := []struct {
		name  string
		codec codec.Codec
		input []byte
		want  string
	}{
		{"login", teltonika.Protocol{}.Codec(), tcp[0].Input, "00"},
		{"packet", teltonika.Protocol{}.Codec(), tcp[1].Input, "00000000"},
		{"datagram", teltonika.Protocol{}.PacketCodec(), udp[0].Input, "0005cafe010500"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var m codec.Message
			if _, err := tt.codec.Next(tt.input, &m); err != nil {
				t.Fatal(err)
			}
			if got := hex.EncodeToString(tt.codec.Reply(nil, &m, refused)); got != tt.want {
				t.Errorf("Reply = %s, want %s", got, tt.want)
			}
		})
	}
}

// TestKeepAlive holds that a keep-alive is a heartbeat only after a login that was accepted.
func TestKeepAlive(t *testing.T) {
	c := teltonika.Protocol{}.Codec()
	kindOf := func() codec.Kind {
		t.Helper()
		var m codec.Message
		if n, err := c.Next([]byte{0xff, 0xff}, &m); n != 1 || err != nil {
			t.Fatalf("Next = %d, %v, want 1", n, err)
		}
		return m.Kind
	}
	login := func(o *codec.Outcome) {
		t.Helper()
		var m codec.Message
		if _, err := c.Next([]byte("\x00\x0f356307042441013"), &m); err != nil {
			t.Fatal(err)
		}
		c.Reply(nil, &m, o)
	}
	if got := kindOf(); got != codec.None {
		t.Errorf("before the login: kind %d, want None", got)
	}
	login(&codec.Outcome{Err: &codec.Error{Code: codec.Busy, Text: "later"}})
	if got := kindOf(); got != codec.None {
		t.Errorf("after a login that was refused: kind %d, want None", got)
	}
	login(&codec.Outcome{})
	if got := kindOf(); got != codec.Beat {
		t.Errorf("after the login: kind %d, want Beat", got)
	}
}

// TestCommands holds the commands against those of the documentation: getinfo in "Teltonika Data
// Sending Protocols", Codec 12.
func TestCommands(t *testing.T) {
	c := teltonika.Protocol{}.Codec()
	sender := c.(codec.Sender)
	got, err := sender.Send(nil, []byte("getinfo"))
	if want := "000000000000000f0c010500000007676574696e666f0100004312"; err != nil || hex.EncodeToString(got) != want {
		t.Errorf("Send(getinfo) = %x, %v, want %s", got, err, want)
	}
	for _, payload := range [][]byte{nil, make([]byte, codec.MaxMessage)} {
		if got, err := sender.Send([]byte("x"), payload); err == nil || string(got) != "x" {
			t.Errorf("Send of %d bytes = %d bytes, %v, want an error", len(payload), len(got), err)
		}
	}
	over, err := teltonika.Protocol{}.PacketCodec().(codec.Sender).Send(nil, []byte("getinfo"))
	if err != nil || !bytes.Equal(over, got) {
		t.Errorf("Send(getinfo) over UDP = %x, %v, want %x as over TCP", over, err, got)
	}
	if _, ok := (teltonika.Protocol{}).PacketCodec().(codec.Prober); ok {
		t.Errorf("there is a question over UDP, but its answer does not name the device")
	}
	got = c.(codec.Prober).Probe([]byte("x"))
	if want := "78000000000000000e0c010500000006676574766572010000a4c2"; hex.EncodeToString(got) != want {
		t.Errorf("Probe = %x, want %s", got, want)
	}
	for _, n := range []int{1, 9, len(got) - 2, len(got) - 1} {
		a, taken := teltonika.Client{}.Next(got[1 : 1+n])
		if want := n / (len(got) - 1) * n; taken != want || taken > 0 && a.Kind != codec.Noted {
			t.Errorf("the client takes %d of %d bytes of a command, as %+v; want %d", taken, n, a, want)
		}
	}
}

func TestClientAnswers(t *testing.T) {
	tests := []struct {
		name, input string
		want        codec.AnswerKind
		n           int
	}{
		{"login accepted", "\x01", codec.Welcome, 1},
		{"login refused", "\x00", 0, 0},
		{"one record", "\x00\x00\x00\x01\x00", codec.Heard, 4},
		{"no record", "\x00\x00\x00\x00\x00\x00\x00\x01\x00", codec.Refused, 4},
		{"nonsense", "x\x01", codec.Garbage, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if a, n := (teltonika.Client{}).Next([]byte(tt.input)); a.Kind != tt.want || n != tt.n {
				t.Errorf("Next(%q) = %+v, %d, want kind %d, %d", tt.input, a, n, tt.want, tt.n)
			}
		})
	}
}

func ExampleProtocol() {
	c := teltonika.Protocol{}.Codec()
	input := teltonika.Client{}.AppendHello(nil, "356307042441013", "", 0)
	input = teltonika.Client{}.AppendBeat(input, "356307042441013", 1)
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
	// 000f333536333037303432343431303133 is answered by 01
	// 000000000000002108010000018cc251f7e8000000000000000000000000000000000000000000000100000240 is answered by 00000001
}

func BenchmarkBeat(b *testing.B) {
	c := teltonika.Protocol{}.Codec()
	input := teltonika.Client{}.AppendBeat(nil, "356307042441013", 1)
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
