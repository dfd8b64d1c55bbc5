package gateway_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/line"
	"github.com/holter-iot/holter/internal/cert"
	"github.com/holter-iot/holter/internal/test/testcert"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// lockedBuffer is a buffer that may be read while it is written.
type lockedBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// keys are what both sides of TLS connections have.
type keys struct {
	ca     *testcert.Authority
	server *tls.Config
}

func newKeys(tb testing.TB) keys {
	tb.Helper()
	ca := testcert.New(tb)
	return keys{ca, &tls.Config{Certificates: []tls.Certificate{ca.Issue(tb, testcert.Ask{Name: "gateway"})}}}
}

// asking makes the server ask for clients' certificates.
func (k keys) asking(how tls.ClientAuthType) keys {
	k.server.ClientAuth, k.server.ClientCAs = how, k.ca.Pool()
	return k
}

func (k keys) listener() gateway.Listener {
	return gateway.Listener{Address: "127.0.0.1:0", TLS: k.server}
}

func (k keys) config() gateway.Config {
	return gateway.Config{Listen: []gateway.Listener{k.listener()}}
}

// client returns a client's configuration.
func (k keys) client(show ...tls.Certificate) *tls.Config {
	return &tls.Config{RootCAs: k.ca.Pool(), ServerName: "127.0.0.1", Certificates: show}
}

func (k keys) device(t *testing.T, name string) tls.Certificate {
	t.Helper()
	return k.ca.Issue(t, testcert.Ask{Name: name})
}

// secure goes over to TLS on a connection.
func (d *device) secure(c *tls.Config) *device {
	d.t.Helper()
	tc := tls.Client(d.conn, c)
	if err := tc.HandshakeContext(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
	d.conn = tc
	d.init()
	return d
}

func (r *rig) dialTLS(k keys, show ...tls.Certificate) *device {
	r.t.Helper()
	return r.dial().secure(k.client(show...))
}

// over returns how the server ended the connection: nil if it said so (close_notify).
func (d *device) over() error {
	d.t.Helper()
	if text, err := d.in.ReadString('\n'); !errors.Is(err, io.EOF) {
		return fmt.Errorf("heard %q, %w", text, err)
	}
	return nil
}

func TestTLS(t *testing.T) {
	k := newKeys(t)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			r := startRig(t, liveness.Config{}, k.config())
			c := k.client()
			c.MinVersion, c.MaxVersion = version, version
			d := r.dial().secure(c)
			d.say("HELLO sensor-1 ttl=300ms\n")
			d.expect("OK 1 ttl=0.3")
			d.say("PING 7\nping\n")
			d.expect("PONG 7")
			d.expect("PONG")
			d.expect("BYE silence")
			if err := d.over(); err != nil {
				t.Error(err)
			}
			if got, want := r.story(2), "sensor-1:1 device.online; sensor-1:2 device.offline silence"; got != want {
				t.Errorf("story = %s, want %s", got, want)
			}
			e := r.events(2)[1]
			if e.HeardSilence < 300*time.Millisecond || e.Source != "gateway-tls" {
				t.Errorf("heard silence = %v at %q, want at least 300ms at gateway-tls", e.HeardSilence, e.Source)
			}
			if st := r.gateway.Stats(); st.Handshakes != 1 || st.Messages != 3 || st.Closed != 1 {
				t.Errorf("handshakes = %d, messages = %d, closed = %d, want 1, 3 and 1", st.Handshakes, st.Messages, st.Closed)
			}
		})
	}
	t.Run("TLS 1.1", func(t *testing.T) {
		r := startRig(t, liveness.Config{}, k.config())
		c := k.client()
		c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
		if err := tls.Client(r.dial().conn, c).HandshakeContext(t.Context()); err == nil {
			t.Error("TLS 1.1 was spoken")
		}
	})
}

