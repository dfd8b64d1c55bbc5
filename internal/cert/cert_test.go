package cert_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/holter-iot/holter/internal/cert"
	"github.com/holter-iot/holter/internal/test/testcert"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server writes a server's certificate and key under the names that they have.
func server(t *testing.T, ca *testcert.Authority, f cert.Files, name string) {
	t.Helper()
	c := ca.Issue(t, testcert.Ask{Name: name})
	certPEM, keyPEM := testcert.PEM(t, c)
	replace(t, f.Cert, certPEM)
	replace(t, f.Key, keyPEM)
}

// replace writes a file anew, as certbot does, so that its time of change differs.
func replace(t *testing.T, file string, data []byte) {
	t.Helper()
	before, err := os.Stat(file)
	testcert.Write(t, filepath.Dir(file), filepath.Base(file)+".new", data)
	if err == nil {
		later := before.ModTime().Add(time.Second)
		if err := os.Chtimes(file+".new", later, later); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

func files(t *testing.T) cert.Files {
	t.Helper()
	dir := t.TempDir()
	return cert.Files{Cert: filepath.Join(dir, "server.pem"), Key: filepath.Join(dir, "server.key"), Clients: filepath.Join(dir, "clients.pem")}
}

func TestLoad(t *testing.T) {
	ca := testcert.New(t)
	f := files(t)
	server(t, ca, f, "gateway")
	replace(t, f.Clients, ca.PEM())
	tests := []struct {
		name string
		f    cert.Files
		want tls.ClientAuthType
	}{
		{"without clients' certificates", cert.Files{Cert: f.Cert, Key: f.Key}, tls.NoClientCert},
		{"with them", f, tls.RequireAndVerifyClientCert},
		{"if they have any", cert.Files{Cert: f.Cert, Key: f.Key, Clients: f.Clients, Optional: true}, tls.VerifyClientCertIfGiven},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := cert.Load(tt.f)
			if err != nil {
				t.Fatal(err)
			}
			if c.ClientAuth != tt.want || c.MinVersion != tls.VersionTLS12 || (c.ClientCAs != nil) != (tt.want != tls.NoClientCert) {
				t.Errorf("client auth = %v, least version = %x, authorities: %v", c.ClientAuth, c.MinVersion, c.ClientCAs != nil)
			}
		})
	}
}

