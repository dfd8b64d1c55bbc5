package gateway_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/frame"
	"github.com/holter-iot/holter/gateway/codec/gt06"
	"github.com/holter-iot/holter/gateway/codec/line"
	"github.com/holter-iot/holter/gateway/codec/teltonika"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// packets are listeners on UDP.
func packets(address string, protocols ...codec.Protocol) []gateway.Listener {
	return []gateway.Listener{{Address: address, Protocols: protocols, Packets: true}}
}

// sender is a socket that sends datagrams by hand.
type sender struct {
	t    *testing.T
	conn net.Conn
}

func (r *rig) sender() *sender { return senderTo(r.t, r.addr, "") }

// senderTo returns a socket that takes answers from one address only, as the kernel sees to; from
// may be empty.
func senderTo(t *testing.T, to, from string) *sender {
	t.Helper()
	var d net.Dialer
	if from != "" {
		d.LocalAddr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 0))
	}
	c, err := d.DialContext(t.Context(), "udp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute)) // only so that a failing test ends
	return &sender{t, c}
}

func (s *sender) say(text string) {
	s.t.Helper()
	if _, err := s.conn.Write([]byte(text)); err != nil {
		s.t.Fatal(err)
	}
}

// hear returns the next datagram.
func (s *sender) hear() string {
	s.t.Helper()
	b := make([]byte, 1<<16)
	n, err := s.conn.Read(b)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b[:n])
}

func (s *sender) expect(want string) {
	s.t.Helper()
	if got := s.hear(); got != want && !(strings.HasSuffix(want, "…") && strings.HasPrefix(got, strings.TrimSuffix(want, "…"))) {
		s.t.Fatalf("heard %q, want %q", got, want)
	}
}

// holds waits until so many devices are in the table.
func (r *rig) holds(n int) {
	r.t.Helper()
	testwait.Until(r.t, fmt.Sprintf("%d devices that speak in datagrams", n), func() bool { return r.gateway.Stats().Packets.Devices == n })
}

func (r *rig) device(id string) liveness.View {
	r.t.Helper()
	v, err := r.registry.Device(id)
	if err != nil {
		r.t.Fatal(err)
	}
	return v
}

var secret = gateway.Password("s3cret")

func TestPacketThread(t *testing.T) {
	t.Parallel()
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: packets("127.0.0.1:0")})
	s := r.sender()
	for range 3 {
		s.say("HELLO sensor-1 ttl=1s\nPING 7\n\n\n")
		s.expect("OK 1 ttl=1\nPONG 7\n")
	}
	if v := r.device("sensor-1"); v.Source != "gateway-udp" || v.State != liveness.Online || v.Epoch != 1 {
		t.Errorf("the device is %+v", v)
	}
	r.holds(1)
	if got, want := r.story(2), "sensor-1:1 device.online; sensor-1:2 device.offline silence"; got != want {
		t.Errorf("story = %s, want %s", got, want)
	}
	if e := r.events(2)[1]; e.HeardSilence < time.Second {
		t.Errorf("heard silence = %v, want at least 1s", e.HeardSilence)
	}
	r.holds(0)
	s.say("HELLO sensor-1 ttl=1h")
	s.expect("OK 2 ttl=3600\n")
	if got, want := r.story(3), "sensor-1:1 device.online; sensor-1:2 device.offline silence; sensor-1:3 device.online"; got != want {
		t.Errorf("story = %s, want %s", got, want)
	}
	if st := r.gateway.Stats(); st.Packets.Received != 4 || st.Messages < 7 {
		t.Errorf("stats = %+v", st)
	}
}

