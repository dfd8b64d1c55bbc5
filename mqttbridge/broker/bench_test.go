package broker_test

import (
	"bytes"
	"fmt"
	"net"
	"runtime"
	"testing"

	"github.com/mochi-mqtt/server/v2/packets"
	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/mqttbridge/broker"
)

// bare is a client that takes no memory of Go's: a descriptor.
type bare int

// dialBare connects a client with an id, or with none of its own.
func dialBare(b *testing.B, s *station, id string, keepAlive uint16) bare {
	b.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		b.Fatal(err)
	}
	to := s.broker.Addr().(*net.TCPAddr)
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: to.Port, Addr: [4]byte(to.IP.To4())}); err != nil {
		b.Fatal(err)
	}
	pk := packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Connect}, ProtocolVersion: 4,
		Connect: packets.ConnectParams{ProtocolName: []byte("MQTT"), Clean: true, ClientIdentifier: id, Keepalive: keepAlive},
	}
	var out bytes.Buffer
	if err := pk.ConnectEncode(&out); err != nil {
		b.Fatal(err)
	}
	c := bare(fd)
	c.ask(b, out.Bytes(), 4)
	return c
}

func (c bare) close() { _ = unix.Close(int(c)) }

// ask writes a packet and reads an answer of some bytes.
func (c bare) ask(b *testing.B, packet []byte, answer int) {
	b.Helper()
	c.write(b, packet)
	c.read(b, answer)
}

func (c bare) write(b *testing.B, packet []byte) {
	b.Helper()
	if _, err := unix.Write(int(c), packet); err != nil {
		b.Fatal(err)
	}
}

func (c bare) read(b *testing.B, n int) {
	b.Helper()
	var in [16]byte
	for n > 0 {
		got, err := unix.Read(int(c), in[:n])
		if err != nil || got == 0 {
			b.Fatalf("%d bytes, %v", got, err)
		}
		n -= got
	}
}

// BenchmarkPing sends PINGREQ on a thousand connections and waits for the answers.
func BenchmarkPing(b *testing.B) {
	const n = 1000
	s := start(b, liveness.Config{}, broker.Config{})
	clients := make([]bare, n)
	for i := range clients {
		clients[i] = dialBare(b, s, fmt.Sprint("dev-", i), 60)
		defer clients[i].close()
	}
	ping := []byte{packets.Pingreq << 4, 0}
	done := 0
	for b.Loop() {
		if done%n == 0 {
			for _, c := range clients {
				c.write(b, ping)
			}
		}
		clients[done%n].read(b, 2)
		done++
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pings/s")
}

// BenchmarkIdle reports the memory that a client takes: heap and stacks, without the kernel's.
func BenchmarkIdle(b *testing.B) {
	const n = 5000
	for b.Loop() {
		b.StopTimer()
		s := start(b, liveness.Config{}, broker.Config{})
		before := memory()
		b.StartTimer()
		clients := make([]bare, n)
		for i := range clients {
			clients[i] = dialBare(b, s, fmt.Sprint("dev-", i), 600)
		}
		b.StopTimer()
		b.ReportMetric((memory()-before)/n, "B/client")
		for _, c := range clients {
			c.close()
		}
		s.stop()
		b.StartTimer()
	}
}

// memory returns what heap and stacks take, once what is not used is gone.
func memory() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapInuse + m.StackInuse)
}