func TestBroken(t *testing.T) {
	ca := testcert.New(t)
	good := files(t)
	server(t, ca, good, "gateway")
	replace(t, good.Clients, ca.PEM())
	certPEM, err := os.ReadFile(good.Cert)
	if err != nil {
		t.Fatal(err)
	}
	_, otherKey := testcert.PEM(t, ca.Issue(t, testcert.Ask{Name: "other"}))
	dir := t.TempDir()
	write := func(name string, data []byte) string { return testcert.Write(t, dir, name, data) }
	tests := []struct {
		name, file string
		change     func(*cert.Files)
		want       string
	}{
		{"no certificate file", "absent.pem", func(f *cert.Files) { f.Cert = filepath.Join(dir, "absent.pem") }, "must be there and readable"},
		{"no key file", "absent.key", func(f *cert.Files) { f.Key = filepath.Join(dir, "absent.key") }, "must be there and readable"},
		{"empty certificate", "empty.pem", func(f *cert.Files) { f.Cert = write("empty.pem", nil) }, "there is no certificate in it"},
		{"key in place of the certificate", "key.pem", func(f *cert.Files) { f.Cert = write("key.pem", otherKey) }, "there is no certificate in it"},
		{"half a certificate", "half.pem", func(f *cert.Files) { f.Cert = write("half.pem", certPEM[:len(certPEM)/2]) }, "there is no certificate in it"},
		{"another's key", "other.key", func(f *cert.Files) { f.Key = write("other.key", otherKey) }, "belong together"},
		{"no key in the file", "cert.key", func(f *cert.Files) { f.Key = write("cert.key", certPEM) }, "belong together"},
		{"no authorities", "none.pem", func(f *cert.Files) { f.Clients = write("none.pem", []byte("none\n")) }, "no certificate of an authority"},
		{"a key among them", "mixed.pem", func(f *cert.Files) { f.Clients = write("mixed.pem", append(ca.PEM(), otherKey...)) }, "block 2, PRIVATE KEY, is no certificate"},
		{"no list of revoked ones", "none.crl", func(f *cert.Files) { f.Revoked = write("none.crl", certPEM) }, "no list of revoked certificates"},
		{"a stranger's list", "stranger.crl", func(f *cert.Files) { f.Revoked = write("stranger.crl", testcert.New(t).Revoke(t)) }, "signed by none of the authorities"},
		{"a list without authorities", "", func(f *cert.Files) { f.Revoked, f.Clients = good.Clients, "" }, "of no use without the authorities"},
		{"a cipher suite", "", func(f *cert.Files) { f.Ciphers = "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA" }, `CBC_SHA" is not served, want of ["TLS_`},
		{"a version", "", func(f *cert.Files) { f.MinVersion = "1.1" }, `"1.1", want 1.2 or 1.3`},
		{"a folder", filepath.Base(dir), func(f *cert.Files) { f.Clients = dir }, "is a directory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := good
			tt.change(&f)
			for _, load := range []func() error{
				func() error { _, err := cert.Load(f); return err },
				func() error { _, err := cert.New(f, slog.New(slog.DiscardHandler)); return err },
			} {
				if err := load(); err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), tt.file) {
					t.Errorf("error = %v, want %q and %q in it", err, tt.file, tt.want)
				}
			}
		})
	}
}

func TestTooLong(t *testing.T) {
	f := files(t)
	server(t, testcert.New(t), f, "gateway")
	replace(t, f.Clients, nil)
	if err := os.Truncate(f.Clients, 17<<20); err != nil {
		t.Fatal(err)
	}
	if _, err := cert.Load(f); err == nil || !strings.Contains(err.Error(), "longer than 16 MiB") {
		t.Errorf("error = %v, want that it is too long", err)
	}
}

// pair returns the two ends of a connection with room for what is not read yet, unlike net.Pipe's.
func pair(t *testing.T) (near, far net.Conn) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if near, err = (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if far, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return near, far
}

// served returns the name of the certificate that a listener with the configuration shows.
func served(t *testing.T, c *tls.Config, ca *testcert.Authority, show ...tls.Certificate) (string, error) {
	t.Helper()
	near, far := pair(t)
	ended := make(chan error, 1)
	go func() {
		server := tls.Server(far, c)
		err := server.HandshakeContext(t.Context())
		_ = far.Close()
		ended <- err
	}()
	client := tls.Client(near, &tls.Config{RootCAs: ca.Pool(), ServerName: "127.0.0.1", Certificates: show, MaxVersion: tls.VersionTLS12})
	err := client.HandshakeContext(t.Context())
	_ = near.Close()
	if serverErr := <-ended; serverErr != nil {
		return "", serverErr
	}
	if err != nil {
		return "", err
	}
	return client.ConnectionState().PeerCertificates[0].Subject.CommonName, nil
}