func TestHowTLSEnds(t *testing.T) {
	k := newKeys(t)
	fleet := liveness.Config{Policy: liveness.Policy{Timeout: time.Minute, CloseGrace: 50 * time.Millisecond}}
	tests := []struct {
		name  string
		end   func(*device)
		story string
	}{
		{"bye", func(d *device) { d.say("BYE\n"); d.expect("BYE"); d.expect("EOF") }, "d:1 device.online; d:2 device.offline bye"},
		{"close_notify", func(d *device) { _ = d.conn.Close() }, "d:1 device.online; d:2 device.offline closed"},
		{"fin", func(d *device) { _ = d.conn.(*tls.Conn).NetConn().Close() }, "d:1 device.online; d:2 device.offline closed"},
		{"reset", func(d *device) {
			_ = d.conn.(*tls.Conn).NetConn().(*net.TCPConn).SetLinger(0)
			_ = d.conn.(*tls.Conn).NetConn().Close()
		}, "d:1 device.online; d:2 device.offline closed"},
		{"no record", func(d *device) { _, _ = io.WriteString(d.conn.(*tls.Conn).NetConn(), "no record") }, "d:1 device.online; d:2 device.offline closed"},
		{"garbage", func(d *device) { d.say(strings.Repeat("x", 2000)) }, "d:1 device.online; d:2 device.offline protocol"},
		{"silence", func(d *device) { d.say("TTL 100ms\n") }, "d:1 device.online; d:2 device.changed; d:3 device.offline silence"},
		{"sleep", func(d *device) { d.say("SLEEP 60\n"); d.expect("OK …"); _ = d.conn.Close() }, "d:1 device.online; d:2 device.sleeping"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := startRig(t, fleet, k.config())
			d := r.dialTLS(k)
			d.say("HELLO d\n")
			d.expect("OK …")
			tt.end(d)
			if got := r.story(strings.Count(tt.story, ";") + 1); got != tt.story {
				t.Errorf("story = %s, want %s", got, tt.story)
			}
		})
	}
}

func TestTLSNames(t *testing.T) {
	k := newKeys(t).asking(tls.VerifyClientCertIfGiven)
	cfg := k.config()
	cfg.Guard = gateway.Password("s3cret")
	r := startRig(t, liveness.Config{}, cfg)
	issue := func(a testcert.Ask) []tls.Certificate { return []tls.Certificate{k.ca.Issue(t, a)} }
	tests := []struct {
		name string
		show []tls.Certificate
		say  string
		want string
	}{
		{"common name", issue(testcert.Ask{Name: "pump-1", DNS: []string{"pump-2"}}), "HELLO pump-1\n", "OK …"},
		{"DNS name", issue(testcert.Ask{DNS: []string{"pump-2", "pump-3"}, URI: []string{"urn:pump-4"}}), "HELLO pump-2\n", "OK …"},
		{"URI", issue(testcert.Ask{URI: []string{"urn:pump-4", "urn:pump-5"}}), "HELLO urn:pump-4\n", "OK …"},
		{"another's name", issue(testcert.Ask{Name: "pump-1"}), "HELLO pump-2 s3cret\n", `ERR unauthorized your certificate is that of "pump-1"`},
		{"second DNS name", issue(testcert.Ask{DNS: []string{"pump-2", "pump-3"}}), "HELLO pump-3 s3cret\n", "ERR unauthorized your …"},
		{"no name, but a token", issue(testcert.Ask{}), "HELLO pump-6 s3cret\n", "ERR unauthorized your certificate names no device…"},
		{"no certificate", nil, "HELLO pump-1\n", "ERR unauthorized wrong …"},
		{"no certificate, but a token", nil, "HELLO pump-7 s3cret\n", "OK …"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := (&rig{t: t, addr: r.addr}).dialTLS(k, tt.show...)
			d.say(tt.say)
			d.expect(tt.want)
		})
	}
}

