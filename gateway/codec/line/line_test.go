package line_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/codectest"
	"github.com/holter-iot/holter/gateway/codec/internal/vector"
	"github.com/holter-iot/holter/gateway/codec/line"
)

func TestParse(t *testing.T) {
	tests := []struct {
		text string
		want codec.Message
		err  codec.Code
	}{
		{text: "", want: codec.Message{Kind: codec.Beat}},
		{text: "temperature 21.5", want: codec.Message{Kind: codec.Beat}},
		{text: "PINGER", want: codec.Message{Kind: codec.Beat}},
		{text: "PING", want: codec.Message{Kind: codec.Beat, Note: 1}},
		{text: "ping 17 ", want: codec.Message{Kind: codec.Beat, Note: 1, Text: []byte("17")}},
		{text: "  Ping\ta b", want: codec.Message{Kind: codec.Beat, Note: 1, Text: []byte("a b")}},
		{text: "HELLO pump-3", want: codec.Message{Kind: codec.Hello, ID: []byte("pump-3")}},
		{text: "hello pump-3 s3cret= ttl=90 epoch=12", want: codec.Message{
			Kind: codec.Hello, ID: []byte("pump-3"), Token: []byte("s3cret="), Timeout: 90 * time.Second, Epoch: 12,
		}},
		{text: "HELLO pump-3 ttl=1m30s key", want: codec.Message{
			Kind: codec.Hello, ID: []byte("pump-3"), Token: []byte("key"), Timeout: 90 * time.Second,
		}},
		{text: "HELLO", err: codec.BadHello},
		{text: "HELLO a b c", err: codec.BadHello},
		{text: "HELLO a ttl=", err: codec.BadTTL},
		{text: "HELLO a ttl=soon", err: codec.BadTTL},
		{text: "HELLO a ttl=0", err: codec.BadTTL},
		{text: "HELLO a ttl=-1s", err: codec.BadTTL},
		{text: "HELLO a ttl=NaN", err: codec.BadTTL},
		{text: "HELLO a ttl=1e300", err: codec.BadTTL},
		{text: "HELLO a ttl=9000h", err: codec.BadTTL},
		{text: "HELLO a ttl=8784h", want: codec.Message{Kind: codec.Hello, ID: []byte("a"), Timeout: 366 * 24 * time.Hour}},
		{text: "HELLO a ttl=1ns", err: codec.BadTTL},
		{text: "HELLO a ttl=0.0009", err: codec.BadTTL},
		{text: "HELLO a ttl=1ms", want: codec.Message{Kind: codec.Hello, ID: []byte("a"), Timeout: time.Millisecond}},
		{text: "HELLO a epoch=0", err: codec.BadEpoch},
		{text: "HELLO a epoch=-1", err: codec.BadEpoch},
		{text: "HELLO a epoch=9223372036854775807", want: codec.Message{Kind: codec.Hello, ID: []byte("a"), Epoch: 1<<63 - 1}},
		{text: "HELLO a epoch=9223372036854775808", err: codec.BadEpoch},
		{text: "HELLO a epoch=18446744073709551616", err: codec.BadEpoch},
		{text: "TTL 0.5", want: codec.Message{Kind: codec.Repace, Timeout: 500 * time.Millisecond}},
		{text: "TTL", err: codec.BadTTL},
		{text: "TTL 5s please", err: codec.BadTTL},
		{text: "SLEEP 3600", want: codec.Message{Kind: codec.Sleep, Duration: time.Hour}},
		{text: "SLEEP 1h", want: codec.Message{Kind: codec.Sleep, Duration: time.Hour}},
		{text: "SLEEP long", err: codec.BadSleep},
		{text: "SLEEP", err: codec.BadSleep},
		{text: "SLEEP 9999999h", err: codec.BadSleep},
		{text: "FAIL  disk full ", want: codec.Message{Kind: codec.Fail, Text: []byte("disk full")}},
		{text: "FAIL \xff", want: codec.Message{Kind: codec.Fail, Text: []byte("\uFFFD")}},
		{text: "FAIL", want: codec.Message{Kind: codec.Fail}},
		{text: "bye", want: codec.Message{Kind: codec.Bye}},
		{text: "BYE now", want: codec.Message{Kind: codec.Bye}},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			var got codec.Message
			n, err := line.Protocol{}.Codec().Next([]byte(tt.text+"\n"), &got)
			if err != nil || n != len(tt.text)+1 {
				t.Fatalf("Next(%q) = %d, %v", tt.text, n, err)
			}
			if e := got.Err; e != nil {
				if e.Code != tt.err || strings.ContainsAny(e.Text, "\n\r") || e.Text == "" {
					t.Fatalf("%q: error %v, want code %q and one line of text", tt.text, e, tt.err)
				}
				return
			}
			if tt.err != "" {
				t.Fatalf("%q is %+v, want error %q", tt.text, got, tt.err)
			}
			if got.Kind != tt.want.Kind || !bytes.Equal(got.ID, tt.want.ID) || !bytes.Equal(got.Token, tt.want.Token) || got.Note != tt.want.Note ||
				!bytes.Equal(got.Text, tt.want.Text) || got.Timeout != tt.want.Timeout || got.Duration != tt.want.Duration || got.Epoch != tt.want.Epoch {
				t.Errorf("%q is %+v, want %+v", tt.text, got, tt.want)
			}
		})
	}
}

// A conversation in which all that can be said is.
const stream = "HELLO pump-3 s3cret ttl=90 epoch=12\r\nPING 17\nPING\n\ntemperature 21.5\nTTL 30s\nSLEEP 3600\nFAIL disk full\n\x01\x02\nBYE\n"