func TestReload(t *testing.T) {
	ca := testcert.New(t)
	f := files(t)
	server(t, ca, f, "first")
	replace(t, f.Clients, ca.PEM())
	device := ca.Issue(t, testcert.Ask{Name: "device"})
	var said bytes.Buffer
	r, err := cert.New(f, slog.New(slog.NewTextHandler(&said, nil)))
	if err != nil {
		t.Fatal(err)
	}
	config := r.Config()
	expect := func(want string) {
		t.Helper()
		if got, err := served(t, config, ca, device); err != nil || got != want {
			t.Errorf("served %q, %v, want %q", got, err, want)
		}
		if got, err := r.GetCertificate(nil); err != nil || got.Leaf.Subject.CommonName != want {
			t.Errorf("GetCertificate = %q, %v, want %q", got.Leaf.Subject.CommonName, err, want)
		}
	}
	expect("first")
	if err := r.Look(); err != nil || said.Len() > 0 {
		t.Errorf("Look() without a change = %v, said %q", err, said.String())
	}
	server(t, ca, f, "second")
	expect("first") // until somebody looks
	if err := r.Look(); err != nil || !strings.Contains(said.String(), "reloaded") {
		t.Errorf("Look() = %v, said %q", err, said.String())
	}
	expect("second")

	// Broken files change nothing, and are spoken of once.
	said.Reset()
	replace(t, f.Cert, []byte("not yet"))
	first := r.Look()
	if first == nil || strings.Count(said.String(), "level=WARN") != 1 || !strings.Contains(said.String(), f.Cert) {
		t.Errorf("Look() at a broken file = %v, said %q", first, said.String())
	}
	if second := r.Look(); second == nil || strings.Count(said.String(), "level=WARN") != 1 {
		t.Errorf("Look() again = %v, said %q", second, said.String())
	}
	expect("second")
	if err := os.Remove(f.Cert); err != nil {
		t.Fatal(err)
	}
	if err := r.Look(); err == nil || strings.Count(said.String(), "level=WARN") != 2 {
		t.Errorf("Look() at an absent file = %v, said %q", err, said.String())
	}
	server(t, ca, f, "third")
	if err := r.Look(); err != nil {
		t.Errorf("Look() at good files = %v", err)
	}
	expect("third")

	// Authorities are loaded anew, too.
	replace(t, f.Clients, testcert.New(t).PEM())
	if err := r.Look(); err != nil {
		t.Fatal(err)
	}
	if _, err := served(t, config, ca, device); err == nil {
		t.Error("a device of an authority that is no longer known was let in")
	}
}

// A certificate whose key is not there yet, and a key whose certificate is not, change nothing.
func TestHalfOfAPair(t *testing.T) {
	ca := testcert.New(t)
	f, fresh := files(t), files(t)
	f.Clients = ""
	server(t, ca, f, "first")
	var said bytes.Buffer
	r, err := cert.New(f, slog.New(slog.NewTextHandler(&said, nil)))
	if err != nil {
		t.Fatal(err)
	}
	in := "first"
	for _, order := range [][2]string{{"Cert", "Key"}, {"Key", "Cert"}} {
		said.Reset()
		server(t, ca, fresh, order[0]+" first")
		rename := map[string]func() error{
			"Cert": func() error { return os.Rename(fresh.Cert, f.Cert) },
			"Key":  func() error { return os.Rename(fresh.Key, f.Key) },
		}
		if err := rename[order[0]](); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := r.Look(); err == nil || r.Leaf().Subject.CommonName != in || strings.Count(said.String(), "level=WARN") != 1 {
				t.Errorf("%s, without %s: Look() = %v, serving %q, want %q, said %q", order[0], order[1], err, r.Leaf().Subject.CommonName, in, said.String())
			}
		}
		if err := rename[order[1]](); err != nil {
			t.Fatal(err)
		}
		in = order[0] + " first"
		if err := r.Look(); err != nil || r.Leaf().Subject.CommonName != in {
			t.Errorf("with both: Look() = %v, serving %q, want %q", err, r.Leaf().Subject.CommonName, in)
		}
	}
}

