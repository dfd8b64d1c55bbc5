package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
)

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
	var r verdictResult
	r.judge([]verdict{
		{"device-00500", "silence", 3 * time.Millisecond, at},
		{"device-00501", "silence", -time.Millisecond, at.Add(time.Second)},
		{"device-00501", "silence", time.Millisecond, at}, // a second time
		{"device-00499", "silence", time.Millisecond, at}, // alive
		{"device-00502", "closed", time.Millisecond, at},
	})
	if r.judged != 2 || r.wrong != 3 || r.early != 1 || r.spread != time.Second || r.lag.max != 3*time.Millisecond {
		t.Errorf("judge = %+v, want 2 judged, 3 wrong, 1 early, 1s apart, 3ms at most", r)
	}
}

// TestDialects checks that each protocol understands what its device says, and the device the answers.
func TestDialects(t *testing.T) {
	for _, name := range dialects {
		d, err := newDialect(name)
		if err != nil {
			t.Fatal(err)
		}
		c := d.protocol.Codec()
		heard, welcomed := 0, false
		input := append(d.hello(1), bytes.Repeat(d.client.AppendBeat(nil, d.id(1), 5), 3)...)
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

func TestParts(t *testing.T) {
	b := &bench{config: config{rounds: 1, connections: 10}}
	r := beatsResult{messages: 10}
	r.Elapsed, r.CPU = time.Second, time.Second
	b.addSpoken(1, "line", r)
	b.addSpoken(1, "line/bare", r)
	parts := b.parts("head\n")
	if len(parts) != 1 || parts[0].section.Name != "gateway-protocols" || !strings.Contains(parts[0].text, "| line | 15 | 10 | 10 | 1.00 |") {
		t.Errorf("parts = %+v, want the protocols alone", parts)
	}
}
