package gateway

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/gateway/codec"
)

func TestMain(m *testing.M) { os.Exit(run.TestMain(m, Command())) }

// TestQuick makes every measurement, with next to no connections.
func TestQuick(t *testing.T) {
	file := filepath.Join(t.TempDir(), "numbers.md")
	var out, log bytes.Buffer
	args := []string{"gateway", "-quick", "-only", "^(beats-16/|protocol-1/(line|dtu|line-udp)(/|$)|idle/(holter|line-tls)|verdict/)", "-md", file}
	if err := run.Main(t.Context(), args, nil, &out, &log, Command()); err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"<!-- gateway:begin -->", "### Heartbeats: 200 connections, 16 messages per write", "| gnet-enroll | ", "| goroutines | ", "\nJudged 600 of 600;",
		"<!-- gateway-protocols:begin -->", "| dtu | ", "| line-udp | ",
		"<!-- gateway-transports:begin -->", "| line-tls | 50 | ", "`go run . gateway -quick ",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestParse(t *testing.T) {
	for _, args := range [][]string{{"x"}, {"-connections", "0"}, {"-only", "("}, {"-rounds", "0"}, {"-seconds", "0"}} {
		if err := run.Main(t.Context(), append([]string{"gateway", "-quick"}, args...), nil, io.Discard, io.Discard, Command()); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}

func TestAppendPongs(t *testing.T) {
	out, rest := appendPongs(nil, []byte("PING 1\nHELLO x\nPING 22\nPIN"))
	if got, want := string(out), "PONG 1\nPONG 22\n"; got != want {
		t.Errorf("answers = %q, want %q", got, want)
	}
	if got, want := string(rest), "PIN"; got != want {
		t.Errorf("rest = %q, want %q", got, want)
	}
}

func TestJudge(t *testing.T) {
	at := time.Unix(1000, 0)
	var r massVerdict
	r.judge([]verdict{
		{"device-00500", "silence", 3 * time.Millisecond, at},
		{"device-00501", "silence", -time.Millisecond, at.Add(time.Second)},
		{"device-00501", "silence", time.Millisecond, at}, // a second time
		{"device-00499", "silence", time.Millisecond, at}, // alive
		{"device-00502", "closed", time.Millisecond, at},
	}, "device-00500")
	if r.judged != 2 || r.wrong != 3 || r.early != 1 || r.spread != time.Second || r.lag.max != 3*time.Millisecond {
		t.Errorf("judge = %+v, want 2 judged, 3 wrong, 1 early, 1s apart, 3ms at most", r)
	}
}

// TestDialects checks that each protocol understands what its device says, and the device the answers.
func TestDialects(t *testing.T) {
	secure, err := newDialect("line" + overTLS)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range append(dialects(), secure) {
		name := d.name
		c := d.protocol.Codec()
		heard, welcomed := 0, false
		input := append(d.device.AppendHello(nil, d.id(1), "", time.Minute), bytes.Repeat(d.device.AppendBeat(nil, d.id(1), 5), 3)...)
		for len(input) > 0 {
			var m codec.Message
			n, err := c.Next(input, &m)
			if n == 0 || err != nil {
				t.Fatalf("%s: Next(%q) = %d, %v", name, input, n, err)
			}
			input = input[n:]
			answer := c.Reply(nil, &m, &codec.Outcome{Epoch: 1, Timeout: time.Minute})
			h, w, rest, err := d.count(answer)
			if err != nil || len(rest) > 0 {
				t.Errorf("%s: the answer %q leaves %q, %v", name, answer, rest, err)
			}
			heard, welcomed = heard+h, welcomed || w
		}
		if want := 3; !d.mute() && (heard != want || !welcomed) || d.mute() && heard > 0 {
			t.Errorf("%s: %d heartbeats heard, welcome %v", name, heard, welcomed)
		}
	}
	if _, err := newDialect("morse"); err == nil {
		t.Error("there is a protocol morse")
	}
}