// Files are replaced by others of the same size and the same time of change, as those of an image
// or of a Nix store have.
func TestOneSizeAndTime(t *testing.T) {
	ca := testcert.New(t)
	dir := t.TempDir()
	f := cert.Files{Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key")}
	link := func(name string) {
		made := cert.Files{Cert: filepath.Join(dir, name+".crt"), Key: filepath.Join(dir, name+".key")}
		server(t, ca, made, name)
		for from, to := range map[string]string{made.Cert: f.Cert, made.Key: f.Key} {
			if err := errors.Join(
				os.Truncate(from, 4096), os.Chtimes(from, time.Time{}, time.Unix(1, 0)), os.Symlink(from, to+".new"), os.Rename(to+".new", to),
			); err != nil {
				t.Fatal(err)
			}
		}
	}
	link("first")
	r, err := cert.New(f, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	link("second")
	if err := r.Look(); err != nil || r.Leaf().Subject.CommonName != "second" {
		t.Errorf("Look() = %v, serving %q, want the second", err, r.Leaf().Subject.CommonName)
	}
}

// Files that changed and could not be read, for a reason that is not their own, are loaded as soon
// as they can be.
func TestReloadLater(t *testing.T) {
	ca := testcert.New(t)
	f := files(t)
	f.Clients = ""
	server(t, ca, f, "first")
	r, err := cert.New(f, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	server(t, ca, f, "second")
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	none := limit
	none.Cur = 0
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	failed := r.Look()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(failed, unix.EMFILE) || r.Leaf().Subject.CommonName != "first" {
		t.Errorf("Look() without descriptors = %v, serving %q", failed, r.Leaf().Subject.CommonName)
	}
	if err := r.Look(); err != nil || r.Leaf().Subject.CommonName != "second" {
		t.Errorf("Look() with descriptors = %v, serving %q", err, r.Leaf().Subject.CommonName)
	}
}

// A certificate that was revoked is refused from the next look on, also for a session that is resumed. A broken list
// changes nothing.
func TestRevoked(t *testing.T) {
	ca := testcert.New(t)
	f := files(t)
	f.Revoked = filepath.Join(filepath.Dir(f.Cert), "revoked.crl")
	server(t, ca, f, "gateway")
	replace(t, f.Clients, append(testcert.New(t).PEM(), ca.PEM()...))
	replace(t, f.Revoked, ca.Revoke(t))
	r, err := cert.New(f, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	config, good, stolen := r.Config(), ca.Issue(t, testcert.Ask{Name: "good"}), ca.Issue(t, testcert.Ask{Name: "stolen"})
	session := &tls.Config{
		RootCAs: ca.Pool(), ServerName: "127.0.0.1", Certificates: []tls.Certificate{stolen}, ClientSessionCache: tls.NewLRUClientSessionCache(1),
		MaxVersion: tls.VersionTLS12,
	}
	expect := func(when string, refused bool) {
		t.Helper()
		if _, err := served(t, config, ca, good); err != nil {
			t.Errorf("%s: the good one: %v", when, err)
		}
		near, far := pair(t)
		go func() { _ = tls.Client(near, session).HandshakeContext(t.Context()) }()
		if err := tls.Server(far, config).HandshakeContext(t.Context()); errors.Is(err, cert.ErrRevoked) != refused {
			t.Errorf("%s: the stolen one: %v", when, err)
		}
		_, _ = near.Close(), far.Close()
	}
	expect("before", false)
	expect("resumed", false)
	replace(t, f.Revoked, []byte("broken"))
	if err := r.Look(); err == nil || !strings.Contains(err.Error(), f.Revoked) {
		t.Errorf("Look = %v", err)
	}
	expect("with a broken list", false)
	pemOf := func(der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der}) }
	for form, list := range map[string][]byte{"DER": ca.Revoke(t, stolen), "PEM": append(pemOf(ca.Revoke(t)), pemOf(ca.Revoke(t, stolen))...)} {
		replace(t, f.Revoked, list)
		if err := r.Look(); err != nil {
			t.Fatal(err)
		}
		expect(form, true)
		expect(form+", again", true)
	}
}

// Of TLS 1.2 only cipher suites with authenticated encryption are offered, and it can be left out.
func TestVersions(t *testing.T) {
	ca := testcert.New(t)
	f := files(t)
	server(t, ca, f, "gateway")
	f.Clients = ""
	chacha := "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"
	for _, tt := range []struct {
		least   string
		ciphers string
		client  *tls.Config
		ok      bool
	}{
		{"", chacha, &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256}}, true},
		{"", chacha, &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}}, false},
		{"", chacha, &tls.Config{}, true}, // TLS 1.3
		{"", "", &tls.Config{MaxVersion: tls.VersionTLS12}, true},
		{"1.2", "", &tls.Config{MaxVersion: tls.VersionTLS12}, true},
		{"", "", &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA}}, false},
		{"1.3", "", &tls.Config{}, true},
		{"1.3", "", &tls.Config{MaxVersion: tls.VersionTLS12}, false},
	} {
		f.MinVersion, f.Ciphers = tt.least, tt.ciphers
		r, err := cert.New(f, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		near, far := pair(t)
		go func() { _ = tls.Server(far, r.Config()).HandshakeContext(t.Context()); _ = far.Close() }()
		tt.client.RootCAs, tt.client.ServerName = ca.Pool(), "127.0.0.1"
		if err := tls.Client(near, tt.client).HandshakeContext(t.Context()); (err == nil) != tt.ok {
			t.Errorf("least version %q, client up to %d with %d suites: %v", tt.least, tt.client.MaxVersion, len(tt.client.CipherSuites), err)
		}
		_ = near.Close()
	}
}

