package broker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/holter-iot/holter/internal/testwait"
	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
	"github.com/holter-iot/holter/mqttbridge/broker"
)

func TestClientIDs(t *testing.T) {
	tests := []struct {
		name, id string
		version  byte
		want     byte
	}{
		{"too long", strings.Repeat("x", liveness.MaxID+1), 4, 2},
		{"too long, MQTT 5", strings.Repeat("x", liveness.MaxID+1), 5, 0x85},
		{"a control character", "a\tb", 4, 2},
		{"a control character, MQTT 5", "a\tb", 5, 0x85},
		{"just so long", strings.Repeat("x", liveness.MaxID), 4, 0},
		{"with slash and wildcards", "a/+#", 4, 0},
		{"the implementation's own", "inline", 4, 0},
	}
	s := start(t, liveness.Config{}, broker.Config{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if code := s.dial().hello(hello{id: tt.id, version: tt.version}); code != tt.want {
				t.Errorf("CONNACK with %#x, want %#x", code, tt.want)
			}
		})
	}
	c := s.dial()
	if code, err := c.tryHello(hello{id: "a\xff"}); err == nil {
		t.Errorf("not UTF-8: CONNACK with %#x, want none", code)
	}
	s.rejected(broker.ClientID, 5)
	if n := s.registry.Stats().Devices; n != 3 {
		t.Errorf("%d devices, want 3", n)
	}
}

func TestTooLarge(t *testing.T) {
	s := start(t, quick, broker.Config{MaxPacket: 100_000})
	for _, first := range []string{
		"\x10\xff\xff\x7f", // a CONNECT of 2 MiB
		"\x10\xff\xff\xff\xff\xff\x7f",
		"GET / HTTP/1.1\r\n\r\n",
		"\xc0\x00", // PINGREQ
	} {
		c := s.dial()
		if _, err := c.conn.Write([]byte(first)); err != nil {
			t.Fatal(err)
		}
		c.over()
	}
	s.rejected(broker.PacketTooLarge, 1)
	s.rejected(broker.Protocol, 3)
	c := s.connect(hello{id: "c"})
	c.publish("x", strings.Repeat("x", 99_000), 0, false)
	c.ping()
	pk := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Publish}, TopicName: "x", Payload: make([]byte, 200_000)}
	_ = c.write(&pk, pk.PublishEncode) // it may be cut off in the middle
	c.over()
	if e := s.event("c", liveness.DeviceOffline); e.Reason != liveness.Protocol {
		t.Errorf("reason is %v, want protocol", e.Reason)
	}
	s.rejected(broker.PacketTooLarge, 2)
}

func TestConnectTimeout(t *testing.T) {
	s := start(t, liveness.Config{}, broker.Config{ConnectTimeout: 50 * time.Millisecond})
	s.dial().over()
	c := s.dial()
	if _, err := c.conn.Write([]byte{0x10, 20, 0}); err != nil {
		t.Fatal(err)
	}
	c.over()
}

func TestFull(t *testing.T) {
	for name, version := range versions {
		t.Run(name, func(t *testing.T) {
			s := start(t, liveness.Config{MaxDevices: 2}, broker.Config{MaxClients: 3})
			s.connect(hello{id: "a"})
			s.connect(hello{id: "b"})
			want := map[byte][2]byte{4: {3, 3}, 5: {packets.ErrQuotaExceeded.Code, packets.ErrServerBusy.Code}}[version]
			if code := s.dial().hello(hello{id: "c", version: version}); code != want[0] {
				t.Errorf("a third device: CONNACK with %#x, want %#x", code, want[0])
			}
			s.connect(hello{})
			if code := s.dial().hello(hello{version: version}); code != want[1] {
				t.Errorf("a fourth client: CONNACK with %#x, want %#x", code, want[1])
			}
			s.rejected(broker.Full, 2)
			for range 100 {
				s.dial()
			}
			testwait.Until(t, "connections that are turned away", func() bool { return s.broker.Stats().Rejected["full"] > 2 })
		})
	}
}

