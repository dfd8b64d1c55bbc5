package gateway_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/gateway/codec/gt06"
	"github.com/holter-iot/holter/gateway/codec/jt808"
	"github.com/holter-iot/holter/gateway/codec/line"
	"github.com/holter-iot/holter/internal/guard"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/liveness"
)

// guarded is a configuration with a guard whose file holds some lines.
func guarded(t *testing.T, lines ...string) gateway.Config {
	t.Helper()
	name := filepath.Join(t.TempDir(), "devices")
	if err := os.WriteFile(name, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := guard.New(name, guard.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return gateway.Config{Guard: g, Listen: []gateway.Listener{{
		Address: "127.0.0.1:0", Protocols: []codec.Protocol{jt808.Protocol{}, line.Protocol{}},
	}}}
}

// hashed is the line of a device whose token is known by its SHA-256 only.
func hashed(id, token string) string {
	sum := sha256.Sum256([]byte(token))
	return id + " sha256:" + hex.EncodeToString(sum[:])
}

// dialFrom connects from another address of this machine.
func (r *rig) dialFrom(address string) *device {
	r.t.Helper()
	d := &device{t: r.t, conn: connect(r.t, r.addr, address)}
	d.init()
	return d
}

func connect(t *testing.T, to, from string) net.Conn {
	t.Helper()
	c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext(t.Context(), "tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute)) // only so that a failing test ends
	return c
}

func TestTokens(t *testing.T) {
	r := startRig(t, liveness.Config{}, guarded(t, "listed", hashed("hashed", "t0ken"), "plain secret:correct-horse"))
	tests := []struct{ name, hello, want string }{
		{"without a secret", "HELLO listed", "OK …"},
		{"without a secret, but with a token", "HELLO listed whatever", "OK …"},
		{"right token", "HELLO hashed t0ken", "OK …"},
		{"wrong token", "HELLO hashed t0kem", "ERR unauthorized wrong or missing token…"},
		{"no token", "HELLO hashed", "ERR unauthorized …"},
		{"right secret", "HELLO plain correct-horse ttl=5s", "OK 1 ttl=5"},
		{"another's token", "HELLO plain t0ken", "ERR unauthorized …"},
		{"a device that is not listed", "HELLO stranger", "ERR unauthorized …"},
		{"a device that is not listed, with a token", "HELLO stranger t0ken", "ERR unauthorized …"},
	}
	refused := uint64(0)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := (&rig{t: t, addr: r.addr}).dial()
			d.say(tt.hello + "\n")
			d.expect(tt.want)
			if strings.HasPrefix(tt.want, "ERR") {
				d.expect("EOF")
				refused++
			}
		})
	}
	if got := r.gateway.Stats().Unauthorized; got != refused {
		t.Errorf("unauthorized = %d, want %d", got, refused)
	}
	if v, err := r.registry.Device("stranger"); err == nil {
		t.Errorf("a stranger became a device: %+v", v)
	}
}

// prove is what the documentation of the line protocol tells people to do.
func prove(t *testing.T, secret, nonce string) string {
	t.Helper()
	want := hex.EncodeToString(codec.Prove([]byte(secret), []byte(nonce)))
	if _, err := exec.LookPath("openssl"); err != nil {
		return want
	}
	cmd := exec.CommandContext(t.Context(), "openssl", "dgst", "-sha256", "-hmac", secret)
	cmd.Stdin = strings.NewReader(nonce)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	_, proof, _ := strings.Cut(strings.TrimSpace(string(out)), "= ")
	if proof != want {
		t.Errorf("openssl says %q, want %q", proof, want)
	}
	return proof
}

// challenge asks for a nonce.
func (d *device) challenge(hello string) (nonce string) {
	d.t.Helper()
	d.say(hello + " auth=hmac ttl=7s\n")
	answer := d.hear()
	nonce, ok := strings.CutPrefix(answer, "CHALLENGE ")
	if !ok || len(nonce) < 32 {
		d.t.Fatalf("heard %q, want a challenge", answer)
	}
	return nonce
}

