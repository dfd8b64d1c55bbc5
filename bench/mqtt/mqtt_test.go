package mqtt

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/internal/testmqtt"
)

func TestMain(m *testing.M) { os.Exit(run.TestMain(m, Command())) }

func TestParse(t *testing.T) {
	for _, args := range [][]string{{"x"}, {"-clients", "1"}, {"-clients", "20001"}, {"-only", "("}, {"-seconds", "0"}} {
		if err := run.Main(t.Context(), append([]string{"mqtt"}, args...), nil, io.Discard, io.Discard, Command()); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}

func TestPrepare(t *testing.T) {
	const devices = 250
	stream := prepare(devices)
	if got, want := len(stream), 3; got != want {
		t.Fatalf("%d batches, want %d", got, want)
	}
	topics := make(map[string]bool)
	for in := bytes.NewReader(slices.Concat(stream...)); in.Len() > 0; {
		p, err := packets.ReadPacket(in)
		if err != nil {
			t.Fatal(err)
		}
		topics[p.(*packets.PublishPacket).TopicName] = true
	}
	if len(topics) != devices || !topics["fleet/device-000249/beat"] {
		t.Errorf("messages of %d devices, want %d", len(topics), devices)
	}
}

func TestWeigh(t *testing.T) {
	l := weigh([]time.Duration{time.Second, -1, 10, 175 * time.Millisecond, 176 * time.Millisecond}, 5*time.Second)
	want := lags{n: 5, early: 1, over: 2, min: -1, p50: 175 * time.Millisecond, p99: time.Second, max: time.Second}
	if l != want {
		t.Errorf("weigh = %+v, want %+v", l, want)
	}
}

func TestJudge(t *testing.T) {
	at := time.Unix(1000, 0)
	f := &fleet{cut: 3, clients: []client{
		{sent: at, closed: at.Add(8 * time.Second)}, // judged 0.2 s late
		{sent: at, closed: at.Add(16 * time.Second)},
		{sent: at}, // never judged
		{sent: at, closed: at.Add(15 * time.Second)}, // before the verdict
	}}
	f.classes[0].keepAlive, f.classes[1].keepAlive = 5*time.Second, 10*time.Second
	var r silence
	r.judge(f, []verdict{
		{clientID(0), "silence", at.Add(7700 * time.Millisecond)},
		{clientID(1), "silence", at.Add(15 * time.Second)},
		{clientID(1), "silence", at.Add(16 * time.Second)},
		{clientID(2), "closed", at},
		{clientID(3), "silence", at.Add(15100 * time.Millisecond)},
	})
	if r.cut != 3 || r.open != 1 || r.ahead != 1 || r.wrong != 2 {
		t.Errorf("judge = %+v, want 3 cut, 1 open, 1 ahead, 2 wrong", r)
	}
	if v := r.verdict; v[0].n != 1 || v[0].over != 1 || v[1].n != 2 || v[1].over != 0 || r.closed[0].max != 500*time.Millisecond {
		t.Errorf("judge = %+v, want one late verdict of one, two good ones, 0.5 s to the end of the connection", r)
	}
}

func TestUndisturbed(t *testing.T) {
	good, bad := silence{stall: time.Millisecond}, silence{stall: time.Second}
	kept, out := undisturbed(map[string][]silence{"a": {bad, good, bad}, "b": {bad}})
	if len(kept["a"]) != 1 || kept["a"][0] != good || len(kept["b"]) != 1 || out != 2 {
		t.Errorf("undisturbed = %v, %d", kept, out)
	}
}

// TestQuick measures all but one variant, which differs in nothing that could break, and checks what does not depend on the machine.
func TestQuick(t *testing.T) {
	testmqtt.Program(t, "mosquitto")
	document := filepath.Join(t.TempDir(), "numbers.md")
	var out, log bytes.Buffer
	if err := run.Main(t.Context(), []string{"mqtt", "-quick", "-only", "^(relay|at-once)/", "-md", document}, nil, &out, &log, Command()); err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"mosquitto 2.", ", mochi 2.", "<!-- mqtt:begin -->", "\n| bridge | ", "\n| paho-tuned | ",
		"\n| mosquitto | 1s | connection closed | 50 | ", "\n| mochi | 2s | connection closed, from the answer on | 50 | ", "\n| holter | 2s | verdict | 50 | 0 | ",
		"all judged, for silence, none early: met (0 missing, 0 wrong, 0 early); no connection closed before its client was judged: met (0)",
		"Closed by a broker while the client pinged: 0; never closed: 0.",
	} {
		if !strings.Contains(strings.ReplaceAll(string(text), "; mochi 2.", ", mochi 2."), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for line := range strings.Lines(string(text)) {
		if (strings.HasPrefix(line, "| bridge") || strings.HasPrefix(line, "| paho")) && !strings.HasSuffix(line, "| 0 |\n") {
			t.Errorf("messages were lost: %s", line)
		}
	}
}
