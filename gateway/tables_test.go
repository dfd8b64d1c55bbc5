package gateway_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/internal/net/eventloop"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// useTables makes gateways use tables of descriptors of their event loops' own, with room for so
// many connections each.
func useTables(t *testing.T, room int) {
	t.Helper()
	if err := eventloop.CanHaveTables(); err != nil {
		t.Skip(err)
	}
	t.Cleanup(gateway.SetTableRoom(room))
}

// There may be more connections than a table of descriptors has room for. Each answers, each verdict
// is right, and the one too many is told why it is refused.
func TestMoreThanATable(t *testing.T) {
	useTables(t, 20)
	const devices = 95
	r := startRig(t, liveness.Config{}, gateway.Config{
		Listen: []gateway.Listener{{Address: "127.0.0.1:0"}}, MaxConnections: devices, Logger: slog.New(slog.DiscardHandler),
	})
	if n := gateway.Tables(r.gateway); n < 5 {
		t.Fatalf("%d event loops have tables of their own, want 5 at least", n)
	}
	var all []*device
	for i := range devices {
		d := r.dial()
		d.say(fmt.Sprintf("HELLO d-%d ttl=60s\n", i))
		d.expect("OK 1 ttl=60")
		all = append(all, d)
	}
	late := r.dial()
	late.expect("ERR full the gateway has reached its limit of connections; try again later")
	for round := range 3 {
		for _, d := range all {
			d.say(fmt.Sprintf("PING %d\n", round))
		}
		for _, d := range all {
			d.expect(fmt.Sprintf("PONG %d", round))
		}
	}
	again := r.dial()
	again.expect("ERR full…")
	all[7].say("BYE\n")
	all[7].expect("BYE")
	r.dialUntil("HELLO late ttl=60s\n")
	r.dialUntilTaken(all[8], "d-8")
	r.stop()
	for i, d := range all {
		if i == 7 || i == 8 {
			continue
		}
		if got, err := io.ReadAll(d.in); err != nil || !strings.HasPrefix(string(got), "BYE shutdown") {
			t.Fatalf("device %d hears %q, %v at the end", i, got, err)
		}
	}
}

// dialUntilTaken lets a device come back on another connection, for which its first one makes room.
func (r *rig) dialUntilTaken(first *device, id string) {
	r.t.Helper()
	first.say("BYE\n")
	first.expect("BYE")
	d := r.dialUntil("HELLO " + id + " ttl=60s\n")
	d.say("PING\n")
	d.expect("PONG")
}

// Event loops with tables of their own do what others do.
func TestOwnTables(t *testing.T) {
	useTables(t, 5000)
	if testenv.Checks() {
		t.Run("flood", TestFlood)
	}
	for name, test := range map[string]func(*testing.T){
		"thread": TestThread, "hello just in time": TestHelloJustInTime, "answers wait": TestAnswersWait, "answers after the last word": TestAnswersAfterTheLastWord,
		"dismissed": TestDismissed, "slots": TestSlots, "evicted": TestEvicted, "send": TestSend, "send to a slow reader": TestSendToASlowReader,
		"send is cut off": TestSendIsCutOff, "send while devices come back": TestSendWhileDevicesComeBack, "send at the end": TestSendAtTheEnd,
		"swamped loop": TestSwampedLoop, "revoked": TestRevoked,
		"TLS": TestTLS, "TLS replaced": TestTLSReplaced, "through a proxy": TestThroughProxy, "datagrams": TestSendInDatagrams,
	} {
		t.Run(name, test)
	}
}

// A gateway with many event loops accepts at several sockets, which have the address for themselves.
func TestManyAcceptors(t *testing.T) {
	useTables(t, 20)
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: []gateway.Listener{{Address: "127.0.0.1:0"}}, MaxConnections: 200})
	if n := gateway.Acceptors(r.gateway); n < 10 {
		t.Fatalf("it accepts at %d sockets, want 10 at least", n)
	}
	log, err := eventlog.New(0)
	if err != nil {
		t.Fatal(err)
	}
	registry, err := liveness.New(log, liveness.Config{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = gateway.New(t.Context(), registry, gateway.Config{Listen: []gateway.Listener{{Address: r.addr}}, MaxConnections: 200})
	if !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("another gateway at the same address: %v, want that it is in use", err)
	}
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			d := r.dial()
			d.say(fmt.Sprintf("HELLO d-%d ttl=60s\n", i))
			d.expect("OK 1 ttl=60")
		})
	}
	all.Wait()
}

// What an event loop logs is written to the file that the process has open.
func TestTablesAndLogs(t *testing.T) {
	useTables(t, 5000)
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = in.Close(), out.Close() }()
	r := startRig(t, liveness.Config{}, gateway.Config{
		Listen: []gateway.Listener{{Address: "127.0.0.1:0"}}, Guard: secret, Logger: slog.New(slog.NewTextHandler(out, nil)).With("part", "gateway").WithGroup("in"),
	})
	for range 20 { // their sockets have the numbers that files of the process have
		r.dial().say("HELLO pump-1 s3cret ttl=60s\n")
	}
	r.dial().say("HELLO pump-2 wrong ttl=60s\n")
	_ = in.SetReadDeadline(time.Now().Add(time.Minute)) // only so that a failing test ends
	for log := bufio.NewReader(in); ; {
		line, err := log.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, "part=gateway") && strings.Contains(line, "in.device=pump-2") {
			return
		}
	}
}

// What the process has open is not open in the tables of the event loops: a file that it closes is closed.
func TestTablesHoldNothing(t *testing.T) {
	useTables(t, 5000)
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: []gateway.Listener{{Address: "127.0.0.1:0"}}})
	d := r.dial()
	d.say("HELLO d ttl=60s\n")
	d.expect("OK 1 ttl=60")
	_ = out.Close()
	_ = in.SetReadDeadline(time.Now().Add(time.Minute)) // only so that a failing test ends
	if _, err := in.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the pipe reads %v, want its end", err)
	}
}
