package gateway_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/line"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

func TestConversations(t *testing.T) {
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: []gateway.Listener{{Address: "127.0.0.1:0", Protocols: []codec.Protocol{line.Protocol{MaxLine: 100}}}}})
	long := strings.Repeat("x", 101)
	tests := []struct {
		name string
		talk []string // said, heard, said, heard …; "EOF" is the end
	}{
		{"crlf and capitals", []string{"hello a1\r\n", "OK 1 ttl=90", "ping 1\r\n", "PONG 1"}},
		{"half lines", []string{"HEL", "", "LO a2 tt", "", "l=5s\nPI", "OK 1 ttl=5", "NG\n", "PONG"}},
		{"pipelined", []string{"HELLO a3\nPING 1\nPING 2\n\nPING 3\n", "OK 1 ttl=90", "", "PONG 1", "", "PONG 2", "", "PONG 3"}},
		{"epochs", []string{"HELLO a4 epoch=7\n", "OK 7 ttl=90", "HELLO a4 epoch=7\n", "OK 7 ttl=90", "HELLO a4 epoch=6\n", "ERR stale-epoch …", "", "EOF"}},
		{"ttl", []string{"HELLO a5 ttl=1m\n", "OK 1 ttl=60", "TTL 2.5\n", "TTL 2.5", "TTL never\n", "ERR bad-ttl …", "PING\n", "PONG"}},
		{"sleep", []string{"HELLO a6\n", "OK 1 ttl=90", "SLEEP 3600\n", "OK sleep=3600", "SLEEP 1000h\n", "OK sleep=86400", "SLEEP x\n", "ERR bad-sleep …", "PING\n", "PONG"}},
		{"fail", []string{"HELLO a7\n", "OK 1 ttl=90", "FAIL disk full\n", "OK"}},
		{"bye", []string{"HELLO a8\n", "OK 1 ttl=90", "BYE\n", "BYE", "", "EOF"}},
		{"bye first", []string{"BYE\n", "BYE", "", "EOF"}},
		{"another device", []string{"HELLO a9\n", "OK 1 ttl=90", "HELLO b9\nPING\n", "ERR hello-again …", "", "EOF"}},
		{"no hello", []string{"PING\n", "ERR hello-first …", "x\n", "ERR hello-first …", "HELLO a10\n", "OK 1 ttl=90"}},
		{"no hello for too long", []string{"1\n2\n", "ERR hello-first …", "", "ERR hello-first …", "3\n", "ERR hello-first …", "", "EOF"}},
		{"no id", []string{"HELLO\n", "ERR bad-hello …", "HELLO a11\n", "OK 1 ttl=90"}},
		{"id with a control character", []string{"HELLO a\x1b[2J\n", "ERR bad-id …"}},
		{"binary", []string{"\x7e\x00\x02\x00\x00\x7e\n", "ERR not-spoken …", "", "EOF"}},
		{"long line", []string{long + "\n", "ERR too-long …", "", "EOF"}},
		{"long line without end", []string{long, "ERR too-long …", "", "EOF"}},
		{"long line later", []string{"HELLO a12\n", "OK 1 ttl=90", "PING " + long + "\n", "ERR too-long …", "", "EOF"}},
		{"binary later is a heartbeat", []string{"HELLO a13\n", "OK 1 ttl=90", "\x00\x01\xff\nPING\n", "PONG"}},
		{"bad option", []string{"HELLO a14 ttl=x\n", "ERR bad-ttl …", "HELLO a14 epoch=x\n", "ERR bad-epoch …", "HELLO a14 b c\n", "ERR bad-hello …", "", "EOF"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := (&rig{t: t, addr: r.addr}).dial()
			for i := 0; i < len(tt.talk); i += 2 {
				d.say(tt.talk[i])
				if i+1 == len(tt.talk) || tt.talk[i+1] == "" {
					continue
				}
				d.expect(tt.talk[i+1])
			}
		})
	}
	d := r.dial()
	d.say("HELLO after-all-that\n")
	d.expect("OK …")
}

