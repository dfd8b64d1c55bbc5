package selfsigned_test

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"testing"

	"github.com/holter-iot/holter/bench/internal/selfsigned"
)

func TestWrite(t *testing.T) {
	cert, key, err := selfsigned.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "127.0.0.1"}); err != nil {
		t.Errorf("the certificate is not good for 127.0.0.1: %v", err)
	}
}
