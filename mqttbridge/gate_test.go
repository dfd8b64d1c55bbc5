package mqttbridge

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"
)

// stream is a connection that holds some bytes.
type stream struct {
	net.Conn
	io.Reader
}

func (s stream) Read(p []byte) (int, error) { return s.Reader.Read(p) }

func publishPacket(tb testing.TB, topic string, size int, qos byte) []byte {
	tb.Helper()
	p := packets.NewControlPacket(packets.Publish).(*packets.PublishPacket)
	p.TopicName, p.Qos, p.Payload, p.MessageID = topic, qos, bytes.Repeat([]byte{'x'}, size), 7
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func readAll(tb testing.TB, in io.Reader, limit int) ([]packets.ControlPacket, error) {
	tb.Helper()
	g := &gate{Conn: stream{Reader: in}, heard: new(atomic.Int64), base: time.Now(), limit: limit}
	var got []packets.ControlPacket
	for {
		p, err := packets.ReadPacket(g)
		if err != nil {
			return got, err
		}
		got = append(got, p)
	}
}

func TestGate(t *testing.T) {
	const limit = 300
	ping := []byte{packets.Pingresp << 4, 0}
	sizes := []int{0, 1, 100, 280, 290, 291, 292, 293, 10_000, 300_000}
	var all []byte
	for _, size := range sizes {
		all = append(all, publishPacket(t, "a/b", size, 1)...)
		all = append(all, ping...)
	}
	for name, in := range map[string]io.Reader{
		"whole":        bytes.NewReader(all),
		"byte by byte": iotest.OneByteReader(bytes.NewReader(all)),
		"halves":       iotest.HalfReader(bytes.NewReader(all)),
		"data and end": iotest.DataErrReader(bytes.NewReader(all)),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readAll(t, in, limit)
			if !errors.Is(err, io.EOF) || len(got) != 2*len(sizes) {
				t.Fatalf("%d packets and %v, want %d", len(got), err, 2*len(sizes))
			}
			for i, size := range sizes {
				p, ok := got[2*i].(*packets.PublishPacket)
				if !ok || p.TopicName != "a/b" || p.MessageID != 7 {
					t.Fatalf("packet %d = %v", 2*i, got[2*i])
				}
				if want := min(size, limit-len("a/b")-4); len(p.Payload) != want {
					t.Errorf("a payload of %d became %d, want %d", size, len(p.Payload), want)
				}
				if _, ok := got[2*i+1].(*packets.PingrespPacket); !ok {
					t.Errorf("packet %d = %v, want PINGRESP", 2*i+1, got[2*i+1])
				}
			}
		})
	}
}

// FuzzGate: what passes the gate is what came, unless a packet is too large.
func FuzzGate(f *testing.F) {
	f.Add(publishPacket(f, "a", 100, 0), 8)
	f.Add([]byte{0x30, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2}, 3)
	f.Fuzz(func(t *testing.T, in []byte, chunk int) {
		g := &gate{Conn: stream{Reader: bytes.NewReader(in)}, heard: new(atomic.Int64), base: time.Now(), limit: 1 << 30}
		var out []byte
		buffer := make([]byte, min(max(chunk, 1), 1<<16))
		for {
			n, err := g.Read(buffer)
			out = append(out, buffer[:n]...)
			if err != nil {
				break
			}
		}
		if rest := append(out, g.header...); len(in) > 0 && g.pass == 0 && !bytes.Equal(rest, in) {
			t.Errorf("%x became %x and %x", in, out, g.header)
		}
		g = &gate{Conn: stream{Reader: bytes.NewReader(in)}, heard: new(atomic.Int64), base: time.Now(), limit: 16}
		if _, err := io.Copy(io.Discard, g); err != nil {
			t.Error(err)
		}
	})
}
