package gateway

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/line"
	"github.com/holter-iot/holter/gateway/codec/teltonika"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// serveUDP serves datagrams for the length of a benchmark, and returns where.
func serveUDP(b *testing.B, p codec.Protocol, guard Guard) (*Gateway, string) {
	b.Helper()
	log, err := eventlog.New(1)
	if err != nil {
		b.Fatal(err)
	}
	registry, err := liveness.New(log, liveness.Config{})
	if err != nil {
		b.Fatal(err)
	}
	g, err := New(b.Context(), registry, Config{
		Listen: []Listener{{Address: "127.0.0.1:0", Protocols: []codec.Protocol{p}, Packets: true, MaxMessages: -1, MaxBytes: -1}},
		Guard:  guard, Logger: slog.New(slog.DiscardHandler), MaxConnections: 1 << 21, Loops: 1,
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := g.Run(ctx); err != nil {
			b.Error(err)
		}
	})
	registryCtx, end := context.WithCancel(context.Background())
	running.Go(func() {
		if err := registry.Run(registryCtx); err != nil {
			b.Error(err)
		}
	})
	b.Cleanup(func() { cancel(); end(); running.Wait() })
	return g, g.Addrs()[0].String()
}

// fleet sends the heartbeats of devices and takes the answers, a batch at a time.
type fleet struct {
	raw   syscall.RawConn
	batch *batch
	out   []byte
}

func newFleet(b *testing.B, to string) *fleet {
	b.Helper()
	c, err := (&net.Dialer{}).DialContext(b.Context(), "udp", to)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	raw, err := c.(*net.UDPConn).SyscallConn()
	if err != nil {
		b.Fatal(err)
	}
	if _, err := prepare(raw, false); err != nil {
		b.Fatal(err)
	}
	return &fleet{raw: raw, batch: newBatch()}
}

// beat sends datagrams, and waits until as many are answered.
func (f *fleet) beat(b *testing.B, datagrams [][]byte) {
	b.Helper()
	f.out, f.batch.answers = f.out[:0], 0
	for i, d := range datagrams {
		f.batch.from[i] = endpoint{}
		f.batch.answer(i, len(f.out))
		f.out = append(f.out, d...)
	}
	for i := range f.batch.answers { // the socket is connected
		f.batch.out[i].header.Name = nil
	}
	_ = f.raw.Write(func(fd uintptr) bool {
		if lost := f.batch.send(fd, f.out); lost > 0 {
			b.Errorf("%d datagrams were not sent", lost)
		}
		return true
	})
	for left := len(datagrams); left > 0; {
		err := f.raw.Read(func(fd uintptr) bool {
			err := f.batch.receive(fd)
			left -= f.batch.read
			return !errors.Is(err, unix.EAGAIN)
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

func cpu(b *testing.B, who int) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(who, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkUDP counts the heartbeats that are answered, of 10,000 devices. The metric
// server-ns/beat is the processor time of all threads but the fleet's.
func BenchmarkUDP(b *testing.B) {
	const devices = 9984
	packet, _ := hex.DecodeString("003DCAFE0105000F33353230393330383634303336353508010000016B4F815B30010000000000000000000000000000000103021503010101425DBC000001")
	tests := []struct {
		name     string
		protocol codec.Protocol
		guard    Guard
		beat     func(i int) []byte
	}{
		{"line", line.Protocol{}, Password(""), func(i int) []byte { return fmt.Appendf(nil, "HELLO device-%05d ttl=60s", i) }},
		{"line with token", line.Protocol{}, Password("s3cret"), func(i int) []byte { return fmt.Appendf(nil, "HELLO device-%05d s3cret", i) }},
		{"teltonika", teltonika.Protocol{}, Password(""), func(i int) []byte {
			p := append([]byte(nil), packet...)
			copy(p[8:], fmt.Sprintf("%015d", i))
			return p
		}},
	}
	for _, tt := range tests {
		b.Run("protocol="+tt.name, func(b *testing.B) {
			_, to := serveUDP(b, tt.protocol, tt.guard)
			f := newFleet(b, to)
			var beats [][]byte
			for i := range devices {
				beats = append(beats, tt.beat(i))
			}
			for i := 0; i < devices; i += batchSize {
				f.beat(b, beats[i:i+batchSize])
			}
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			b.ReportAllocs()
			all, own := cpu(b, unix.RUSAGE_SELF), cpu(b, unix.RUSAGE_THREAD)
			at := 0
			for n := 0; b.Loop(); n++ {
				if n%batchSize == 0 {
					f.beat(b, beats[at:at+batchSize])
					at = (at + batchSize) % devices
				}
			}
			server := cpu(b, unix.RUSAGE_SELF) - all - (cpu(b, unix.RUSAGE_THREAD) - own)
			b.ReportMetric(float64(server.Nanoseconds())/float64(b.N), "server-ns/beat")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "beats/s")
		})
	}
}

// BenchmarkPacketMemory states what a device that speaks in datagrams takes, with what the registry
// keeps of it.
func BenchmarkPacketMemory(b *testing.B) {
	const devices = 200_000
	for _, guard := range []string{"", "s3cret"} {
		b.Run("guard="+guard, func(b *testing.B) {
			for b.Loop() {
				g, to := serveUDP(b, line.Protocol{}, Password(guard))
				f := newFleet(b, to)
				before := heap()
				var beats [][]byte
				for i := range devices {
					beats = append(beats, fmt.Appendf(nil, "HELLO device-%06d s3cret", i))
					if len(beats) == batchSize {
						f.beat(b, beats)
						beats = beats[:0]
					}
				}
				all := heap()
				visitors := make([]*udpSession, 0, devices)
				g.udp.table.all(func(v *udpSession) bool { visitors = append(visitors, v); return true })
				b.ReportMetric(float64(all-before)/float64(len(visitors)), "B/device")
				for i := range g.udp.table.shards {
					sh := &g.udp.table.shards[i]
					sh.mu.Lock()
					clear(sh.devices)
					sh.devices = nil
					sh.mu.Unlock()
				}
				b.ReportMetric(float64(len(visitors)), "devices")
			}
		})
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