// A certificate that is good and says no name is not that of any device.
func TestTLSNameless(t *testing.T) {
	k := newKeys(t).asking(tls.RequireAndVerifyClientCert)
	var said lockedBuffer
	cfg := k.config()
	cfg.Logger = slog.New(slog.NewTextHandler(&said, nil))
	r := startRig(t, liveness.Config{}, cfg)
	for range 3 {
		d := r.dialTLS(k, k.ca.Issue(t, testcert.Ask{}))
		d.say("HELLO pump-1\n")
		d.expect("ERR unauthorized your certificate names no device: it has no common name, no DNS name and no URI")
		d.expect("EOF")
	}
	if _, err := r.registry.Device("pump-1"); err == nil {
		t.Error("who has a certificate without a name became a device")
	}
	if n := r.gateway.Stats().Unauthorized; n != 3 {
		t.Errorf("unauthorized = %d, want 3", n)
	}
	if n := strings.Count(said.String(), "its certificate names no device"); n != 2 || !strings.Contains(said.String(), "it has no common name, no DNS name and no URI") {
		t.Errorf("said %d times that a certificate has no name, want 2, and which names are looked for:\n%s", n, said.String())
	}
}

func TestTLSRefuses(t *testing.T) {
	k := newKeys(t).asking(tls.RequireAndVerifyClientCert)
	var said lockedBuffer
	cfg := k.config()
	cfg.Logger = slog.New(slog.NewTextHandler(&said, nil))
	r := startRig(t, liveness.Config{}, cfg)
	for name, show := range map[string][]tls.Certificate{
		"none":                 nil,
		"of another authority": {testcert.New(t).Issue(t, testcert.Ask{Name: "pump-1"})},
		"expired":              {k.ca.Issue(t, testcert.Ask{Name: "pump-1", Expired: true})},
	} {
		c := tls.Client(r.dial().conn, k.client(show...))
		err := c.HandshakeContext(t.Context())
		if err == nil { // in TLS 1.3 a client has shaken hands before its certificate is looked at
			_, err = c.Read(make([]byte, 1))
		}
		if _, refused := errors.AsType[*net.OpError](err); !refused || !strings.Contains(err.Error(), "tls: ") {
			t.Errorf("certificate %s: %v, want an alert", name, err)
		}
	}
	told := func() int { return strings.Count(said.String(), "a TLS handshake failed") }
	// A client knows of the failure before the gateway has counted and logged it.
	testwait.Until(t, "three failures, two of them logged", func() bool { return r.gateway.Stats().HandshakeErrors >= 3 && told() >= 2 })
	if st := r.gateway.Stats(); st.HandshakeErrors != 3 || st.Handshakes != 0 {
		t.Errorf("failed handshakes = %d, others = %d, want 3 and 0", st.HandshakeErrors, st.Handshakes)
	}
	if n := told(); n != 2 { // the 1st and 2nd
		t.Errorf("said %d times that handshakes fail, want 2:\n%s", n, said.String())
	}
	d := r.dialTLS(k, k.device(t, "pump-1"))
	d.say("HELLO pump-1\n")
	d.expect("OK …")
}

// A session that is resumed is that of the same device.
func TestTLSResumes(t *testing.T) {
	k := newKeys(t).asking(tls.RequireAndVerifyClientCert)
	r := startRig(t, liveness.Config{}, k.config())
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		before := r.gateway.Stats().Resumed
		c := k.client(k.device(t, "pump-1"))
		c.MinVersion, c.MaxVersion, c.ClientSessionCache = version, version, tls.NewLRUClientSessionCache(1)
		for i := range 3 {
			d := r.dial().secure(c)
			d.say("HELLO pump-2\n")
			d.expect(`ERR unauthorized your certificate is that of "pump-1"`)
			if got := d.conn.(*tls.Conn).ConnectionState().DidResume; got != (i > 0) {
				t.Errorf("%s, connection %d: resumed = %v", tls.VersionName(version), i, got)
			}
		}
		if got := r.gateway.Stats().Resumed - before; got != 2 {
			t.Errorf("%s: resumed = %d, want 2", tls.VersionName(version), got)
		}
	}
}