// stuck is a sink that takes nothing until it is closed.
type stuck chan struct{}

func (s stuck) Append(context.Context, []liveness.Event) error {
	<-s
	return nil
}

// TestBusy connects devices while their events cannot be stored.
func TestBusy(t *testing.T) {
	sink := make(stuck)
	registry, err := liveness.New(sink, liveness.Config{Outbox: 1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = registry.Run(ctx) })
	defer running.Wait()
	defer close(sink)
	defer cancel()
	s := &station{tb: t, registry: registry}
	defer s.restart(broker.Config{}.WithCommitTimeout(time.Millisecond))()
	for i := range 5 {
		if code := s.dial().hello(hello{id: fmt.Sprint("old-", i)}); code != 3 {
			t.Errorf("CONNACK with %#x, want 0x3", code)
		}
	}
	if code := s.dial().hello(hello{id: "new", version: 5}); code != packets.ErrServerBusy.Code {
		t.Errorf("CONNACK with %#x, want %#x", code, packets.ErrServerBusy.Code)
	}
	s.rejected(broker.Busy, 6)
	if registry.Known("old-4") {
		t.Error("a device was made although its event had no room")
	}
}

// usersFile writes a users file.
func usersFile(t *testing.T, path string, namesAndPasswords ...string) {
	t.Helper()
	var file strings.Builder
	file.WriteString("# comment\n\n")
	for i := 0; i < len(namesAndPasswords); i += 2 {
		hash, err := broker.HashPassword(namesAndPasswords[i+1])
		if err != nil {
			t.Fatal(err)
		}
		file.WriteString(namesAndPasswords[i] + ":" + hash + "\n")
	}
	if err := os.WriteFile(path+"~", []byte(file.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+"~", path); err != nil {
		t.Fatal(err)
	}
}

func TestPasswords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users")
	usersFile(t, path, "ann", "secret-1", "böb", "pass:word")
	users, err := broker.NewUsers(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, liveness.Config{}, broker.Config{Auth: users})
	tests := []struct {
		name, user, password string
		version              byte
		want                 byte
	}{
		{"right", "ann", "secret-1", 4, 0},
		{"right again", "ann", "secret-1", 5, 0},
		{"right, and odd", "böb", "pass:word", 4, 0},
		{"wrong", "ann", "secret-2", 4, 4},
		{"wrong, MQTT 5", "ann", "secret-2", 5, 0x86},
		{"that of another", "ann", "pass:word", 4, 4},
		{"unknown", "eve", "secret-1", 4, 4},
		{"none", "ann", "", 4, 4},
		{"nobody", "", "", 4, 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if code := s.dial().hello(hello{id: "a", user: tt.user, password: tt.password, version: tt.version}); code != tt.want {
				t.Errorf("CONNACK with %#x, want %#x", code, tt.want)
			}
		})
	}
	s.rejected(broker.Denied, 6)
	usersFile(t, path, "eve", "secret-1")
	testwait.Until(t, "the change", func() bool { return s.dial().hello(hello{id: "e", user: "eve", password: "secret-1"}) == 0 })
	if code := s.dial().hello(hello{id: "a", user: "ann", password: "secret-1"}); code != 4 {
		t.Errorf("a user that was removed: CONNACK with %#x, want 0x4", code)
	}
	if err := os.WriteFile(path, []byte("nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.connect(hello{id: "e", user: "eve", password: "secret-1"})
}

// TestLoginStorm lets a fleet that shares a password come at once.
func TestLoginStorm(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users")
	usersFile(t, path, "fleet", "secret")
	users, err := broker.NewUsers(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	here := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}
	var coming sync.WaitGroup
	for range 500 {
		coming.Go(func() {
			if err := users.Login(t.Context(), "a", "fleet", []byte("secret"), here); err != nil {
				t.Error(err)
			}
		})
	}
	coming.Wait()
	var busy, denied int
	errs := make(chan error, 700)
	ctx, cancel := context.WithCancel(t.Context())
	for i := range cap(errs) {
		coming.Go(func() { errs <- users.Login(ctx, "a", "fleet", fmt.Append(nil, "wrong-", i), here) })
	}
	for range 100 {
		switch err := <-errs; {
		case errors.Is(err, broker.ErrLogins):
			busy++
		case errors.Is(err, broker.ErrDenied):
			denied++
		default:
			t.Errorf("Login = %v", err)
		}
	}
	cancel()
	coming.Wait()
	if busy == 0 {
		t.Error("all logins waited")
	}
	t.Logf("%d too many, %d denied", busy, denied)
}

// TestGuessingPasswords: who tries many passwords at once, for a user and for some who are none, keeps no other user out, not even from his
// own address, nor the one whose password he tries from elsewhere.
func TestGuessingPasswords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users")
	usersFile(t, path, "ann", "secret-1", "bob", "secret-2")
	var log bytes.Buffer
	users, err := broker.NewUsers(path, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	here, elsewhere := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 2)}
	errs := make(chan error, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var guessing sync.WaitGroup
	for i := range cap(errs) {
		user := "ann"
		if i%2 > 0 {
			user = fmt.Sprint("nobody-", i)
		}
		guessing.Go(func() { errs <- users.Login(ctx, "x", user, fmt.Append(nil, "guess-", i), here) })
	}
	for err := range errs {
		if errors.Is(err, broker.ErrLogins) { // so it became too much
			break
		}
	}
	if err := users.Login(t.Context(), "b", "bob", []byte("secret-2"), here); err != nil {
		t.Errorf("another user from the same address: %v", err)
	}
	if err := users.Login(t.Context(), "a", "ann", []byte("secret-1"), elsewhere); err != nil {
		t.Errorf("the user from elsewhere: %v", err)
	}
	cancel()
	guessing.Wait()
	if err := users.Login(t.Context(), "a", "ann", []byte("secret-1"), here); err != nil {
		t.Errorf("the user from the same address, afterwards: %v", err)
	}
	if !strings.Contains(log.String(), "address=192.0.2.1 times=1\n") {
		t.Errorf("the log does not say who was told to come again:\n%s", log.String())
	}
}

