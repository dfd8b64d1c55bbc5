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
	args := []string{"gateway", "-quick", "-only", "^(line|jt808)", "-md", file}
	if err := run.Main(t.Context(), args, nil, &out, &log, Command()); err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, beats, _ := strings.Cut(string(text), "### Heartbeats, messages per write: 16\n")
	beats, idle, _ := strings.Cut(beats, "### Idle connections")
	for name, part := range map[string]struct {
		text  string
		wants []string
	}{
		"all":   {string(text), []string{"<!-- gateway:begin -->", "Each has 200 connections", "`go run . gateway -quick "}},
		"beats": {beats, []string{"\n| line | ", "\n| line/echo | ", "\n| jt808 | ", "\n| line-udp | ", "\n| line-udp/echo | "}},
		"idle":  {idle, []string{"\n| line | ", "\n| line/echo | ", "\n| jt808/echo | ", "\n| line-udp | ", "\n| line-tls | "}},
	} {
		for _, want := range part.wants {
			if !strings.Contains(part.text, want) {
				t.Errorf("no %q in %s of\n%s", want, name, text)
			}
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

// TestDialects checks that each protocol understands what its device says, and the device the answers.
func TestDialects(t *testing.T) {
	for _, d := range dialects() {
		c := d.Codec()
		answers := 0
		beats, want := d.beats(1, 3)
		input := beats
		if d.transport != overUDP {
			input, want = append(d.hello(1), beats...), want+1
		}
		for len(input) > 0 {
			var m codec.Message
			n, err := c.Next(input, &m)
			if n == 0 || err != nil {
				t.Fatalf("%v: Next(%q) = %d, %v", d, input, n, err)
			}
			input = input[n:]
			answer := c.Reply(nil, &m, &codec.Outcome{Epoch: 1, Timeout: time.Minute})
			got, rest, err := d.count(answer)
			if err != nil || len(rest) > 0 {
				t.Errorf("%v: the answer %q leaves %q, %v", d, answer, rest, err)
			}
			answers += got
		}
		if answers != want {
			t.Errorf("%v: %d answers, want %d", d, answers, want)
		}
	}
}

func TestServeOne(t *testing.T) {
	if _, err := serveOne(t.Context(), []string{serverHolter, "morse"}); err == nil {
		t.Error("there is a protocol morse")
	}
}
