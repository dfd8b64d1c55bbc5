package mqtt

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/internal/testmqtt"
)

func TestMain(m *testing.M) { os.Exit(run.TestMain(m, Command())) }

func TestParse(t *testing.T) {
	for _, args := range [][]string{{"x"}, {"-clients", "0"}, {"-clients", "20001"}, {"-only", "("}, {"-seconds", "0"}} {
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

// TestQuick checks what does not depend on the machine.
func TestQuick(t *testing.T) {
	testmqtt.Program(t, "mosquitto")
	document := filepath.Join(t.TempDir(), "numbers.md")
	var out, log bytes.Buffer
	if err := run.Main(t.Context(), []string{"mqtt", "-quick", "-md", document}, nil, &out, &log, Command()); err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"mosquitto 2.", "; mochi 2.", "<!-- mqtt:begin -->", "\n| bridge | ", "\n| paho-tuned | ",
		"\n| mosquitto, 1s | 100 | ", "\n| mochi, 2s | 100 | ", "\n| holter, 2s | 100 | 0 | ",
		"all judged for silence: met; none early: met",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for line := range strings.Lines(string(text)) {
		if (strings.HasPrefix(line, "| bridge") || strings.HasPrefix(line, "| paho")) && !strings.HasSuffix(line, "| 0 |\n") {
			t.Errorf("messages were lost: %s", line)
		}
	}
}