func TestPacketConversations(t *testing.T) {
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: packets("127.0.0.1:0"), Guard: secret})
	tests := []struct {
		name string
		talk []string // said, heard, said, heard …
	}{
		{"hello", []string{"HELLO a1 s3cret", "OK 1 ttl=90\n", "hello a1 s3cret\r\n", "OK 1 ttl=90\n"}},
		{"ttl follows", []string{"HELLO a2 s3cret ttl=60", "OK 1 ttl=60\n", "HELLO a2 s3cret ttl=30", "OK 1 ttl=30\n", "HELLO a2 s3cret", "OK 1 ttl=30\n"}},
		{"several", []string{"HELLO a3 s3cret\nPING 1\nTTL 5\nFAIL oil\n", "OK 1 ttl=90\nPONG 1\nTTL 5\nOK\n"}},
		{"epochs", []string{
			"HELLO a4 s3cret", "OK 1 ttl=90\n", "HELLO a4 s3cret epoch=7", "OK 7 ttl=90\n", "HELLO a4 s3cret", "OK 7 ttl=90\n",
			"HELLO a4 s3cret epoch=6\nBYE\n", "ERR stale-epoch …", "HELLO a4 s3cret epoch=7", "OK 7 ttl=90\n",
		}},
		{"bye", []string{"HELLO a5 s3cret", "OK 1 ttl=90\n", "HELLO a5 s3cret\nBYE\nPING\n", "OK 1 ttl=90\nBYE\n", "HELLO a5 s3cret", "OK 2 ttl=90\n"}},
		{"sleep", []string{"HELLO a6 s3cret\nSLEEP 3600", "OK 1 ttl=90\nOK sleep=3600\n"}},
		{"another device", []string{"HELLO a7 s3cret\nHELLO b7 s3cret\nPING", "OK 1 ttl=90\nERR hello-again …"}},
		{"the same again", []string{"HELLO a8 s3cret\nHELLO a8 s3cret\n", "OK 1 ttl=90\nOK 1 ttl=90\n"}},
		{"bad ttl", []string{"HELLO a9 s3cret ttl=x", "ERR bad-ttl …", "HELLO a9 s3cret", "OK 1 ttl=90\n", "HELLO a9 s3cret ttl=x", "ERR bad-ttl …"}},
		{"bad id", []string{"HELLO \x01 s3cret", "ERR bad-id …"}},
		{"too long", []string{"HELLO a10 s3cret\n" + strings.Repeat("x", 2000), "OK 1 ttl=90\nERR too-long …", "HELLO a10 s3cret", "OK 1 ttl=90\n"}},
		{"challenge", []string{"HELLO a11 auth=hmac" + strings.Repeat(" ", 100), "ERR bad-hello …"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := senderTo(t, r.addr, "")
			for i := 0; i < len(tt.talk); i += 2 {
				s.say(tt.talk[i])
				s.expect(tt.talk[i+1])
			}
		})
	}
	for _, id := range []string{"b7", "a11"} {
		if r.registry.Operator().Known(id) {
			t.Errorf("device %s is known", id)
		}
	}
}

// What the device is told is what holds, also if that was changed since it said hello.
func TestPacketPolicyChanges(t *testing.T) {
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: packets("127.0.0.1:0")})
	s := r.sender()
	s.say("HELLO sensor-1 ttl=60s")
	s.expect("OK 1 ttl=60\n")
	if err := r.registry.SetPolicy("sensor-1", liveness.Policy{Timeout: 20 * time.Second}); err != nil {
		t.Fatal(err)
	}
	s.say("HELLO sensor-1 ttl=60s")
	s.expect("OK 1 ttl=20\n")
}

func TestPacketSleepAndBye(t *testing.T) {
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: packets("127.0.0.1:0")})
	s := r.sender()
	s.say("HELLO sensor-1 ttl=200ms\nSLEEP 0.5\n")
	s.expect("OK 1 ttl=0.2\nOK sleep=0.5\n")
	r.holds(1)
	if got, want := r.story(3), "sensor-1:1 device.online; sensor-1:2 device.sleeping; sensor-1:3 device.offline silence"; got != want {
		t.Errorf("story = %s, want %s", got, want)
	}
	r.holds(0)
	s.say("HELLO sensor-1 ttl=60s\nBYE\n")
	s.expect("OK 2 ttl=60\nBYE\n")
	if got, want := r.story(5), "device.online; sensor-1:5 device.offline bye"; !strings.HasSuffix(got, want) {
		t.Errorf("story = %s, want …%s", got, want)
	}
	r.holds(0)
}

// The first vector of the protocol's package.
const (
	teltonikaPacket = "003DCAFE0105000F33353230393330383634303336353508010000016B4F815B30010000000000000000000000000000000103021503010101425DBC000001"
	teltonikaAnswer = "\x00\x05\xca\xfe\x01\x05\x01"
	teltonikaID     = "352093086403655"
)