func TestChallenge(t *testing.T) {
	r := startRig(t, liveness.Config{}, guarded(t, "listed", hashed("hashed", "t0ken"), "plain secret:correct-horse"))
	t.Run("proof", func(t *testing.T) {
		d := (&rig{t: t, addr: r.addr}).dial()
		proof := prove(t, "correct-horse", d.challenge("HELLO plain"))
		d.say("PROOF " + proof + "\n")
		d.expect("OK 1 ttl=7")
		d.say("PROOF " + proof + "\nPING 1\n")
		d.expect("ERR hello-again …")
		d.expect("PONG 1")
	})
	t.Run("proof of another challenge", func(t *testing.T) {
		rig := &rig{t: t, addr: r.addr}
		old := prove(t, "correct-horse", rig.dial().challenge("HELLO plain"))
		d := rig.dial()
		d.challenge("HELLO plain")
		d.say("PROOF " + old + "\n")
		d.expect("ERR unauthorized wrong proof…")
		d.expect("EOF")
	})
	t.Run("the last challenge counts", func(t *testing.T) {
		d := (&rig{t: t, addr: r.addr}).dial()
		first := prove(t, "correct-horse", d.challenge("HELLO plain"))
		d.challenge("HELLO plain")
		d.say("PROOF " + first + "\n")
		d.expect("ERR unauthorized wrong proof…")
	})
	t.Run("no challenge", func(t *testing.T) {
		d := (&rig{t: t, addr: r.addr}).dial()
		d.say("PROOF " + strings.Repeat("00", 32) + "\n")
		d.expect("ERR hello-first no challenge is open…")
	})
	for _, tt := range []struct{ name, id, secret, want string }{
		{"wrong secret", "plain", "correct-hors", "ERR unauthorized wrong proof…"},
		{"only the digest is known", "hashed", "t0ken", "ERR unauthorized wrong proof…"},
		{"needs no secret", "listed", "whatever", "OK 1 ttl=7"},
		{"not listed", "stranger", "correct-horse", "ERR unauthorized wrong proof…"},
		{"empty secret", "stranger", "", "ERR unauthorized wrong proof…"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := (&rig{t: t, addr: r.addr}).dial()
			nonce := d.challenge("HELLO " + tt.id)
			d.say("PROOF " + hex.EncodeToString(codec.Prove([]byte(tt.secret), []byte(nonce))) + "\n")
			d.expect(tt.want)
		})
	}
}

// frames of devices, from jt808/testdata/vectors.txt.
const (
	registerOf12345678901  = "7e0100002c0123456789010000001f007363640000007777772e3830382e636f6d0000000000000000003736353433323101b2e24131323334cc7e"
	heartbeatOf12345678901 = "7e000200000123456789017fff0a7e"
)

// terminal is a device of JT/T 808.
type terminal struct {
	*device

	id string
}

// frame returns the next frame of the gateway, without what frames it; nil if the connection ended.
func (d *terminal) frame() []byte {
	d.t.Helper()
	if b, err := d.in.ReadByte(); err != nil || b != 0x7e {
		if err != nil {
			return nil
		}
		d.t.Fatalf("heard %x, want a frame", b)
	}
	text, err := d.in.ReadBytes(0x7e)
	if err != nil {
		d.t.Fatal(err)
	}
	text = bytes.ReplaceAll(text[:len(text)-1], []byte{0x7d, 2}, []byte{0x7e})
	text = bytes.ReplaceAll(text, []byte{0x7d, 1}, []byte{0x7d})
	return text[:len(text)-1] // without the checksum
}

func (d *terminal) sayHex(digits string) {
	d.t.Helper()
	b, err := hex.DecodeString(digits)
	if err != nil {
		d.t.Fatal(err)
	}
	d.say(string(b))
}

// register returns the result of a registration, and the token.
func (d *terminal) register() (result byte, token string) {
	d.t.Helper()
	d.sayHex(registerOf12345678901)
	f := d.frame()
	if len(f) < 12+3 || f[0] != 0x81 || f[1] != 0 {
		d.t.Fatalf("heard % x, want the answer to a registration", f)
	}
	return f[14], string(f[15:])
}

// answer returns the result of the general answer that comes next; 255 if the connection ended.
func (d *terminal) answer() byte {
	d.t.Helper()
	f := d.frame()
	if f == nil {
		return 255
	}
	if len(f) != 12+5 || f[0] != 0x80 || f[1] != 1 {
		d.t.Fatalf("heard % x, want a general answer", f)
	}
	return f[16]
}

func (d *terminal) auth(token string) byte {
	d.t.Helper()
	d.say(string(jt808.Client{Old: true}.AppendHello(nil, d.id, token, 0)))
	return d.answer()
}