func TestUsersFile(t *testing.T) {
	hash, err := broker.HashPassword("secret")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, file, want string }{
		{"no colon", "ann\n", "line 1: there is no colon"},
		{"no name", "\n:" + hash, "line 2: the name is empty"},
		{"not a hash", "ann:secret", `line 1: the hash of user "ann": want $argon2id`},
		{"bcrypt", "ann:$2y$10$abcdefghijklmnopqrstuv", "want $argon2id"},
		{"twice", "ann:" + hash + "\nann:" + hash, `line 2: user "ann" stands here for the second time`},
		{"huge memory", "ann:" + strings.Replace(hash, "m=19456", "m=4000000000", 1), "parameters are"},
		{"no salt", "ann:$argon2id$v=19$m=19456,t=2,p=1$$AAAA", "the salt is not"},
		{"old version", "ann:" + strings.Replace(hash, "v=19", "v=16", 1), "argon2 version is"},
	}
	path := filepath.Join(t.TempDir(), "users")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := os.WriteFile(path, []byte(tt.file), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := broker.NewUsers(path, nil)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("NewUsers = %v, want %q in it", err, tt.want)
			}
			if err != nil && (strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), hash)) {
				t.Errorf("the error shows a secret: %v", err)
			}
		})
	}
	if _, err := broker.NewUsers(path+"x", nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("NewUsers = %v, want ErrNotExist", err)
	}
	for _, password := range []string{"", strings.Repeat("x", 2000)} {
		if _, err := broker.HashPassword(password); err == nil {
			t.Errorf("HashPassword of %d bytes succeeded", len(password))
		}
	}
}