func teltonikaDatagram(t *testing.T) string {
	t.Helper()
	b, err := hex.DecodeString(teltonikaPacket)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestTeltonikaPackets(t *testing.T) {
	t.Parallel()
	fleet := liveness.Config{Policy: liveness.Policy{Timeout: time.Second}}
	r := startRig(t, fleet, gateway.Config{Listen: packets("127.0.0.1:0", teltonika.Protocol{})})
	for range 3 { // from another address each time
		s := r.sender()
		s.say(teltonikaDatagram(t))
		s.expect(teltonikaAnswer)
	}
	if got, want := r.story(2), teltonikaID+":1 device.online; "+teltonikaID+":2 device.offline silence"; got != want {
		t.Errorf("story = %s, want %s", got, want)
	}
	r.holds(0)
	s := r.sender()
	for _, garbage := range []string{"", "\x00", "\xff\xff\xff", teltonikaDatagram(t)[:20], strings.Repeat("x", 1400)} {
		s.say(garbage)
	}
	s.say(teltonikaDatagram(t) + "more")
	s.expect(teltonikaAnswer)
	if st := r.gateway.Stats(); st.Packets.Garbage != 5 || st.Packets.Devices != 1 {
		t.Errorf("stats = %+v", st.Packets)
	}
}

// A port may serve several protocols: the one that finds a device in the datagram has it, whatever
// their order.
func TestPacketsOfSeveralProtocols(t *testing.T) {
	orders := [][]codec.Protocol{
		{line.Protocol{}, frame.Protocol{}, teltonika.Protocol{}},
		{teltonika.Protocol{}, frame.Protocol{}, line.Protocol{}},
	}
	for _, protocols := range orders {
		r := startRig(t, liveness.Config{}, gateway.Config{Listen: packets("127.0.0.1:0", protocols...), Guard: guardOf{"pump-1": "s3cret", teltonikaID: ""}})
		s := r.sender()
		s.say("HELLO pump-1 s3cret")
		s.expect("OK 1 ttl=90\n")
		s.say(teltonikaDatagram(t))
		s.expect(teltonikaAnswer)
		hello := frame.Client{}.AppendHello(nil, "pump-1", "s3cret", time.Minute)
		s.say(string(hello))
		if a, n := (frame.Client{}).Next([]byte(s.hear())); a.Kind != codec.Welcome || n == 0 {
			t.Errorf("a frame is answered by %+v", a)
		}
		s.say("\x80\x81\x82")
		s.say("what is this" + strings.Repeat(" ", 200))
		s.expect("ERR hello-first …")
		if st := r.gateway.Stats().Packets; st.Garbage != 2 || st.Devices != 2 {
			t.Errorf("stats = %+v", st)
		}
	}
}

// shy is a protocol that is never sure.
type shy struct{ frame.Protocol }

func (shy) Sniff([]byte) codec.Guess { return codec.Maybe }

// An error is answered in the protocol that is sure, whatever others may think before.
func TestPacketErrorsOfSeveralProtocols(t *testing.T) {
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: packets("127.0.0.1:0", shy{}, line.Protocol{})})
	s := r.sender()
	s.say("what is this\n" + strings.Repeat(" ", 200))
	s.expect("ERR hello-first …")
	s.say("\xa5" + strings.Repeat("\xff", 200)) // only the shy one may know it
	if answer := s.hear(); answer[0] != 0xa5 {
		t.Errorf("answered %q, want a frame", answer)
	}
}

// guardOf knows the tokens of devices; one with an empty token needs none.
type guardOf map[string]string

func (g guardOf) Admit(id string, token []byte) bool {
	want, known := g[id]
	return known && (want == "" || want == string(token))
}

func (g guardOf) Knows(id string) bool { _, known := g[id]; return known }

func (g guardOf) Revision(string) uint32 { return 0 }

func (g guardOf) Generation() uint64 { return 0 }

func (g guardOf) Prove(string, []byte, []byte) bool { return false }

func (g guardOf) Issue(string) ([]byte, bool) { return nil, false }

// An address is where a device is once a datagram from there has shown its token.
func TestPacketAddressChanges(t *testing.T) {
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: packets("127.0.0.1:0"), Guard: secret})
	first, second, forger := r.sender(), senderTo(t, r.addr, "127.0.0.2"), senderTo(t, r.addr, "127.0.0.3")
	send := func(text string) {
		t.Helper()
		if sent, err := r.gateway.Send(t.Context(), "pump-1", []byte(text), true); err != nil || sent.Bytes != len(text) {
			t.Fatalf("Send = %+v, %v", sent, err)
		}
	}
	first.say("HELLO pump-1 s3cret")
	first.expect("OK 1 ttl=90\n")
	send("one")
	first.expect("one")
	second.say("HELLO pump-1 s3cret")
	second.expect("OK 1 ttl=90\n")
	send("two")
	second.expect("two")
	forger.say("HELLO pump-1" + strings.Repeat(" ", 200))
	forger.expect("ERR unauthorized …")
	forger.say("HELLO pump-1 guessed\nBYE\n")
	forger.say("HELLO pump-1 guessed" + strings.Repeat(" ", 200))
	forger.expect("ERR unauthorized …") // and no more
	send("three")
	second.expect("three")
	if v := r.device("pump-1"); v.Seq != 1 || v.Epoch != 1 || v.State != liveness.Online {
		t.Errorf("the device is %+v, want no event but the first", v)
	}
	if st := r.gateway.Stats(); st.Unauthorized != 3 || st.Packets.Withheld != 1 {
		t.Errorf("stats = %+v", st)
	}
}