func TestIDTooLong(t *testing.T) {
	r := startRig(t, liveness.Config{}, gateway.Config{})
	d := r.dial()
	d.say("HELLO " + strings.Repeat("i", liveness.MaxID+1) + "\n")
	d.expect("ERR bad-id …")
	d.say("HELLO " + strings.Repeat("i", liveness.MaxID) + "\n")
	d.expect("OK …")
}

func TestHowItEnds(t *testing.T) {
	fleet := liveness.Config{Policy: liveness.Policy{Timeout: time.Minute, CloseGrace: 50 * time.Millisecond}}
	tests := []struct {
		name  string
		end   func(*device)
		story string
	}{
		{"bye", func(d *device) { d.say("BYE\n") }, "d:1 device.online; d:2 device.offline bye"},
		{"fin", func(d *device) { _ = d.conn.Close() }, "d:1 device.online; d:2 device.offline closed"},
		{"reset", func(d *device) {
			_ = d.conn.(*net.TCPConn).SetLinger(0)
			_ = d.conn.Close()
		}, "d:1 device.online; d:2 device.offline closed"},
		{"garbage", func(d *device) { d.say(strings.Repeat("x", 2000)) }, "d:1 device.online; d:2 device.offline protocol"},
		{"silence", func(d *device) { d.say("TTL 100ms\n") }, "d:1 device.online; d:2 device.changed; d:3 device.offline silence"},
		{"failure", func(d *device) { d.say("FAIL no water\nBYE\n") }, "d:1 device.online; d:2 device.failed; d:3 device.offline bye"},
		{"sleep", func(d *device) { d.say("SLEEP 60\n"); d.expect("OK …"); _ = d.conn.Close() }, "d:1 device.online; d:2 device.sleeping"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := startRig(t, fleet, gateway.Config{})
			d := r.dial()
			d.say("HELLO d\n")
			d.expect("OK …")
			tt.end(d)
			if got := r.story(strings.Count(tt.story, ";") + 1); got != tt.story {
				t.Errorf("story = %s, want %s", got, tt.story)
			}
		})
	}
}

// While events cannot be stored, heartbeats count, and what would cause more of them is refused. No
// event loop waits.
func TestSinkBlocks(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	r := startGated(t, liveness.Config{Outbox: 1}, gateway.Config{Loops: 1}, gate)
	var devices []*device
	for i := range 2 {
		d := r.dial()
		d.say(fmt.Sprintf("HELLO d%d\n", i))
		devices = append(devices, d)
		testwait.Until(t, "it is there", func() bool { return r.registry.Stats().Queued == i+1 })
	}
	refused := r.dial()
	refused.say("HELLO d2\n")
	refused.expect("ERR busy …")
	refused.expect("EOF")
	d := devices[0]
	d.say("SLEEP 60\nFAIL pump\nTTL 5s\nHELLO d0 ttl=7s\nPING\n")
	for range 5 { // the first for the hello, as it was not committed for too long
		d.expect("ERR busy …")
	}
	d.expect("PONG")
	close(gate)
	if got, want := r.story(2), "d0:1 device.online; d1:1 device.online"; got != want {
		t.Errorf("story = %s, want %s", got, want)
	}
}

// The end of a connection that was replaced says nothing of the device.
func TestReplaced(t *testing.T) {
	r := startRig(t, liveness.Config{Policy: liveness.Policy{CloseGrace: time.Millisecond}}, gateway.Config{})
	older, newer := r.dial(), r.dial()
	older.say("HELLO twin\n")
	older.expect("OK 1 …")
	newer.say("HELLO twin\n")
	newer.expect("OK 2 …")
	older.expect("BYE replaced…")
	older.expect("EOF")
	newer.say("PING\n")
	newer.expect("PONG")
	newer.say("BYE\n")
	newer.expect("BYE")
	if got, want := r.story(3), "twin:1 device.online; twin:2 device.session_replaced; twin:3 device.offline bye"; got != want {
		t.Errorf("story = %s, want %s", got, want)
	}
}

