package httpapi_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holter-iot/holter/httpapi"
	"github.com/holter-iot/holter/liveness"
)

// makeCertificate writes a certificate with a serial number and its key.
func makeCertificate(t *testing.T, certFile, keyFile string, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "holter"}, NotBefore: time.Unix(0, 0),
		NotAfter: time.Now().Add(1000 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, certFile, "CERTIFICATE", cert)
	writePEM(t, keyFile, "PRIVATE KEY", secret)
}

func writePEM(t *testing.T, file, kind string, content []byte) {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// touch gives a file another time of change, as if it had been written later.
func touch(t *testing.T, file string, later time.Duration) {
	t.Helper()
	if err := os.Chtimes(file, time.Time{}, time.Now().Add(later)); err != nil {
		t.Fatal(err)
	}
}

func serialOf(t *testing.T, c *httpapi.Certificates) int64 {
	t.Helper()
	pair, err := c.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	return cert.SerialNumber.Int64()
}

func TestCertificates(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	otherCert, otherKey := filepath.Join(dir, "cert2.pem"), filepath.Join(dir, "key2.pem")
	synctest.Test(t, func(t *testing.T) {
		makeCertificate(t, certFile, keyFile, 1)
		var log bytes.Buffer
		c, err := httpapi.NewCertificates(certFile, keyFile, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		want := func(what string, serial int64, logged int) {
			t.Helper()
			if got := serialOf(t, c); got != serial {
				t.Errorf("%s: certificate %d, want %d", what, got, serial)
			}
			if got := strings.Count(log.String(), "level=ERROR"); got != logged {
				t.Errorf("%s: %d errors were logged, want %d:\n%s", what, got, logged, log.String())
			}
		}
		want("at first", 1, 0)
		time.Sleep(time.Second)
		makeCertificate(t, certFile, keyFile, 2)
		touch(t, certFile, time.Hour)
		touch(t, keyFile, time.Hour)
		want("new", 2, 0)
		makeCertificate(t, certFile, keyFile, 3)
		touch(t, certFile, 2*time.Hour)
		want("within a second", 2, 0)
		time.Sleep(time.Second)
		want("a second later", 3, 0)

		makeCertificate(t, otherCert, otherKey, 4)
		rename(t, otherCert, certFile) // and its key is not there yet
		for range 3 {
			time.Sleep(time.Second)
			want("half of a pair", 3, 1)
		}
		rename(t, otherKey, keyFile)
		time.Sleep(time.Second)
		want("the other half", 4, 1)

		if err := os.WriteFile(certFile, []byte("nonsense"), 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		want("nonsense", 4, 2)
		if err := os.Remove(certFile); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			time.Sleep(time.Second)
			want("removed", 4, 3)
		}
		makeCertificate(t, certFile, keyFile, 5)
		time.Sleep(time.Second)
		want("made again", 5, 3)
	})
}

// TestCertificatesOfOneTime replaces files by others of the same size and the same time of change, as those of an image or of a Nix store have.
func TestCertificatesOfOneTime(t *testing.T) {
	dir := t.TempDir()
	made := func(name string, serial int64) (files [2]string) {
		files = [2]string{filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")}
		makeCertificate(t, files[0], files[1], serial)
		for _, file := range files {
			if err := errors.Join(os.Truncate(file, 4096), os.Chtimes(file, time.Time{}, time.Unix(1, 0))); err != nil {
				t.Fatal(err)
			}
		}
		return files
	}
	link := func(files [2]string) {
		for i, name := range []string{"cert", "key"} {
			fresh := filepath.Join(dir, "fresh")
			if err := os.Symlink(files[i], fresh); err != nil {
				t.Fatal(err)
			}
			rename(t, fresh, filepath.Join(dir, name))
		}
	}
	synctest.Test(t, func(t *testing.T) {
		link(made("first", 1))
		c, err := httpapi.NewCertificates(filepath.Join(dir, "cert"), filepath.Join(dir, "key"), nil)
		if err != nil {
			t.Fatal(err)
		}
		link(made("second", 2))
		time.Sleep(time.Second)
		if got := serialOf(t, c); got != 2 {
			t.Errorf("certificate %d, want 2", got)
		}
	})
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func TestNewCertificatesFails(t *testing.T) {
	dir := t.TempDir()
	a, ak, b, bk := filepath.Join(dir, "a"), filepath.Join(dir, "ak"), filepath.Join(dir, "b"), filepath.Join(dir, "bk")
	makeCertificate(t, a, ak, 1)
	makeCertificate(t, b, bk, 2)
	for name, tt := range map[string]struct{ cert, key, want string }{
		"missing":   {a, filepath.Join(dir, "none"), "no such file"},
		"other key": {a, bk, "private key does not match public key"},
		"swapped":   {ak, a, "certificate " + ak + " with key " + a},
	} {
		if _, err := httpapi.NewCertificates(tt.cert, tt.key, nil); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

func TestServeTLS(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	makeCertificate(t, certFile, keyFile, 1)
	c, err := httpapi.NewCertificates(certFile, keyFile, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := newStation(t, liveness.Config{}, httpapi.Config{TLS: c.TLS()})
	text, err := os.ReadFile(certFile)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	get := func(cfg *tls.Config) (*http.Response, error) {
		transport := &http.Transport{TLSClientConfig: cfg, ForceAttemptHTTP2: true}
		defer transport.CloseIdleConnections()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+s.address+"/healthz", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := (&http.Client{Transport: transport}).Do(request)
		if err == nil {
			answer.Body.Close()
		}
		return answer, err
	}
	answer, err := get(&tls.Config{RootCAs: pool})
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != 200 || answer.TLS.Version < tls.VersionTLS12 || answer.ProtoMajor != 1 {
		t.Errorf("%s %x %s", answer.Status, answer.TLS.Version, answer.Proto)
	}
	if _, err := get(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}); err == nil { // to see it refused
		t.Error("TLS 1.1 is spoken")
	}
	if status, _ := s.send(t, "GET /healthz HTTP/1.1\r\nHost: holter\r\n\r\n"); status != 400 {
		t.Errorf("plain HTTP: %d, want 400", status)
	}
	var unknown x509.UnknownAuthorityError
	if _, err := get(&tls.Config{}); !errors.As(err, &unknown) {
		t.Errorf("a stranger trusts it: %v", err)
	}
}