// Wrong tokens from a device's address, which anybody can forge, are not held against the device.
func TestPacketForgedFailures(t *testing.T) {
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: packets("127.0.0.1:0"), Guard: secret})
	s := r.sender()
	for range 500 {
		s.say("HELLO pump-1 wrong")
	}
	s.say("HELLO pump-1 s3cret")
	s.expect("OK 1 ttl=90\n")
}

// Nobody gets more than he sent before he has shown a token, so that a forged address is not worth
// it.
func TestPacketReflection(t *testing.T) {
	open := startRig(t, liveness.Config{}, gateway.Config{Listen: packets("127.0.0.1:0")})
	s := open.sender()
	s.say("HELLO a")    // the answer would be longer, and is none
	s.say("HELLO a x2") // a token that nobody asked for proves nothing
	s.say("HELLO a ttl=90s")
	s.expect("OK 1 ttl=90\n")
	if st := open.gateway.Stats().Packets; st.Withheld != 2 {
		t.Errorf("%d answers were withheld, want 2", st.Withheld)
	}
	if _, err := open.gateway.Send(t.Context(), "a", []byte("x"), true); !errors.Is(err, gateway.ErrNotConnected) {
		t.Errorf("Send = %v, want an error: the address may be forged", err)
	}
	guarded := startRig(t, liveness.Config{}, gateway.Config{Listen: packets("127.0.0.1:0"), Guard: secret})
	s = guarded.sender()
	s.say("HELLO a s3cret")
	s.expect("OK 1 ttl=90\n")
	s.say("HELLO\ta\ts3cret\nFAIL\nPING\nPING\nPING\nPING\nPING\nTTL 30\nTTL 31\n")
	s.expect("OK 1 ttl=90\nOK\n…")
}

// Errors are answered ten times a second, and by no more than the datagram.
func TestPacketErrorsAreFew(t *testing.T) {
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: packets("127.0.0.1:0"), Guard: secret})
	s := r.sender()
	const asked = 200
	for range asked {
		s.say("HELLO a wrong" + strings.Repeat(" ", 200))
		s.say("HELLO a wrong")
	}
	s.say("HELLO a s3cret")
	answers := 0
	for s.hear() != "OK 1 ttl=90\n" {
		answers++
	}
	if answers < 10 || answers > 10*5 { // in a second or, on a busy machine, some more
		t.Errorf("%d of %d errors were answered, want 10 a second", answers, asked)
	}
	if st := r.gateway.Stats(); st.Packets.Withheld != uint64(2*asked-answers) || st.Unauthorized != 2*asked {
		t.Errorf("stats = %+v, %d answers", st, answers)
	}
}

// The gateway answers from the address that it was asked at, also if it listens at all of them.
func TestPacketsAtAllAddresses(t *testing.T) {
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: packets(":0"), Guard: secret})
	port := netip.MustParseAddrPort(r.addr).Port()
	for i, host := range []string{"127.0.0.1", "127.0.0.7", "::1"} {
		if host == "::1" && !hasIPv6() {
			t.Log("no IPv6 here")
			continue
		}
		s := senderTo(t, netip.AddrPortFrom(netip.MustParseAddr(host), port).String(), "")
		s.say(fmt.Sprintf("HELLO a%d s3cret", i))
		s.expect("OK 1 ttl=90\n")
		if _, err := r.gateway.Send(t.Context(), fmt.Sprintf("a%d", i), []byte("hi"), true); err != nil {
			t.Errorf("Send by %s: %v", host, err)
			continue
		}
		s.expect("hi")
	}
}

func hasIPv6() bool {
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("[::1]:0")))
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}