// A connection that was replaced has no answer to its heartbeats, even before it is closed.
func TestBeatAfterReplacement(t *testing.T) {
	r := startRig(t, liveness.Config{}, gateway.Config{Loops: 1})
	older, newer := r.dial(), r.dial()
	older.say("HELLO twin\n")
	older.expect("OK 1 …")
	testwait.Until(t, "the newer with its event loop", func() bool { return r.gateway.Stats().Newcomers == 1 })
	gateway.Block(r.gateway, 0, 0, func() {
		newer.say("HELLO twin\n")
		older.say("PING\n")
	})
	newer.expect("OK 2 …")
	older.expect("ERR duplicate the device came back on another connection")
	older.expect("BYE replaced…")
}

func TestToken(t *testing.T) {
	r := startRig(t, liveness.Config{}, gateway.Config{Guard: gateway.Password("s3cret")})
	for _, hello := range []string{"HELLO d\n", "HELLO d wrong\n", "HELLO d s3cre\n"} {
		d := r.dial()
		d.say(hello)
		d.expect("ERR unauthorized …")
		d.expect("EOF")
	}
	d := r.dial()
	d.say("HELLO d s3cret ttl=5s\n")
	d.expect("OK 1 ttl=5")
	if n := r.gateway.Stats().Unauthorized; n != 3 {
		t.Errorf("unauthorized = %d, want 3", n)
	}
}

// Those who never speak are shown out, and are no hindrance to those who do.
func TestSilentCrowd(t *testing.T) {
	t.Parallel()
	r := startRig(t, liveness.Config{}, gateway.Config{HandshakeTimeout: 300 * time.Millisecond})
	var crowd []*device
	for range 1000 {
		crowd = append(crowd, r.dial())
	}
	d := r.dial()
	d.say("HELLO speaker\n")
	d.expect("OK …")
	for _, d := range crowd {
		d.expect("ERR timeout …")
		d.expect("EOF")
	}
	d.say("PING\n")
	d.expect("PONG")
	if st := r.gateway.Stats(); st.HandshakeTimeouts != 1000 || st.Connections != 1 {
		t.Errorf("handshake timeouts = %d, connections = %d, want 1000 and 1", st.HandshakeTimeouts, st.Connections)
	}
}

func TestCaps(t *testing.T) {
	t.Run("connections", func(t *testing.T) {
		r := startRig(t, liveness.Config{}, gateway.Config{MaxConnections: 3})
		for i := range 3 {
			d := r.dial()
			d.say(fmt.Sprintf("HELLO d-%d\n", i))
			d.expect("OK …")
		}
		r.dial().expect("ERR full …")
	})
	t.Run("address", func(t *testing.T) {
		r := startRig(t, liveness.Config{}, gateway.Config{MaxPerAddress: 2})
		first := r.dial()
		first.say("HELLO d-1\n")
		first.expect("OK …")
		second := r.dial()
		second.say("HELLO d-2\n")
		second.expect("OK …")
		r.dial().expect("ERR full …")
		first.say("BYE\n")
		first.expect("BYE")
		first.expect("EOF")
		r.dialUntil("HELLO d-3\n")
	})
	t.Run("devices", func(t *testing.T) {
		r := startRig(t, liveness.Config{MaxDevices: 1}, gateway.Config{})
		d := r.dial()
		d.say("HELLO d-1\n")
		d.expect("OK …")
		full := r.dial()
		full.say("HELLO d-2\n")
		full.expect("ERR full …")
		full.expect("EOF")
	})
}