func TestNotTLS(t *testing.T) {
	k := newKeys(t)
	r := startRig(t, liveness.Config{}, k.config())
	d := r.dial()
	d.say("HELLO pump-1\n")
	d.expect("ERR not-spoken this port speaks TLS…")
	d.expect("EOF")
	for _, bad := range []string{"\x16\x03\x01\x00\x04x\x00\x00\x00", "\x16\x03\x01\xff\xff" + strings.Repeat("x", 5000)} {
		d := r.dial()
		d.say(bad)
		if _, err := io.Copy(io.Discard, d.in); err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("after %.10q: %v", bad, err)
		}
	}
	if st := r.gateway.Stats(); st.Broken != 1 || st.HandshakeErrors != 2 || st.Panics != 0 {
		t.Errorf("broken = %d, failed handshakes = %d, panics = %d, want 1, 2 and 0", st.Broken, st.HandshakeErrors, st.Panics)
	}
}

// Messages may be split into records and segments, and records hold many messages.
func TestTLSPieces(t *testing.T) {
	k := newKeys(t)
	cfg := k.config()
	cfg.Listen[0].Protocols = []codec.Protocol{line.Protocol{MaxLine: 20_000}}
	r := startRig(t, liveness.Config{}, cfg)
	d := r.dialTLS(k)
	for _, b := range "HELLO pump-1\n" {
		d.say(string(b))
	}
	d.expect("OK …")
	long := strings.Repeat("x", 19_000)
	d.say("PING " + long + "\nPING 1\n")
	if got := d.hear(); got != "PONG "+long {
		t.Errorf("the answer to a long message has %d bytes", len(got))
	}
	d.expect("PONG 1")
	var many strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&many, "PING %d\n", i)
	}
	d.say(many.String())
	for i := range 1000 {
		d.expect(fmt.Sprintf("PONG %d", i))
	}
	// A record that comes in two halves.
	slow := &halves{Conn: r.dial().conn}
	tc := tls.Client(slow, k.client())
	if err := tc.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	e := &device{t: t, conn: tc}
	e.init()
	e.say("HELLO pump-2\n")
	e.expect("OK …")
	d.say("HELLO " + strings.Repeat("y", 20_001) + "\n")
	d.expect("ERR too-long …")
	d.expect("EOF")
}

// halves sends everything in two segments.
type halves struct{ net.Conn }

func (h *halves) Write(p []byte) (int, error) {
	n, err := h.Conn.Write(p[:len(p)/2])
	if err != nil {
		return n, err
	}
	m, err := h.Conn.Write(p[len(p)/2:])
	return n + m, err
}

// The newest connection wins, wherever it comes in.
func TestTLSReplaced(t *testing.T) {
	k := newKeys(t)
	cfg := k.config()
	cfg.Listen = append(cfg.Listen, k.listener(), []gateway.Listener{{Address: "127.0.0.1:0"}}[0])
	r := startRig(t, liveness.Config{}, cfg)
	dials := []func() *device{
		func() *device { return r.dialTLS(k) },
		func() *device { return (&rig{t: t, addr: r.gateway.Addrs()[1].String()}).dialTLS(k) },
		func() *device { return (&rig{t: t, addr: r.gateway.Addrs()[2].String()}).dial() },
		func() *device { return r.dialTLS(k) },
	}
	var last *device
	for i, dial := range dials {
		d := dial()
		d.say("HELLO twin\n")
		d.expect(fmt.Sprintf("OK %d …", i+1))
		if last != nil {
			last.expect("BYE replaced…")
			last.expect("EOF")
		}
		last = d
	}
	last.say("PING\n")
	last.expect("PONG")
}