func TestAnonymous(t *testing.T) {
	far, here := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}, &net.TCPAddr{IP: net.IPv6loopback}
	tests := []struct {
		name   string
		auth   broker.Auth
		user   string
		remote net.Addr
		want   bool
	}{
		{"here", broker.Anonymous(true), "", here, true},
		{"from far", broker.Anonymous(true), "", far, false},
		{"from far, for everybody", broker.Anonymous(false), "", far, true},
		{"either: nameless", broker.Either(broker.Anonymous(true), broker.Anonymous(false)), "", far, true},
		{"either: named", broker.Either(broker.Anonymous(true), broker.Anonymous(false)), "ann", far, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.auth.Login(t.Context(), "a", tt.user, nil, tt.remote); (err == nil) != tt.want {
				t.Errorf("Login = %v, want nil: %v", err, tt.want)
			}
		})
	}
}

// trap is an Auth that panics for one client.
type trap struct{}

func (trap) Login(_ context.Context, id, _ string, _ []byte, _ net.Addr) error {
	if id == "trap" {
		panic("trapped")
	}
	return nil
}

func TestPanic(t *testing.T) {
	s := start(t, quick, broker.Config{Auth: trap{}})
	c := s.connect(hello{id: "a"})
	if code, err := s.dial().tryHello(hello{id: "trap"}); err == nil {
		t.Errorf("CONNACK with %#x, want none", code)
	}
	c.ping()
	if n := s.broker.Stats().Panics; n != 1 {
		t.Errorf("%d panics, want 1", n)
	}
}

// TestLogHasNoPassword makes the protocol's implementation warn of a packet with a password, again and again.
func TestLogHasNoPassword(t *testing.T) {
	var mu sync.Mutex
	var out bytes.Buffer
	logger := slog.New(slog.NewTextHandler(writer(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return out.Write(p)
	}), nil))
	s := start(t, quick, broker.Config{Logger: logger})
	for range 10 {
		c := s.connect(hello{id: "a", keepAlive: 1})
		pk := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Connect}, Connect: packets.ConnectParams{
			ProtocolName: []byte("MQTT"), ClientIdentifier: "b", Clean: true, PasswordFlag: true, Password: []byte("hunter2"), UsernameFlag: true, Username: []byte("u"),
		}}
		_ = c.write(&pk, pk.ConnectEncode)
		c.over()
	}
	s.stop()
	text := out.String()
	if strings.Contains(text, "hunter2") || strings.Contains(text, "104 117 110") {
		t.Errorf("the log shows a password: %s", text)
	}
	if n := strings.Count(text, "error processing packet"); n != 4 || !strings.Contains(text, "component=mqtt") {
		t.Errorf("%d warnings of ten, want 4 (the 1st, 2nd, 4th and 8th): %s", n, text)
	}
}

type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

func TestConfig(t *testing.T) {
	log, err := eventlog.New(0)
	if err != nil {
		t.Fatal(err)
	}
	registry, err := liveness.New(log, liveness.Config{})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		cfg  broker.Config
		want string
	}{
		{"nothing", broker.Config{}, "Listen is empty"},
		{"reserved", broker.Config{Listen: "127.0.0.1:0", Reserved: "a/#"}, "Reserved is"},
		{"negative", broker.Config{Listen: "127.0.0.1:0", MaxClients: -1}, "MaxClients is -1"},
		{"too many in flight", broker.Config{Listen: "127.0.0.1:0", MaxInflight: 100_000}, "MaxInflight is 100000, want 1 to 65535"},
		{"hasty", broker.Config{Listen: "127.0.0.1:0", SendTimeout: 1}, "SendTimeout is 1ns"},
		{"source", broker.Config{Listen: "127.0.0.1:0", Source: "a\n"}, "source name"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := broker.New(t.Context(), registry, tt.cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("New = %v, want %q in it", err, tt.want)
			}
		})
	}
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	var failed *net.OpError
	if _, err := broker.New(t.Context(), registry, broker.Config{Listen: taken.Addr().String()}); !errors.As(err, &failed) {
		t.Errorf("New at a port that is taken = %v, want a net.OpError", err)
	}
}