func TestPacketsFull(t *testing.T) {
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: packets("127.0.0.1:0"), Guard: secret, MaxConnections: 2})
	s := r.sender()
	for i := range 2 {
		s.say(fmt.Sprintf("HELLO a%d s3cret", i))
		s.expect("OK 1 ttl=90\n")
	}
	s.say("HELLO a2 s3cret")
	s.expect("ERR full …")
	if r.registry.Operator().Known("a2") {
		t.Error("a device for which there is no room is known")
	}
	s.say("HELLO a1 s3cret")
	s.expect("OK 1 ttl=90\n")
	s.say("HELLO a0 s3cret\nBYE")
	s.expect("OK 1 ttl=90\nBYE\n")
	s.say("HELLO a2 s3cret")
	s.expect("OK 1 ttl=90\n")
	if st := r.gateway.Stats(); st.RefusedFull != 1 || st.Packets.Devices != 2 {
		t.Errorf("stats = %+v", st)
	}
}

// While events cannot be stored, known devices are heard.
func TestPacketsWhileSinkBlocks(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	r := startGated(t, liveness.Config{Outbox: 1}, gateway.Config{Listen: packets("127.0.0.1:0"), Guard: secret, Loops: 1}, gate)
	s := r.sender()
	for i := range 2 {
		s.say(fmt.Sprintf("HELLO d%d s3cret", i))
	}
	r.holds(2)
	s.say("HELLO d2 s3cret") // at once, the others when they were not committed for too long
	for range 3 {
		s.expect("ERR busy …")
	}
	s.say("HELLO d0 s3cret ttl=7s\nPING")
	s.expect("ERR busy …")
	r.holds(2)
	close(gate)
	if got, want := r.story(2), "d0:1 device.online; d1:1 device.online"; got != want {
		t.Errorf("story = %s, want %s", got, want)
	}
	s.say("HELLO d0 s3cret ttl=7s")
	s.expect("OK 1 ttl=7\n")
}

// mixedRig listens for connections, and for datagrams.
func mixedRig(t *testing.T, fleet liveness.Config, guard gateway.Guard) (*rig, *sender) {
	t.Helper()
	r := startRig(t, fleet, gateway.Config{Listen: append([]gateway.Listener{{Address: "127.0.0.1:0"}}, packets("127.0.0.1:0")...), Guard: guard})
	return r, senderTo(t, r.gateway.Addrs()[1].String(), "")
}

// The newest wins between connections and datagrams, too; one that is connected is not replaced
// again and again, but one that comes back on a connection always gets in.
func TestPacketsAndConnections(t *testing.T) {
	const maxTakeovers = 6
	r, s := mixedRig(t, liveness.Config{Policy: liveness.Policy{CloseGrace: time.Millisecond}}, secret)
	connect := func(epoch int) *device {
		t.Helper()
		d := r.dial()
		d.say("HELLO pump-1 s3cret\n")
		d.expect(fmt.Sprintf("OK %d ttl=90", epoch))
		r.holds(0)
		return d
	}
	for i := range maxTakeovers {
		d := connect(2*i + 1)
		s.say("HELLO pump-1 s3cret")
		s.expect(fmt.Sprintf("OK %d ttl=90\n", 2*i+2))
		d.expect("BYE replaced…")
	}
	d := connect(2*maxTakeovers + 1)
	for range 3 {
		s.say("HELLO pump-1 s3cret")
		s.expect("ERR duplicate two connections keep…")
		d.say("PING\n")
		d.expect("PONG")
	}
	for i, e := range r.events(2*maxTakeovers + 1) {
		if want := liveness.DeviceSessionReplaced; i > 0 && e.Type != want {
			t.Errorf("event %d is %v, want %v", i, e.Type, want)
		}
	}
	if st := r.gateway.Stats(); st.Duplicates != 3 || st.DuplicateIDs != 1 {
		t.Errorf("%d duplicates, %d duplicate ids, want 3 and 1", st.Duplicates, st.DuplicateIDs)
	}
}

