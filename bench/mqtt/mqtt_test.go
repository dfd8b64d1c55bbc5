package mqtt

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"github.com/holter-iot/holter/bench/internal/run"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/mqtt/packet"
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

// A flow tells messages that are lost from those that come again or late.
func TestArrived(t *testing.T) {
	const publishers = 2
	f := &flow{qos: 1, due: make([]uint32, publishers), subscribers: &crowd{clients: []*client{{}}}}
	arrive := func(publisher, number uint32) {
		payload := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, publisher), number)
		out := packet.Out{Topic: "a", Payload: append(payload, make([]byte, payloadSize-len(payload))...), ID: 7, QoS: 1}
		h, body, _, err := packet.Split(packet.V5, out.Append(nil, packet.V5), packet.MaxSize)
		if err != nil {
			t.Fatal(err)
		}
		f.arrived(f.subscribers.clients[0], h, body)
	}
	for _, number := range []uint32{0, 1, 4, 4, 2} {
		arrive(1, number)
	}
	arrive(0, 0)
	f.sent = 6
	if f.came != 4 || f.repeated != 2 || f.onTheWay() != 2 {
		t.Errorf("%d came, %d were repeated or late, %d are on the way; want 4, 2 and 2", f.came, f.repeated, f.onTheWay())
	}
	ack := packet.AppendAck(nil, packet.V5, packet.TypePuback, 7, packet.Success)
	if got := f.subscribers.clients[0].out; !bytes.Equal(got, bytes.Repeat(ack, 6)) {
		t.Errorf("the acknowledgements are % x, want six times % x", got, ack)
	}
}

// TestQuick checks what does not depend on the machine.
func TestQuick(t *testing.T) {
	testenv.Check(t)
	testenv.Program(t, "mosquitto")
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
		"\n| mosquitto, 5 | 100 | ", "\n| mochi, 3.1.1 | 100 | ", "\n| holter, 5 on TLS | 50 | ", "\n### Fan-in: 50 publishers", "\n### Fan-out: ",
		"with QoS 1 each message comes once and in order: met", "\n### A storm: ", "2048 MiB resident: met",
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
