package gateway

import (
	"context"
	"encoding/hex"
	"log/slog"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/frame"
	"github.com/holter-iot/holter/gateway/codec/line"
	"github.com/holter-iot/holter/gateway/codec/teltonika"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// FuzzDatagram sends datagrams, at a port of all protocols that have them, to a gateway that knows
// nobody's token: none may be answered by more than it is, and none may leave anything behind that
// is not bounded.
func FuzzDatagram(f *testing.F) {
	for _, seed := range []string{"HELLO a ttl=60s\nPING 1\nBYE\n", "HELLO a\nSLEEP 5\nFAIL x\nHELLO b\nHELLO a epoch=3", "HELLO a x auth=hmac", "PING", ""} {
		f.Add([]byte(seed))
	}
	packet, _ := hex.DecodeString("003DCAFE0105000F33353230393330383634303336353508010000016B4F815B30010000000000000000000000000000000103021503010101425DBC000001")
	f.Add(packet)
	f.Add(frame.Client{}.AppendHello(nil, "a", "t", time.Minute))
	const most = 4
	log, err := eventlog.New(1)
	if err != nil {
		f.Fatal(err)
	}
	registry, err := liveness.New(log, liveness.Config{MaxDevices: 1 << 10})
	if err != nil {
		f.Fatal(err)
	}
	g, err := New(f.Context(), registry, Config{
		Listen:         []Listener{{Address: "127.0.0.1:0", Protocols: []codec.Protocol{line.Protocol{}, frame.Protocol{}, teltonika.Protocol{}}, Packets: true}},
		MaxConnections: most, Loops: 1, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		g.udp.close()
		g.closeListeners()
		ended, end := context.WithCancel(context.Background())
		end()
		if err := registry.Run(ended); err != nil {
			f.Error(err)
		}
	})
	r := g.udp.readers[0]
	r.batch.from[0].name.Family = unix.AF_INET
	f.Fuzz(func(t *testing.T, datagram []byte) {
		if len(datagram) >= codec.MaxMessage {
			return
		}
		r.exchange.out, r.batch.answers, r.exchange.readAt = r.exchange.out[:0], 0, time.Now()
		panics := g.counts.panics.Load()
		r.one(datagram)
		if len(r.exchange.out) > len(datagram) {
			t.Errorf("a datagram of %d bytes is answered by %d: %q", len(datagram), len(r.exchange.out), r.exchange.out)
		}
		if r.batch.answers > 1 || (r.batch.answers == 1) != (len(r.exchange.out) > 0) {
			t.Errorf("%d answers of %d bytes together", r.batch.answers, len(r.exchange.out))
		}
		if g.counts.panics.Load() != panics {
			t.Error("it panicked")
		}
		held := 0
		g.udp.table.all(func(*udpSession) bool { held++; return true })
		if held > most || held != int(g.udp.table.held.Load()) {
			t.Errorf("%d devices in the table, which counts %d and has room for %d", held, g.udp.table.held.Load(), most)
		}
	})
}