// Anybody can send a datagram with the name of a device that needs no token: it ends no connection
// that lives, and does not make duplicateIDs of the device.
func TestForgedPacketsAndConnections(t *testing.T) {
	r, s := mixedRig(t, liveness.Config{Policy: liveness.Policy{CloseGrace: time.Minute}}, nil)
	d := r.dial()
	d.say("HELLO pump-1\n")
	d.expect("OK 1 …")
	for range 9 {
		s.say("HELLO pump-1" + strings.Repeat(" ", 100))
		s.expect("ERR duplicate the device is connected…")
	}
	r.holds(0)
	d.say("PING\n")
	d.expect("PONG")
	again := r.dial()
	again.say("HELLO pump-1\n")
	again.expect("OK 2 …")
	d.expect("BYE replaced…")
	_ = again.conn.Close()
	testwait.Until(t, "the connection is gone", func() bool { return !r.device("pump-1").Connected })
	s.say("HELLO pump-1 ttl=90s")
	s.expect("OK 3 ttl=90\n")
}

// A connection over which nothing was heard for half of the timeout may be dead, also if the
// gateway has not noticed.
func TestPacketsAfterADeadConnection(t *testing.T) {
	t.Parallel()
	r, s := mixedRig(t, liveness.Config{Policy: liveness.Policy{Timeout: 2 * time.Second}}, nil)
	d := r.dial()
	d.say("HELLO pump-1\n")
	d.expect("OK 1 …")
	testwait.Until(t, "the device gets in", func() bool {
		s.say("HELLO pump-1")
		return r.device("pump-1").Source == "gateway-udp"
	})
	d.expect("BYE replaced…")
	if got := offline(r.events(2)); got != nil {
		t.Errorf("verdicts: %v", got)
	}
}

// A reader that is held up falls behind; no verdict overtakes what it has not read.
func TestPacketsReadLate(t *testing.T) {
	t.Parallel()
	ttl := 2 * time.Second
	for !readLate(t, ttl) { // a machine may be too slow to begin in 2 s
		ttl *= 2
	}
}

// readLate stalls the reader of datagrams for longer than the devices' time; it returns false if that was up before the stall began.
func readLate(t *testing.T, ttl time.Duration) bool {
	t.Helper()
	stalls, began := testwait.Watch(t), time.Now()
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: packets("127.0.0.1:0"), Loops: 1})
	s := r.sender()
	const devices = 20
	hello := func(i int) { s.say(fmt.Sprintf("HELLO d-%02d ttl=%v", i, ttl)) }
	welcome := fmt.Sprintf("OK 1 ttl=%.0f\n", ttl.Seconds())
	at := time.Now()
	for i := range devices {
		hello(i)
		s.expect(welcome)
	}
	inTime := false
	gateway.StallPackets(r.gateway, func() {
		for i := range devices {
			hello(i)
		}
		inTime = time.Since(at) < ttl-100*time.Millisecond
		<-time.After(ttl + time.Second)
	})
	released := time.Now()
	if !inTime {
		return false
	}
	for range devices {
		s.expect(welcome)
	}
	for _, e := range before(r.events(devices), released.Add(ttl)) {
		if e.Type != liveness.DeviceOnline {
			t.Errorf("%s: %v", e.ID(), e.Type)
		}
	}
	if v, stalled := udpSource(r).View(), stalls.Between(began, time.Now()); v.DeafTotal > stalled {
		t.Errorf("deaf time = %v, want 0 beside stalls of %v: the gateway was slow, not deaf", v.DeafTotal, stalled)
	}
	return true
}

func udpSource(r *rig) *liveness.Source {
	const name = "gateway-udp"
	for _, s := range r.registry.Sources() {
		if s.Name() == name {
			return s
		}
	}
	r.t.Fatalf("there is no source %s", name)
	return nil
}

// What was dropped because the socket was full may have been heartbeats: the source was deaf, and
// who was not heard since has time for it.
func TestPacketsOverflow(t *testing.T) {
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: packets("127.0.0.1:0"), ReconnectGrace: 3 * time.Second})
	s := r.sender()
	s.say("HELLO pump-1 ttl=1500ms")
	s.expect("OK 1 ttl=1.5\n")
	gateway.StallPackets(r.gateway, func() {
		for range 40_000 { // more than fit
			s.say("HELLO pump-2 ttl=1h")
		}
		s.say("HELLO pump-1 ttl=1500ms") // is dropped
		<-time.After(2 * time.Second)
	})
	udp := udpSource(r)
	testwait.Until(t, "the source is deaf", func() bool { return len(udp.View().Deaf) > 0 || !udp.View().DeafSince.IsZero() })
	testwait.Until(t, "the device is heard", func() bool { // the socket may take a moment to have room again
		s.say("HELLO pump-1 ttl=1500ms")
		return udp.View().DeafSince.IsZero() && r.device("pump-1").State == liveness.Online
	})
	if got := r.device("pump-1"); got.Seq != 1 {
		t.Errorf("%d events of the device, want one: %s", got.Seq, r.story(4))
	}
	if st := r.gateway.Stats().Packets; st.Dropped == 0 {
		t.Errorf("stats = %+v, want drops", st)
	}
}