func TestKit(t *testing.T) {
	codectest.Run(t, codectest.Kit{
		Protocol:  line.Protocol{},
		Client:    line.Client{},
		IDs:       []string{"pump-3"},
		Datagrams: [][]byte{[]byte("HELLO pump-3 s3cret ttl=90"), []byte("HELLO pump-3\nPING 7\n")},
		Stream:    []byte(stream),
		Want: []codec.Kind{
			codec.Hello, codec.Beat, codec.Beat, codec.Beat, codec.Beat, codec.Repace, codec.Sleep, codec.Fail, codec.Beat, codec.Bye,
		},
	})
}

// Who asks for too long a time, or too short a one, is told what is allowed.
func TestBounds(t *testing.T) {
	for _, text := range []string{"HELLO a ttl=9000h\n", "HELLO a ttl=1ns\n", "SLEEP 9999999h\n", "TTL 1us\n"} {
		var m codec.Message
		if _, err := (line.Protocol{}).Codec().Next([]byte(text), &m); err != nil || m.Err == nil || !strings.Contains(m.Err.Text, "from 1 ms to 366 days") {
			t.Errorf("%q: %v, %v", text, err, m.Err)
		}
	}
}

// TestSniff holds what a shared port takes for a line, and that it waits while that may change.
func TestSniff(t *testing.T) {
	const login = "\x78\x78\x0d\x01\x08\x64\x71\x70\x03\x28\x35\x81\x00\x09\x3f\x04\x0d\x0a" // of Traccar's Gt06ProtocolDecoderTest
	vector.Sniff(t, line.Protocol{}, map[codec.Guess]map[string]string{
		codec.Yes: {
			"line":                       "HELLO pump-3 ttl=60s\r\n",
			"line behind empty ones":     "\r\n\nHELLO pump-3\n",
			"line behind a tab":          "\tHELLO pump-3\n",
			"line in UTF-8":              "HELLO p\u00fcmpe\n",
			"line that is long":          "HELLO " + strings.Repeat("a", 58),
			"line and what follows":      "HELLO pump-3\n\x01\x02\n",
			"empty lines without an end": strings.Repeat("\r\n", 32),
		},
		codec.Maybe: {
			"beginning of a line": "HELLO pump-3 ttl=60s",
			"empty lines":         "\r\n\r\n",
		},
		codec.No: {
			"login of a GT06":                          login,
			"login of a GT06 behind the end of a line": "\r\n" + login,
			"JT/T 808":  "\x7e\x00\x02",
			"frame":     "\xa5\x11\x00\x08",
			"Teltonika": "\x00\x0f356307042441013",
		},
	})
}

func FuzzNext(f *testing.F) {
	codectest.Fuzz(f, codectest.Kit{Protocol: line.Protocol{}}, []byte(stream), []byte("HELLO a auth=hmac\nPROOF 00ff\n"))
}

func TestTooLong(t *testing.T) {
	c := line.Protocol{MaxLine: 10}.Codec()
	for _, input := range []string{"0123456789a", "0123456789a\n"} {
		var m codec.Message
		if n, err := c.Next([]byte(input), &m); n != 0 || err == nil || !strings.Contains(err.Error(), "too-long") {
			t.Errorf("Next(%q) = %d, %v", input, n, err)
		}
	}
}

func TestReplies(t *testing.T) {
	minute := codec.Outcome{Epoch: 3, Timeout: 90 * time.Second, Granted: time.Hour, Nonce: []byte("abc")}
	for text, want := range map[string]string{
		"HELLO a": "OK 3 ttl=90\n", "PING": "PONG\n", "PING 7": "PONG 7\n", "TTL 90": "TTL 90\n", "SLEEP 1h": "OK sleep=3600\n",
		"FAIL x": "OK\n", "BYE": "BYE\n", "x": "", "HELLO a auth=hmac": "CHALLENGE abc\n", "PROOF 00": "OK 3 ttl=90\n",
	} {
		c := line.Protocol{}.PacketCodec()
		var m codec.Message
		if n, err := c.Next([]byte(text), &m); n != len(text) || err != nil { // a datagram's end is a line's
			t.Errorf("Next(%q) = %d, %v", text, n, err)
		}
		if got := string(c.Reply(nil, &m, &minute)); got != want {
			t.Errorf("%q is answered %q, want %q", text, got, want)
		}
		refused := codec.Outcome{Err: &codec.Error{Code: codec.Busy, Text: "later"}}
		if got := string(c.Reply(nil, &m, &refused)); got != "ERR busy later\n" {
			t.Errorf("%q is refused with %q", text, got)
		}
	}
}

func TestWords(t *testing.T) {
	c := line.Protocol{}.Codec()
	if got := string(c.Goodbye(nil, "silence", nil)) + string(c.Goodbye(nil, "", nil)) +
		string(c.Goodbye(nil, "", &codec.Error{Code: codec.Full, Text: "later"})); got != "BYE silence\nBYE\nERR full later\n" {
		t.Errorf("goodbyes: %q", got)
	}
	if got := string(c.(codec.Prober).Probe(nil)); got != "PING?\n" {
		t.Errorf("probe: %q", got)
	}
	if got, err := c.(codec.Sender).Send(nil, []byte("open the valve")); string(got) != "MSG open the valve\n" || err != nil {
		t.Errorf("send: %q, %v", got, err)
	}
	for _, bad := range []string{"a\nb", "\x00", strings.Repeat("x", 1021)} {
		if got, err := c.(codec.Sender).Send([]byte("z"), []byte(bad)); string(got) != "z" || err == nil {
			t.Errorf("send %q: %q, %v", bad, got, err)
		}
	}
}