func TestRegistration(t *testing.T) {
	const id, ok, unknown, ended = "12345678901", 0, 4, 255
	device := func(t *testing.T, r *rig) *terminal {
		t.Helper()
		return &terminal{(&rig{t: t, addr: r.addr}).dial(), id}
	}
	t.Run("listed", func(t *testing.T) {
		r := startRig(t, liveness.Config{}, guarded(t, id))
		d := device(t, r)
		result, token := d.register()
		if result != ok || len(token) != 32 {
			t.Fatalf("registration: %d, token %q, want one of 32 digits", result, token)
		}
		if got := d.auth(token); got != ok {
			t.Errorf("authentication: %d", got)
		}
		d.sayHex(heartbeatOf12345678901)
		if got := d.answer(); got != ok {
			t.Errorf("heartbeat: %d", got)
		}
		again := device(t, r)
		if got := again.auth(token); got != ok {
			t.Errorf("authentication on another connection: %d", got)
		}
		if v, err := r.registry.Device(id); err != nil || v.State != liveness.Online || v.Epoch != 2 {
			t.Errorf("the device is %+v, %v", v, err)
		}
	})
	t.Run("not listed", func(t *testing.T) {
		r := startRig(t, liveness.Config{}, guarded(t, "12345678902"))
		d := device(t, r)
		if result, token := d.register(); result != unknown || token != "" {
			t.Errorf("registration: %d, token %q, want %d", result, token, unknown)
		}
		if got := d.answer(); got != ended {
			t.Errorf("the connection goes on: %d", got)
		}
		if got := r.gateway.Stats().Unauthorized; got != 1 {
			t.Errorf("unauthorized = %d, want 1", got)
		}
	})
	t.Run("with a secret", func(t *testing.T) {
		r := startRig(t, liveness.Config{}, guarded(t, hashed(id, "A1234")))
		if result, token := device(t, r).register(); result != unknown || token != "" {
			t.Errorf("registration: %d, token %q: it is a way around the secret", result, token)
		}
		if got := device(t, r).auth("A1235"); got == ok {
			t.Errorf("authentication with a wrong code: %d", got)
		}
		if got := device(t, r).auth("A1234"); got != ok {
			t.Errorf("authentication: %d", got)
		}
	})
	t.Run("a heartbeat instead of a hello", func(t *testing.T) {
		listed := startRig(t, liveness.Config{}, guarded(t, id))
		d := device(t, listed)
		if d.sayHex(heartbeatOf12345678901); d.answer() != ok {
			t.Error("a device without a secret needs a hello")
		}
		secret := startRig(t, liveness.Config{}, guarded(t, hashed(id, "A1234")))
		d = device(t, secret)
		if d.sayHex(heartbeatOf12345678901); d.answer() == ok || d.answer() != ended {
			t.Error("a device with a secret gets in without it")
		}
		if v, err := secret.registry.Device(id); err == nil {
			t.Errorf("it became a device: %+v", v)
		}
	})
}

// Lists implements gateway.Guard.
func (guardOf) Lists(string) bool { return false }

// Guessable implements gateway.Guard.
func (guardOf) Guessable(string) bool { return false }

// TestRightTokenAfterWrongOnes: a token that nobody guesses opens whatever came before it from its
// address, also as a proof, and so does one of the fleet.
func TestRightTokenAfterWrongOnes(t *testing.T) {
	token := guard.NewToken()
	for name, cfg := range map[string]gateway.Config{
		"digest": guarded(t, hashed("a", token)), "secret": guarded(t, "a secret:"+token), "fleet": {Guard: gateway.Password(token)},
	} {
		t.Run(name, func(t *testing.T) {
			r := startRig(t, liveness.Config{}, cfg)
			for i := range 2500 { // most for it, and more than an address may try for all
				d := r.dial()
				d.say(fmt.Sprintf("HELLO %s wrong-%d\n", []string{"a", "a", "b"}[i%3], i))
				d.expect("ERR unauthorized wrong or missing token…")
				_ = d.conn.Close()
			}
			d := r.dial()
			d.say("HELLO a " + token + "\n")
			d.expect("OK …")
			if name == "secret" {
				d = r.dial()
				d.say("PROOF " + prove(t, token, d.challenge("HELLO a")) + "\n")
				d.expect("OK …")
			}
			if st := r.gateway.Stats(); st.Throttled != 0 || st.Unauthorized != 2500 {
				t.Errorf("throttled = %d, unauthorized = %d, want 0 and 2500", st.Throttled, st.Unauthorized)
			}
		})
	}
}