// Anybody can send datagrams with a wrong checksum, which the kernel drops: they make nobody deaf.
func TestPacketsWithWrongChecksum(t *testing.T) {
	raw, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP)
	if err != nil {
		t.Skipf("the right to write raw datagrams is missing: %v", err)
	}
	defer func() { _ = unix.Close(raw) }()
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: packets("127.0.0.1:0")})
	s := r.sender()
	s.say("HELLO pump-1 ttl=1h")
	s.expect("OK 1 ttl=3600\n")
	body := []byte("HELLO pump-2 ttl=1h" + strings.Repeat(" ", 100)) // the kernel looks at short ones before it looks for a socket
	packet := binary.BigEndian.AppendUint16(nil, 9)                  // RFC 768: ports, length, checksum
	packet = binary.BigEndian.AppendUint16(packet, netip.MustParseAddrPort(r.addr).Port())
	packet = binary.BigEndian.AppendUint16(packet, uint16(8+len(body)))
	packet = append(binary.BigEndian.AppendUint16(packet, 0xbad), body...)
	udp, before := udpSource(r), gateway.Overflows()
	for range 10 {
		if err := unix.Sendto(raw, packet, 0, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
			t.Fatal(err)
		}
		at := udp.Now()
		testwait.Until(t, "the clock goes on", func() bool { return udp.Now() > at })
	}
	if gateway.PacketDrops(r.gateway) == 0 {
		t.Error("the kernel dropped none of the datagrams")
	}
	if gateway.Overflows() != before {
		t.Skip("a socket of somebody else overflowed meanwhile")
	} else if times, _ := gateway.Losses(r.gateway); times > 0 || r.registry.Operator().Known("pump-2") {
		t.Errorf("the source is %+v, want it to have lost nothing", udp.View())
	}
}

// A flood of garbage takes no memory that stays, and nobody is judged for it.
func TestPacketGarbage(t *testing.T) {
	t.Parallel()
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: packets("127.0.0.1:0"), Guard: secret})
	end := time.Now().Add(atChecks(time.Second, 5*time.Second))
	var running sync.WaitGroup
	for i := range 4 {
		flood := r.sender()
		running.Go(func() {
			garbage := [][]byte{
				[]byte(strings.Repeat("noise\n", 200)), []byte("HELLO nobody wrong"),
				{},
				bytes.Repeat([]byte{0xff}, 1400),
				[]byte("HELLO d-1 wrong\nBYE\n"), fmt.Appendf(nil, "HELLO other-%d", i),
			}
			for n := 0; time.Now().Before(end); n++ {
				_, _ = flood.conn.Write(garbage[n%len(garbage)])
			}
		})
	}
	const devices = 20
	s := r.sender()
	for time.Now().Before(end) {
		for i := range devices {
			s.say(fmt.Sprintf("HELLO d-%d s3cret ttl=4s", i))
		}
		<-time.After(400 * time.Millisecond)
	}
	running.Wait()
	testwait.Until(t, "all devices are there", func() bool {
		for i := range devices {
			s.say(fmt.Sprintf("HELLO d-%d s3cret ttl=4s", i))
		}
		return r.registry.Stats().States[liveness.Online] == devices
	})
	for _, e := range r.events(devices) {
		if e.Type == liveness.DeviceOffline {
			t.Errorf("%s was judged offline, %v after %v", e.Subject, e.Reason, e.HeardSilence)
		}
	}
	st := r.gateway.Stats()
	if st.Packets.Devices != devices || st.Packets.Garbage == 0 {
		t.Errorf("stats = %+v", st.Packets)
	}
	t.Logf("%d datagrams, %d dropped, %d of garbage", st.Packets.Received, st.Packets.Dropped, st.Packets.Garbage)
}