// Who asks and never reads the answers is cut off; the bytes kept for him are bounded.
func TestSlowReader(t *testing.T) {
	unlimited := gateway.Listener{Address: "127.0.0.1:0", MaxMessages: -1, MaxBytes: -1} // else its answers come too slowly to fill the sockets
	r := startRig(t, liveness.Config{}, gateway.Config{MaxOutbound: 4096, Listen: []gateway.Listener{unlimited}})
	d := r.dial()
	_ = d.conn.(*net.TCPConn).SetReadBuffer(4096)
	d.say("HELLO slow\n")
	burst := []byte(strings.Repeat("PING 123456789\n", 4000))
	var err error
	for err == nil {
		_, err = d.conn.Write(burst)
	}
	if errors.Is(err, syscall.ETIMEDOUT) {
		t.Fatal("never cut off")
	}
	if n := r.gateway.Stats().SlowReaders; n != 1 {
		t.Errorf("slow readers = %d, want 1", n)
	}
}

func TestIdle(t *testing.T) {
	t.Parallel()
	r := startRig(t, liveness.Config{}, gateway.Config{IdleTimeout: 200 * time.Millisecond})
	d := r.dial()
	d.say("HELLO d ttl=1h\n")
	d.expect("OK …")
	d.expect("BYE idle")
}

// The gateway's own end is nobody's silence.
func TestShutdown(t *testing.T) {
	r := startRig(t, liveness.Config{Policy: liveness.Policy{CloseGrace: time.Millisecond}}, gateway.Config{})
	var fleet []*device
	for i := range 100 {
		d := r.dial()
		d.say(fmt.Sprintf("HELLO d-%d\n", i))
		d.expect("OK …")
		fleet = append(fleet, d)
	}
	r.stop()
	for _, d := range fleet {
		d.expect("BYE shutdown")
		d.expect("EOF")
	}
	if got := offline(r.events(100)); got != nil {
		t.Errorf("verdicts at shutdown: %v", got)
	}
	if st := r.registry.Stats(); st.States[liveness.Online] != 100 {
		t.Errorf("online = %d, want 100", st.States[liveness.Online])
	}
	if _, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.addr); err == nil {
		t.Error("the port still accepts")
	}
}

func TestBadConfig(t *testing.T) {
	log, err := eventlog.New(0)
	if err != nil {
		t.Fatal(err)
	}
	registry, err := liveness.New(log, liveness.Config{})
	if err != nil {
		t.Fatal(err)
	}
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	tests := []struct {
		name string
		cfg  gateway.Config
		want string
	}{
		{"no address", gateway.Config{}, "Listen is empty"},
		{"port in use", gateway.Config{Listen: []gateway.Listener{{Address: taken.Addr().String()}}}, "address already in use"},
		{"bad numbers", gateway.Config{Listen: []gateway.Listener{{Address: "127.0.0.1:0"}}, Loops: -1}, "Loops is -1"},
		{"bad times", gateway.Config{Listen: []gateway.Listener{{Address: "127.0.0.1:0"}}, ProbeInterval: time.Hour}, "ProbeInterval is 1h0m0s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := gateway.New(t.Context(), registry, tt.cfg)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("New() error = %v, want %q in it", err, tt.want)
			}
		})
	}
}

// Several processes, or several gateways of one, may share a port.
func TestReusePort(t *testing.T) {
	first := startRig(t, liveness.Config{}, gateway.Config{ReusePort: true})
	second := startRig(t, liveness.Config{}, gateway.Config{ReusePort: true, Listen: []gateway.Listener{{Address: first.addr}}})
	for i := range 40 {
		d := first.dial()
		d.say(fmt.Sprintf("HELLO d-%d\n", i))
		d.expect("OK …")
	}
	a, b := first.gateway.Stats().Connections, second.gateway.Stats().Connections
	if a+b != 40 || a == 0 || b == 0 {
		t.Errorf("connections = %d and %d, want both above 0 and 40 together", a, b)
	}
}