// TestFailuresAreLimited: who tries tokens that can be guessed for a device is not listened to for
// a while, and the log says so; its neighbours are, and so are devices that need none and those
// that are connected.
func TestFailuresAreLimited(t *testing.T) {
	const limit = 60
	cfg := guarded(t, "a secret:right", "b secret:right", "c secret:right", "listed", "12345678901")
	var said lockedBuffer
	cfg.Logger = slog.New(slog.NewTextHandler(&said, nil))
	r := startRig(t, liveness.Config{}, cfg)
	connected := r.dial()
	connected.say("HELLO a right\n")
	connected.expect("OK …")
	for i := range limit {
		d := r.dial()
		d.say(fmt.Sprintf("HELLO b wrong-%d\n", i))
		d.expect("ERR unauthorized wrong or missing token…")
		_ = d.conn.Close()
	}
	refused := r.dial()
	refused.say("HELLO b right\n")
	refused.expect("ERR unauthorized too many wrong tokens; try again in two minutes")
	refused.expect("EOF")
	challenged := r.dial()
	challenged.say("PROOF " + prove(t, "right", challenged.challenge("HELLO b")) + "\n")
	challenged.expect("ERR unauthorized too many wrong tokens…")
	connected.say("PING 1\nHELLO a right\n")
	connected.expect("PONG 1")
	connected.expect("OK …")
	for _, hello := range []string{"HELLO c right\n", "HELLO listed whatever\n"} {
		d := r.dial()
		d.say(hello)
		d.expect("OK …")
	}
	other := r.dialFrom("127.0.0.2")
	other.say("HELLO b right\n")
	other.expect("OK …")
	if st := r.gateway.Stats(); st.Unauthorized != limit || st.Throttled != 2 {
		t.Errorf("unauthorized = %d, throttled = %d, want %d and 2", st.Unauthorized, st.Throttled, limit)
	}
	for _, times := range []string{"1", "2"} {
		if want := "device=b address=127.0.0.1 times=" + times; !strings.Contains(said.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, said.String())
		}
	}
}

// TestFailuresOfAddress: an address where nearly all tokens are wrong is not listened to for any
// device that needs one; who shows none has guessed none.
func TestFailuresOfAddress(t *testing.T) {
	const limit, devices = 60 * 30, 40
	r := startRig(t, liveness.Config{}, guarded(t, "listed", "12345678901", "last secret:right"))
	for range limit {
		d := r.dial()
		d.say("HELLO stranger\n")
		d.expect("ERR unauthorized wrong or missing token…")
		_ = d.conn.Close()
	}
	d := r.dial()
	d.say("HELLO last right\n")
	d.expect("OK …")
	for i := range limit {
		d := r.dial()
		d.say(fmt.Sprintf("HELLO d-%d wrong\n", i%devices))
		d.expect("ERR unauthorized wrong or missing token…")
		_ = d.conn.Close()
	}
	d = r.dial()
	d.say("HELLO last right\n")
	d.expect("ERR unauthorized too many wrong tokens…")
	d = r.dial()
	d.say("HELLO listed whatever\n")
	d.expect("OK …")
	terminal := &terminal{r.dial(), "12345678901"}
	if result, token := terminal.register(); result != 0 || terminal.auth(token) != 0 {
		t.Errorf("registration: %d, token %q", result, token)
	}
}

// TestCertificateStandsInTheFile: the file of devices says which certificates are still good for
// something.
func TestCertificateStandsInTheFile(t *testing.T) {
	k := newKeys(t).asking(tls.RequireAndVerifyClientCert)
	cfg := guarded(t, "listed", "plain secret:correct-horse")
	cfg.Listen = append(cfg.Listen, k.listener(), proxied())
	r := startRig(t, liveness.Config{}, cfg)
	secure, behind := &rig{t: t, addr: r.gateway.Addrs()[1].String()}, &rig{t: t, addr: r.gateway.Addrs()[2].String()}
	for id, want := range map[string]string{"listed": "OK …", "plain": "OK …", "stolen": "ERR unauthorized the device may not come in"} {
		d := secure.dialTLS(k, k.device(t, id))
		d.say("HELLO " + id + "\n")
		d.expect(want)
		d = behind.through(header(t, "198.51.100.7:5000", certificate(t, id, withCert, 0)))
		d.say("HELLO " + id + "\n")
		d.expect(want)
		d = secure.dialTLS(k, k.device(t, id))
		d.challenge("HELLO " + id)
		d.say("PROOF 00\n")
		d.expect(want)
	}
	if st := r.gateway.Stats(); st.Unauthorized != 3 || st.Throttled != 0 {
		t.Errorf("unauthorized = %d, throttled = %d, want 3 and 0", st.Unauthorized, st.Throttled)
	}
}