// With a shared port there are several sockets; the clock waits for all.
func TestPacketsOfSeveralReaders(t *testing.T) {
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: packets("127.0.0.1:0"), Guard: secret, ReusePort: true, Loops: 4})
	const devices = 64
	ttl := func(round int) time.Duration { // long, but with the last beat
		if round == 19 {
			return 200 * time.Millisecond
		}
		return time.Hour
	}
	var beating sync.WaitGroup
	for i := range devices {
		s := r.sender()
		beating.Go(func() {
			for round := range 20 {
				if _, err := fmt.Fprintf(s.conn, "HELLO d-%d s3cret ttl=%v", i, ttl(round)); err != nil {
					t.Error(err)
				}
				if _, err := s.conn.Read(make([]byte, 100)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	one := r.sender()
	for round := range 20 { // from ever other addresses, which different sockets get
		s := r.sender()
		s.say(fmt.Sprintf("HELLO pump-1 s3cret ttl=%v", ttl(round)))
		s.expect("OK 1 …")
	}
	beating.Wait()
	one.say("HELLO pump-2 s3cret ttl=1h")
	one.expect("OK 1 ttl=3600\n")
	r.holds(1)
	counts := make(map[liveness.Type]int)
	for _, e := range r.events(3*(devices+1) + 1) {
		counts[e.Type]++
	}
	if counts[liveness.DeviceOnline] != devices+2 || counts[liveness.DeviceOffline] != devices+1 {
		t.Errorf("events: %v; want each device online once, and all but one offline once", counts)
	}
}

// At its end the gateway says goodbye to whoever it knows to be where it is; the devices keep their
// states.
func TestPacketsEnd(t *testing.T) {
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: packets("127.0.0.1:0"), Guard: guardOf{"a": "s3cret", "b": ""}})
	known, unknown := r.sender(), r.sender()
	known.say("HELLO a s3cret")
	known.expect("OK 1 ttl=90\n")
	unknown.say("HELLO b ttl=90s")
	unknown.expect("OK 1 ttl=90\n")
	r.stop()
	known.expect("BYE shutdown\n")
	if got, want := r.story(2), "a:1 device.online; b:1 device.online"; got != want {
		t.Errorf("story = %s, want %s", got, want)
	}
	if err := unknown.conn.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if n, err := unknown.conn.Read(make([]byte, 100)); err == nil {
		t.Errorf("%d bytes were sent to an address that may be forged", n)
	}
}

// A device that the registry forgot is new when it is heard again.
func TestPacketForgotten(t *testing.T) {
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: packets("127.0.0.1:0")})
	s := r.sender()
	s.say("HELLO pump-1 ttl=60s")
	s.expect("OK 1 ttl=60\n")
	if err := r.registry.Forget("pump-1"); err != nil {
		t.Fatal(err)
	}
	r.holds(0)
	s.say("HELLO pump-1 ttl=60s")
	s.expect("OK 1 ttl=60\n")
	r.holds(1)
}

// bomb is a protocol whose codec panics at a word.
type bomb struct{ line.Protocol }

func (b bomb) PacketCodec() codec.Codec { return fuse{b.Protocol.PacketCodec()} }

type fuse struct{ codec.Codec }

func (f fuse) Next(input []byte, m *codec.Message) (int, error) {
	if bytes.HasPrefix(input, []byte("boom")) {
		panic("boom")
	}
	return f.Codec.Next(input, m)
}

func TestPacketPanic(t *testing.T) {
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: packets("127.0.0.1:0", bomb{})})
	s := r.sender()
	s.say("boom")
	s.say("HELLO pump-1 ttl=60s\nboom")
	s.say("HELLO pump-2 ttl=60s")
	s.expect("OK 1 ttl=60\n")
	testwait.Until(t, "both have panicked", func() bool { return r.gateway.Stats().Panics == 2 }) // what comes before waits for the judge, too
	s.say("HELLO pump-1 ttl=60s")
	if judgesElsewhere { // its session was released
		s.expect("OK 2 ttl=60\n")
	} else {
		s.expect("OK 1 ttl=60\n")
	}
	r.holds(2)
}

func TestBadPacketListeners(t *testing.T) {
	taken, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	tests := []struct {
		name   string
		listen []gateway.Listener
		want   string
	}{
		{"protocol", packets("127.0.0.1:0", gt06.Protocol{}), "the gt06 protocol does not come in datagrams"},
		{"taken", packets(taken.LocalAddr().String()), "address already in use"},
		{"second", append(packets("127.0.0.1:0"), packets(taken.LocalAddr().String())...), "address already in use"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			log, err := eventlog.New(0)
			if err != nil {
				t.Fatal(err)
			}
			registry, err := liveness.New(log, liveness.Config{})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			_, err = gateway.New(ctx, registry, gateway.Config{Listen: tt.listen})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("New = %v, want an error with %q", err, tt.want)
			}
			cancel()
			if err := registry.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}