// What was agreed on before a change can be resumed after it, but not if the authority of the
// client's certificate is gone.
func TestResumption(t *testing.T) {
	for _, gone := range []bool{false, true} {
		ca := testcert.New(t)
		f := files(t)
		server(t, ca, f, "first")
		replace(t, f.Clients, ca.PEM())
		r, err := cert.New(f, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		client := &tls.Config{
			RootCAs: ca.Pool(), ServerName: "127.0.0.1", ClientSessionCache: tls.NewLRUClientSessionCache(1),
			Certificates: []tls.Certificate{ca.Issue(t, testcert.Ask{Name: "device"})}, MaxVersion: tls.VersionTLS12,
		}
		config := r.Config()
		connect := func() (bool, error) {
			near, far := pair(t)
			ended := make(chan error, 1)
			go func() {
				err := tls.Server(far, config).HandshakeContext(t.Context())
				_ = far.Close()
				ended <- err
			}()
			c := tls.Client(near, client)
			err := c.HandshakeContext(t.Context())
			_ = near.Close()
			if serverErr := <-ended; serverErr != nil {
				err = serverErr
			}
			return c.ConnectionState().DidResume, err
		}
		if resumed, err := connect(); err != nil || resumed {
			t.Fatalf("first: resumed %v, %v", resumed, err)
		}
		server(t, ca, f, "second")
		if gone {
			replace(t, f.Clients, testcert.New(t).PEM())
		}
		if err := r.Look(); err != nil {
			t.Fatal(err)
		}
		resumed, err := connect()
		if gone && err == nil {
			t.Error("a session was resumed whose authority is gone")
		}
		if !gone && (err != nil || !resumed) {
			t.Errorf("after a change: resumed %v, %v, want that it is", resumed, err)
		}
	}
}

func TestRun(t *testing.T) {
	ca := testcert.New(t)
	f := files(t)
	server(t, ca, f, "first")
	replace(t, f.Clients, ca.PEM())
	r, err := cert.New(f, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		server(t, ca, f, "second")
		name := func() string { return r.Leaf().Subject.CommonName }
		time.Sleep(900 * time.Millisecond)
		if got := name(); got != "first" {
			t.Errorf("after 0.9 s: %q, want the first", got)
		}
		time.Sleep(200 * time.Millisecond)
		if got := name(); got != "second" {
			t.Errorf("after 1.1 s: %q, want the second", got)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run() = %v", err)
		}
	})
}

func TestDefaultLogger(t *testing.T) {
	f := files(t)
	server(t, testcert.New(t), f, "gateway")
	f.Clients = ""
	r, err := cert.New(f, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := r.GetConfigForClient(nil); err != nil || c.ClientAuth != tls.NoClientCert {
		t.Errorf("GetConfigForClient() = %v, %v", c, err)
	}
}
