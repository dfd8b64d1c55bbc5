package gateway_test

import (
	"crypto/tls"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/holter-iot/holter/gateway"
	"github.com/holter-iot/holter/internal/cert"
	"github.com/holter-iot/holter/internal/guard"
	"github.com/holter-iot/holter/internal/test/testcert"
	"github.com/holter-iot/holter/liveness"
)

// A device whose line in the devices file has gone, or has another secret, loses its connection and is kept; so does
// one whose certificate was revoked. The others notice nothing.
func TestRevoked(t *testing.T) {
	t.Parallel()
	dir, quiet := t.TempDir(), slog.New(slog.DiscardHandler)
	file := func(name string, data ...[]byte) string { return testcert.Write(t, dir, name, data...) }
	ca := testcert.New(t)
	serverPEM, key := testcert.PEM(t, ca.Issue(t, testcert.Ask{Name: "gateway"}))
	files := cert.Files{
		Cert: file("server.pem", serverPEM), Key: file("server.key", key), Clients: file("ca.pem", ca.PEM()),
		Revoked: file("revoked.crl", ca.Revoke(t)), Optional: true,
	}
	certificates, err := cert.New(files, quiet)
	if err != nil {
		t.Fatal(err)
	}
	devices := file("devices", []byte("a secret:sesame\nb secret:sesame\nc secret:sesame\nd\ne\n"))
	admits, err := guard.New(devices, guard.Config{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	looking := make(chan struct{})
	go func() { defer close(looking); _ = admits.Run(t.Context()) }()
	t.Cleanup(func() { <-looking })
	r := startRig(t, liveness.Config{}, gateway.Config{
		Guard: admits, Listen: []gateway.Listener{{Address: "127.0.0.1:0"}, {Address: "127.0.0.1:0", TLS: certificates.Config()}},
	})
	secured := &rig{t: t, addr: r.gateway.Addrs()[1].String()}
	connect := func(at *rig, id, hello string, shown ...tls.Certificate) *device {
		t.Helper()
		d := at.dial()
		if at.addr == secured.addr { // not the pointers: Go 1.26.8 may compare an old one after a stack has moved
			d = d.secure(&tls.Config{RootCAs: ca.Pool(), ServerName: "127.0.0.1", Certificates: shown})
		}
		d.say("HELLO " + id + hello + " ttl=60s\n")
		d.expect("OK 1 ttl=60")
		return d
	}
	stolen := ca.Issue(t, testcert.Ask{Name: "e"})
	gone, changed, stays := connect(r, "a", " sesame"), connect(secured, "b", " sesame"), connect(r, "c", " sesame")
	lost, kept := connect(secured, "e", "", stolen), connect(secured, "d", "", ca.Issue(t, testcert.Ask{Name: "d"}))

	file("devices.new", []byte("b secret:other\nc secret:sesame\nd\ne\n"))
	rename(t, filepath.Join(dir, "devices.new"), devices)
	gone.expect("BYE revoked…")
	changed.expect("BYE revoked…")

	file("revoked.new", ca.Revoke(t, stolen))
	rename(t, filepath.Join(dir, "revoked.new"), files.Revoked)
	if err := certificates.Look(); err != nil {
		t.Fatal(err)
	}
	lost.expect("BYE revoked…")
	for _, d := range []*device{stays, kept} {
		d.say("PING\n")
		d.expect("PONG")
	}
	if n := r.gateway.Stats().Revoked; n != 3 || !r.registry.Operator().Known("a") {
		t.Errorf("%d were revoked, want 3; a is known: %t", n, r.registry.Operator().Known("a"))
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}