// TestRefusalsAreTold: the log names who was refused, and why, and no token.
func TestRefusalsAreTold(t *testing.T) {
	k := newKeys(t).asking(tls.RequireAndVerifyClientCert)
	cfg := guarded(t, "plain secret:right", "12345678901 secret:right")
	cfg.Listen[0].Protocols = slices.Insert(cfg.Listen[0].Protocols, 1, codec.Protocol(gt06.Protocol{}))
	cfg.Listen = append(cfg.Listen, k.listener())
	var said lockedBuffer
	cfg.Logger = slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r := startRig(t, liveness.Config{}, cfg)
	secure := &rig{t: t, addr: r.gateway.Addrs()[1].String()}
	gt06Login := "\x78\x78\x0d\x01\x08\x64\x71\x70\x03\x28\x35\x81\x00\x09\x3f\x04\x0d\x0a"
	tests := []struct {
		name   string
		say    string
		secure bool
		want   string
	}{
		{"wrong token", "HELLO plain hunter2\n", false, `device=plain address=127.0.0.1 protocol=line reason="wrong or missing token" times=1`},
		{"the second", "HELLO plain hunter2\n", false, `protocol=line reason="wrong or missing token" times=2`},
		{"the third", "HELLO plain hunter2\n", false, `protocol=line reason="wrong or missing token" times=3`},
		{"unknown IMEI", gt06Login, false, `device=864717003283581 address=127.0.0.1 protocol=gt06 reason="it is not in the devices file" times=1`},
		{"registration", registering(t), false, `device=12345678901 address=127.0.0.1 protocol=jt808 reason="it asks for a token by registering, and must know its own" times=1`},
		{"long id", "HELLO " + strings.Repeat("x", 500) + " hunter2\n", false, "device=" + strings.Repeat("x", 128) + ` address=127.0.0.1 protocol=line reason="it is not in`},
		{"another's name", "HELLO 00plain\n", true, `device=00plain address=127.0.0.1 protocol=line reason="its certificate is that of another device" times=1`},
	}
	for _, tt := range tests {
		d := r.dial()
		if tt.secure {
			d = secure.dialTLS(k, k.device(t, "plain"))
		}
		d.say(tt.say)
		_, _ = io.Copy(io.Discard, d.in) // the gateway ends it
		if !strings.Contains(said.String(), tt.want) {
			t.Errorf("%s: the log lacks %s:\n%s", tt.name, tt.want, said.String())
		}
	}
	if n := strings.Count(said.String(), "level=WARN"); n != len(tests)-1 { // but for the third time
		t.Errorf("%d warnings, want %d:\n%s", n, len(tests)-1, said.String())
	}
	if !strings.Contains(said.String(), "certificate=plain") || strings.Contains(said.String(), "hunter2") {
		t.Errorf("the log lacks the certificate's name, or shows a token:\n%s", said.String())
	}
}

// registering is what a terminal says to register.
func registering(t *testing.T) string {
	t.Helper()
	b, err := hex.DecodeString(registerOf12345678901)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// twinRig is a gateway whose log is kept.
func twinRig(t *testing.T, fleet liveness.Config) (*rig, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer // slog's handler guards it; it is read when the gateway has ended
	return startRig(t, fleet, gateway.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}), &log
}

// replaced counts the takeovers among a registry's events.
func (r *rig) replaced() (n int) {
	r.t.Helper()
	for _, e := range r.events(1) {
		if e.Type.String() == "device.session_replaced" {
			n++
		}
	}
	return n
}