// Who does not get ahead with shaking hands, or with greeting, is shown out, and is no hindrance to
// others.
func TestHalfOpen(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	cfg := k.config()
	cfg.HandshakeTimeout, cfg.MaxHandshakes = 2*time.Second, 1
	r := startRig(t, liveness.Config{}, cfg)
	var crowd []*device
	for i := range 300 {
		d := r.dial()
		switch i % 3 {
		case 0: // says nothing
		case 1: // half a record
			d.say("\x16\x03\x01\x00\xff\x01")
		case 2: // shakes hands, but to the last step
			c := tls.Client(&holding{Conn: d.conn, after: 1}, k.client())
			go func() { _ = c.Handshake() }() //nolint:noctx // ends with the connection
		}
		crowd = append(crowd, d)
	}
	silent := r.dialTLS(k)
	for i := range 50 {
		d := r.dialTLS(k)
		d.say(fmt.Sprintf("HELLO d-%d ttl=1h\n", i))
		d.expect("OK …")
	}
	silent.expect("ERR timeout …")
	silent.expect("EOF")
	for i, d := range crowd {
		if i%3 < 2 {
			d.expect("EOF")
		}
	}
	for st := r.gateway.Stats(); st.Connections != 50 || st.HandshakeTimeouts != 301; st = r.gateway.Stats() {
		if r.t.Context().Err() != nil || st.HandshakeTimeouts > 301 {
			t.Fatalf("connections = %d, handshake timeouts = %d, want 50 and 301", st.Connections, st.HandshakeTimeouts)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// holding sends some writes, and holds the others back.
type holding struct {
	net.Conn

	after int
}

func (h *holding) Write(p []byte) (int, error) {
	if h.after--; h.after < 0 {
		return len(p), nil
	}
	return h.Conn.Write(p)
}

func TestTLSCaps(t *testing.T) {
	k := newKeys(t)
	both := func(cfg gateway.Config) gateway.Config {
		cfg.Listen = []gateway.Listener{k.listener(), []gateway.Listener{{Address: "127.0.0.1:0"}}[0]}
		return cfg
	}
	for name, cfg := range map[string]gateway.Config{"connections": both(gateway.Config{MaxConnections: 2}), "address": both(gateway.Config{MaxPerAddress: 2})} {
		t.Run(name, func(t *testing.T) {
			r := startRig(t, liveness.Config{}, cfg)
			plain := (&rig{t: t, addr: r.gateway.Addrs()[1].String()}).dial()
			plain.say("HELLO d-1\n")
			plain.expect("OK …")
			d := r.dialTLS(k)
			d.say("HELLO d-2\n")
			d.expect("OK …")
			if err := tls.Client(r.dial().conn, k.client()).HandshakeContext(t.Context()); err == nil {
				t.Error("one too many was let in")
			}
			d.say("BYE\n")
			d.expect("BYE")
			d.expect("EOF")
			for range 1000 {
				c := r.dial().conn
				tc := tls.Client(c, k.client())
				if tc.HandshakeContext(t.Context()) == nil {
					return
				}
				_ = c.Close()
			}
			t.Error("the place of one that left stays taken")
		})
	}
}

// Who asks and never reads the answers is cut off; the bytes kept for him are bounded, and nobody
// waits for him.
func TestTLSSlowReader(t *testing.T) {
	k := newKeys(t)
	cfg := k.config()
	cfg.MaxOutbound = 8192
	cfg.Listen[0].MaxMessages, cfg.Listen[0].MaxBytes = -1, -1
	r := startRig(t, liveness.Config{}, cfg)
	slow := r.dial()
	_ = slow.conn.(*net.TCPConn).SetReadBuffer(64 << 10)
	slow.secure(k.client())
	slow.say("HELLO slow\n")
	burst := []byte(strings.Repeat("PING 123456789\n", 1000))
	var err error
	for err == nil {
		_, err = slow.conn.Write(burst)
	}
	if errors.Is(err, syscall.ETIMEDOUT) {
		t.Fatal("never cut off")
	}
	if n := r.gateway.Stats().SlowReaders; n != 1 {
		t.Errorf("slow readers = %d, want 1", n)
	}
}

// What the kernel does not take at once is sent when it does.
func TestTLSLateReader(t *testing.T) {
	k := newKeys(t)
	cfg := k.config()
	cfg.MaxOutbound = 64 << 20
	cfg.Listen[0].MaxMessages, cfg.Listen[0].MaxBytes = -1, -1
	r := startRig(t, liveness.Config{}, cfg)
	d := r.dial()
	_ = d.conn.(*net.TCPConn).SetReadBuffer(64 << 10)
	d.secure(k.client())
	d.say("HELLO late\n")
	const n = 400_000
	var many bytes.Buffer
	for i := range n {
		fmt.Fprintf(&many, "PING %d\n", i)
	}
	if _, err := d.conn.Write(many.Bytes()); err != nil {
		t.Fatal(err)
	}
	d.expect("OK …")
	for i := range n {
		if got, want := d.hear(), fmt.Sprintf("PONG %d", i); got != want {
			t.Fatalf("heard %q, want %q", got, want)
		}
	}
}

func TestTLSIdle(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	cfg := k.config()
	cfg.IdleTimeout = 500 * time.Millisecond
	r := startRig(t, liveness.Config{}, cfg)
	d := r.dialTLS(k)
	d.say("HELLO d ttl=1h\n")
	d.expect("OK …")
	d.say("PING\n")
	d.expect("PONG")
	d.expect("BYE idle")
	if n := r.gateway.Stats().IdleTimeouts; n != 1 {
		t.Errorf("idle timeouts = %d, want 1", n)
	}
}

// The gateway's own end is nobody's silence.
func TestTLSShutdown(t *testing.T) {
	k := newKeys(t)
	r := startRig(t, liveness.Config{Policy: liveness.Policy{CloseGrace: time.Millisecond}}, k.config())
	var fleet []*device
	for i := range 100 {
		d := r.dialTLS(k)
		d.say(fmt.Sprintf("HELLO d-%d\n", i))
		d.expect("OK …")
		fleet = append(fleet, d)
	}
	half := r.dial()
	half.say("\x16\x03\x01\x00\xff\x01")
	r.stop()
	for _, d := range fleet {
		d.expect("BYE shutdown")
		if err := d.over(); err != nil {
			t.Fatal(err)
		}
	}
	if got := offline(r.events(100)); got != nil {
		t.Errorf("verdicts at shutdown: %v", got)
	}
	if st := r.registry.Stats(); st.States[liveness.Online] != 100 {
		t.Errorf("online = %d, want 100", st.States[liveness.Online])
	}
}

// The PROXY header comes before TLS, and the certificate of the connection itself counts more than
// what the header says.
func TestProxyBeforeTLS(t *testing.T) {
	k := newKeys(t).asking(tls.VerifyClientCertIfGiven)
	l := k.listener()
	l.Proxies = proxied().Proxies
	r := startRig(t, liveness.Config{}, gateway.Config{Listen: []gateway.Listener{l}, MaxPerAddress: 2, Guard: gateway.Password("s3cret")})
	d := r.through(header(t, "198.51.100.7:5000")).secure(k.client(k.device(t, "pump-1")))
	d.say("HELLO pump-1\n")
	d.expect("OK …")
	d = r.through(header(t, "198.51.100.8:5000", certificate(t, "pump-2", withCert, 0))).secure(k.client(k.device(t, "pump-3")))
	d.say("HELLO pump-2\n")
	d.expect("ERR unauthorized your …")
	d = r.through(header(t, "198.51.100.9:5000", certificate(t, "pump-2", withCert, 0))).secure(k.client())
	d.say("HELLO pump-2\n")
	d.expect("OK …")
	d = r.dial() // header and hello of TLS byte by byte
	for _, b := range header(t, "198.51.100.10:5000") {
		d.say(string([]byte{b}))
	}
	d.secure(k.client(k.device(t, "pump-4")))
	d.say("HELLO pump-4\n")
	d.expect("OK …")
	_ = r.through(raw(0x20, 0x00)).conn.Close() // a health check
	r.dial().conn.Close()
	r.dial().secureFails(k.client())
	if st := r.gateway.Stats(); st.BadProxyHeader != 1 || st.HandshakeErrors != 0 {
		t.Errorf("bad headers = %d, failed handshakes = %d, want 1 and 0", st.BadProxyHeader, st.HandshakeErrors)
	}
	// The addresses are those of the devices.
	for i, want := range []bool{true, false} {
		d := r.through(header(t, "198.51.100.7:5001"))
		err := tls.Client(d.conn, k.client()).HandshakeContext(t.Context())
		if got := err == nil; got != want {
			t.Errorf("connection %d more of one address: %v", i+1, err)
		}
	}
}

func (d *device) secureFails(c *tls.Config) {
	d.t.Helper()
	if tls.Client(d.conn, c).HandshakeContext(d.t.Context()) == nil {
		d.t.Error("hands were shaken")
	}
}

// stuck is the line protocol, but that it waits at a message for a gate to open, or panics.
type stuck struct {
	line.Protocol

	at   string
	gate chan struct{} // closed to let it go on; nil: it panics
	met  chan struct{} // closed when it waits
}

func (s stuck) Codec() codec.Codec { return stuckCodec{s.Protocol.Codec(), s} }

type stuckCodec struct {
	codec.Codec

	of stuck
}

func (c stuckCodec) Next(input []byte, m *codec.Message) (int, error) {
	n, err := c.Codec.Next(input, m)
	if n > 0 && strings.HasPrefix(string(input[:n]), c.of.at) {
		if c.of.gate == nil {
			panic("a codec that is broken")
		}
		close(c.of.met)
		<-c.of.gate
	}
	return n, err
}

// A heartbeat that was read is not missed by the clock, though what was read with it takes long, in
// the same record or in one before it.
func TestTLSBehindAMessage(t *testing.T) {
	k := newKeys(t)
	for name, together := range map[string]bool{"one record": true, "two records in one segment": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			slow := stuck{at: "SLOW", gate: make(chan struct{}), met: make(chan struct{})}
			cfg := k.config()
			cfg.Listen[0].Protocols = []codec.Protocol{slow}
			r := startRig(t, liveness.Config{}, cfg)
			other := r.dialTLS(k)
			other.say("HELLO other ttl=1h\n")
			other.expect("OK …")
			link := &gathering{}
			d := r.dial()
			link.Conn = d.conn
			tc := tls.Client(link, k.client())
			if err := tc.HandshakeContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			d.conn = tc
			d.init()
			d.say("HELLO d ttl=500ms\n")
			d.expect("OK …")
			link.hold = true
			if together {
				d.say("SLOW\nTTL 20s\n")
			} else {
				d.say("SLOW\n")
				d.say("TTL 20s\n")
			}
			link.release(t)
			<-slow.met
			<-time.After(2 * time.Second) // its deadline is long over
			close(slow.gate)
			d.expect("TTL 20")
			if got := offline(r.events(3)); got != nil {
				t.Errorf("false verdicts: %v", got)
			}
		})
	}
}

// gathering sends what was written, while it is held, at once.
type gathering struct {
	net.Conn

	hold bool
	held []byte
}

func (g *gathering) Write(p []byte) (int, error) {
	if g.hold {
		g.held = append(g.held, p...)
		return len(p), nil
	}
	return g.Conn.Write(p)
}

func (g *gathering) release(t *testing.T) {
	t.Helper()
	g.hold = false
	if _, err := g.Conn.Write(g.held); err != nil {
		t.Fatal(err)
	}
}

// A codec that panics costs one connection.
func TestTLSPanic(t *testing.T) {
	k := newKeys(t)
	cfg := k.config()
	cfg.Listen[0].Protocols = []codec.Protocol{stuck{at: "PANIC"}}
	r := startRig(t, liveness.Config{Policy: liveness.Policy{CloseGrace: time.Millisecond}}, cfg)
	other, d := r.dialTLS(k), r.dialTLS(k)
	other.say("HELLO other\n")
	other.expect("OK …")
	d.say("HELLO d\nPANIC\n")
	if got, want := r.story(3), "other:1 device.online; d:1 device.online; d:2 device.offline closed"; got != want {
		t.Errorf("story = %s, want %s", got, want)
	}
	other.say("PING\n")
	other.expect("PONG")
	if n := r.gateway.Stats().Panics; n != 1 {
		t.Errorf("panics = %d, want 1", n)
	}
}

func TestTLSSend(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	r := startRig(t, liveness.Config{}, k.config())
	d := r.dialTLS(k)
	d.say("HELLO d ttl=1h\n")
	d.expect("OK …")
	sent, err := r.gateway.Send(t.Context(), "d", []byte("open the valve"), false)
	if err != nil || sent.Protocol != "line" || sent.Bytes != len("MSG open the valve\n") {
		t.Errorf("Send() = %+v, %v", sent, err)
	}
	d.expect("MSG open the valve")
	d.say("BYE\n")
	d.expect("BYE")
	d.expect("EOF")
	if _, err := r.gateway.Send(t.Context(), "d", []byte("close it"), false); !errors.Is(err, gateway.ErrNotConnected) {
		t.Errorf("Send() to one that left = %v, want that it is not connected", err)
	}
	// One that does not read is waited for no longer than asked.
	slow := r.dial()
	_ = slow.conn.(*net.TCPConn).SetReadBuffer(4096)
	slow.secure(k.client())
	slow.say("HELLO slow ttl=1h\n")
	slow.expect("OK …")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	payload := bytes.Repeat([]byte("x"), 60_000)
	for err = nil; err == nil; {
		_, err = r.gateway.Send(ctx, "slow", payload, true)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Send() to one that does not read = %v, want that the time is over", err)
	}
	for err == nil || errors.Is(err, context.DeadlineExceeded) { // there may be room for some more
		again, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		_, err = r.gateway.Send(again, "slow", payload, true)
		cancel()
	}
	if !errors.Is(err, gateway.ErrSlowReader) {
		t.Errorf("Send() once more = %v, want that it is a slow reader", err)
	}
}

func TestBadTLSConfig(t *testing.T) {
	log, err := eventlog.New(0)
	if err != nil {
		t.Fatal(err)
	}
	registry, err := liveness.New(log, liveness.Config{})
	if err != nil {
		t.Fatal(err)
	}
	k := newKeys(t)
	old := k.server.Clone()
	old.MinVersion = tls.VersionTLS11
	tests := []struct {
		name string
		l    gateway.Listener
		want string
	}{
		{"no certificate", gateway.Listener{TLS: &tls.Config{}}, "TLS has no certificate"},
		{"old version", gateway.Listener{TLS: old}, "TLS.MinVersion is TLS 1.1"},
		{"datagrams", gateway.Listener{TLS: k.server, Packets: true}, "Packets goes without TLS"},
		{"no network", gateway.Listener{Proxies: make([]netip.Prefix, 1)}, "Proxies has invalid Prefix"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.l.Address = "127.0.0.1:0"
			_, err := gateway.New(t.Context(), registry, gateway.Config{Listen: []gateway.Listener{tt.l}})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("New() error = %v, want %q in it", err, tt.want)
			}
		})
	}
}

// tlsChild is a gatewayChild that speaks TLS.
func tlsChild() error {
	dir := os.Getenv(certEnv)
	c, err := cert.Load(cert.Files{Cert: filepath.Join(dir, "server.pem"), Key: filepath.Join(dir, "server.key")})
	if err != nil {
		return err
	}
	return gatewayChild(gateway.Listener{Address: "127.0.0.1:0", TLS: c})
}
