package line_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway/line"
)

func TestParse(t *testing.T) {
	tests := []struct {
		text string
		want line.Message
		err  line.Code
	}{
		{text: "", want: line.Message{Kind: line.Beat}},
		{text: "temperature 21.5", want: line.Message{Kind: line.Beat}},
		{text: "PINGER", want: line.Message{Kind: line.Beat}},
		{text: "PING", want: line.Message{Kind: line.Ping}},
		{text: "ping 17 ", want: line.Message{Kind: line.Ping, Text: []byte("17")}},
		{text: "  Ping\ta b", want: line.Message{Kind: line.Ping, Text: []byte("a b")}},
		{text: "HELLO pump-3", want: line.Message{Kind: line.Hello, ID: []byte("pump-3")}},
		{text: "hello pump-3 s3cret= ttl=90 epoch=12", want: line.Message{
			Kind: line.Hello, ID: []byte("pump-3"), Token: []byte("s3cret="), Duration: 90 * time.Second, Epoch: 12,
		}},
		{text: "HELLO pump-3 ttl=1m30s key", want: line.Message{
			Kind: line.Hello, ID: []byte("pump-3"), Token: []byte("key"), Duration: 90 * time.Second,
		}},
		{text: "HELLO", err: line.BadHello},
		{text: "HELLO a b c", err: line.BadHello},
		{text: "HELLO a ttl=", err: line.BadTTL},
		{text: "HELLO a ttl=soon", err: line.BadTTL},
		{text: "HELLO a ttl=0", err: line.BadTTL},
		{text: "HELLO a ttl=-1s", err: line.BadTTL},
		{text: "HELLO a ttl=NaN", err: line.BadTTL},
		{text: "HELLO a ttl=1e300", err: line.BadTTL},
		{text: "HELLO a ttl=9000h", err: line.BadTTL},
		{text: "HELLO a epoch=0", err: line.BadEpoch},
		{text: "HELLO a epoch=-1", err: line.BadEpoch},
		{text: "HELLO a epoch=18446744073709551616", err: line.BadEpoch},
		{text: "TTL 0.5", want: line.Message{Kind: line.TTL, Duration: 500 * time.Millisecond}},
		{text: "TTL", err: line.BadTTL},
		{text: "TTL 5s please", err: line.BadTTL},
		{text: "SLEEP 3600", want: line.Message{Kind: line.Sleep, Duration: time.Hour}},
		{text: "SLEEP 1h", want: line.Message{Kind: line.Sleep, Duration: time.Hour}},
		{text: "SLEEP long", err: line.BadSleep},
		{text: "SLEEP", err: line.BadSleep},
		{text: "FAIL  disk full ", want: line.Message{Kind: line.Fail, Text: []byte("disk full")}},
		{text: "FAIL \xff", want: line.Message{Kind: line.Fail, Text: []byte("\uFFFD")}},
		{text: "FAIL", want: line.Message{Kind: line.Fail}},
		{text: "bye", want: line.Message{Kind: line.Bye}},
		{text: "BYE now", want: line.Message{Kind: line.Bye}},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			got, err := line.Parse([]byte(tt.text))
			if err != nil {
				if err.Code != tt.err || strings.ContainsAny(err.Text, "\n\r") || err.Text == "" {
					t.Fatalf("Parse(%q) error = %v, want code %q and one line of text", tt.text, err, tt.err)
				}
				return
			}
			if tt.err != "" {
				t.Fatalf("Parse(%q) = %+v, want error %q", tt.text, got, tt.err)
			}
			if got.Kind != tt.want.Kind || !bytes.Equal(got.ID, tt.want.ID) || !bytes.Equal(got.Token, tt.want.Token) ||
				!bytes.Equal(got.Text, tt.want.Text) || got.Duration != tt.want.Duration || got.Epoch != tt.want.Epoch {
				t.Errorf("Parse(%q) = %+v, want %+v", tt.text, got, tt.want)
			}
		})
	}
}