// TestDuplicateIDsSettle: two clients with one id that reconnect whenever they are replaced: one of
// them stays.
func TestDuplicateIDsSettle(t *testing.T) {
	const maxTakeovers, refusals = 6, 20
	r, log := twinRig(t, liveness.Config{Policy: liveness.Policy{Timeout: 10 * time.Minute}})
	first := r.dialFrom("127.0.0.2")
	first.say("HELLO twin\n")
	first.expect("OK 1 …")
	settled := make(chan struct{})
	var refused, stayed atomic.Int32
	var clients sync.WaitGroup
	for _, from := range []string{"127.0.0.2", "127.0.0.3"} {
		clients.Go(func() {
			for {
				c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext(t.Context(), "tcp", r.addr)
				if err != nil {
					if refused.Load() < refusals {
						t.Error(err)
					}
					return
				}
				_, _ = io.WriteString(c, "HELLO twin\n")
				welcome := false
				for in := bufio.NewScanner(c); in.Scan(); {
					switch {
					case strings.HasPrefix(in.Text(), "OK "):
						welcome = true
					case welcome && in.Text() == "BYE shutdown":
						stayed.Add(1)
					case strings.HasPrefix(in.Text(), "ERR duplicate") && refused.Add(1) == refusals:
						close(settled)
					}
				}
				_ = c.Close()
			}
		})
	}
	<-settled
	if got := r.replaced(); got > maxTakeovers {
		t.Errorf("%d takeovers, want at most %d", got, maxTakeovers)
	}
	if st := r.gateway.Stats(); st.DuplicateIDs != 1 || st.Duplicates < refusals {
		t.Errorf("duplicate ids = %d, duplicates = %d, want 1 and at least %d", st.DuplicateIDs, st.Duplicates, refusals)
	}
	r.stop()
	clients.Wait()
	if stayed.Load() != 1 {
		t.Errorf("%d clients were connected at the end, want one", stayed.Load())
	}
	if n := strings.Count(log.String(), "two connections keep"); n != 1 {
		t.Errorf("%d warnings, want one:\n%s", n, log.String())
	}
	for _, want := range []string{"device=twin", "127.0.0.2", "127.0.0.3"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the warning lacks %s:\n%s", want, log.String())
		}
	}
}

// TestNewestWins: a device that comes back on another connection is not its own twin.
func TestNewestWins(t *testing.T) {
	const maxTakeovers = 6
	r, _ := twinRig(t, liveness.Config{})
	var before *device
	for i := range maxTakeovers + 1 {
		d := r.dial()
		d.say("HELLO d\n")
		d.expect(fmt.Sprintf("OK %d …", i+1))
		if before != nil {
			before.expect("BYE replaced…")
			before.expect("EOF")
		}
		before = d
	}
	testwait.Until(t, "the takeovers are counted", func() bool { return r.gateway.Stats().DuplicateIDs == 1 })
	twin := r.dial()
	twin.say("HELLO d\n")
	twin.expect("ERR duplicate two connections keep…")
	twin.expect("EOF")
	before.say("PING 1\n")
	before.expect("PONG 1")
	before.say("HELLO d\n")
	before.expect("OK …")
	if st := r.gateway.Stats(); st.DuplicateIDs != 1 || st.Duplicates != 1 {
		t.Errorf("duplicate ids = %d, duplicates = %d, want 1 and 1", st.DuplicateIDs, st.Duplicates)
	}
	// One that is gone keeps nobody out.
	before.say("BYE\n")
	before.expect("BYE")
	before.expect("EOF")
	r.dialUntil("HELLO d\n")
}

// TestDeadTwin: a device whose connections break again and again, unnoticed by the gateway, looks
// like two devices. It is admitted before its time is over.
func TestDeadTwin(t *testing.T) {
	const maxTakeovers = 6
	r, _ := twinRig(t, liveness.Config{Policy: liveness.Policy{Timeout: 2 * time.Second}})
	for range maxTakeovers + 1 {
		d := r.dial()
		d.say("HELLO d\n")
		d.expect("OK …")
	}
	testwait.Until(t, "it looks like two", func() bool { return r.gateway.Stats().DuplicateIDs == 1 })
	tries := 0
	testwait.Until(t, "the device is admitted", func() bool {
		tries++
		d := r.dial()
		d.say("HELLO d\n")
		return strings.HasPrefix(d.hear(), "OK ")
	})
	if tries == 1 {
		t.Error("the living one was replaced")
	}
	if got := offline(r.events(1)); got != nil {
		t.Errorf("verdicts: %v", got)
	}
}