func TestSplit(t *testing.T) {
	tests := []struct {
		buffer, text, rest string
		ok                 bool
	}{
		{"", "", "", false},
		{"PING", "", "PING", false},
		{"\n", "", "", true},
		{"\r\n", "", "", true},
		{"PING 1\r\nPING 2\n", "PING 1", "PING 2\n", true},
		{"a\rb\nc", "a\rb", "c", true},
	}
	for _, tt := range tests {
		text, rest, ok := line.Split([]byte(tt.buffer))
		if string(text) != tt.text || string(rest) != tt.rest || ok != tt.ok {
			t.Errorf("Split(%q) = %q, %q, %v, want %q, %q, %v", tt.buffer, text, rest, ok, tt.text, tt.rest, tt.ok)
		}
	}
}

func TestIsText(t *testing.T) {
	tests := []struct {
		text string
		want bool
	}{
		{"HELLO pümp ttl=1s", true},
		{"a\tb", true},
		{"", true},
		{"\x7e\x01\x02", false},
		{"a\x00b", false},
		{"\x7f", false},
		{"\xff\xfe", false},
	}
	for _, tt := range tests {
		if got := line.IsText([]byte(tt.text)); got != tt.want {
			t.Errorf("IsText(%q) = %v, want %v", tt.text, got, tt.want)
		}
	}
}

func TestAnswers(t *testing.T) {
	tests := []struct {
		got  []byte
		want string
	}{
		{line.AppendOK(nil, 3, 90*time.Second), "OK 3 ttl=90\n"},
		{line.AppendOK([]byte("x"), 1, 1500*time.Millisecond), "xOK 1 ttl=1.5\n"},
		{line.AppendPong(nil, nil), "PONG\n"},
		{line.AppendPong(nil, []byte("7")), "PONG 7\n"},
		{line.AppendTTL(nil, time.Minute), "TTL 60s\n"},
		{line.AppendSleep(nil, time.Hour), "OK sleep=3600\n"},
		{line.AppendError(nil, &line.Error{Code: line.BadTTL, Text: "write ttl=60s"}), "ERR bad-ttl write ttl=60s\n"},
		{line.AppendBye(nil, ""), "BYE\n"},
		{line.AppendBye(nil, "silence"), "BYE silence\n"},
	}
	for _, tt := range tests {
		if string(tt.got) != tt.want {
			t.Errorf("answer = %q, want %q", tt.got, tt.want)
		}
	}
}

// FuzzParse holds what the gateway relies on: no panic, the input unchanged, durations within bounds, errors of one line, and lines
// that add up to the buffer.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"HELLO sensor-1 token ttl=60s epoch=3\nPING 1\r\nSLEEP 60\nFAIL x\nTTL 5\nBYE\n", "HELLO", "\x00\xff\n", "TTL 1e9\n", "PING",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, buffer []byte) {
		before := bytes.Clone(buffer)
		rest := buffer
		for {
			text, after, ok := line.Split(rest)
			if !ok {
				break
			}
			if len(after) >= len(rest) {
				t.Fatalf("Split(%q) does not advance", rest)
			}
			m, err := line.Parse(text)
			if err != nil && (err.Code == "" || strings.ContainsAny(err.Text, "\n\r")) {
				t.Errorf("Parse(%q) error = %q %q, want one line", text, err.Code, err.Text)
			}
			if m.Duration < 0 || m.Duration > line.MaxDuration {
				t.Errorf("Parse(%q).Duration = %v", text, m.Duration)
			}
			if m.Kind == line.Hello && err == nil && len(m.ID) == 0 {
				t.Errorf("Parse(%q) is a HELLO without an id", text)
			}
			line.IsText(text)
			rest = after
		}
		if !bytes.Equal(before, buffer) {
			t.Errorf("the input was changed")
		}
	})
}
