package mqttreport_test

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"testing"

	"github.com/holter-iot/holter/internal/test/testmqtt"
)

// testTLS trusts the broker of a test.
func testTLS(t *testing.T, files testmqtt.Files) *tls.Config {
	t.Helper()
	ca, err := os.ReadFile(files.CA)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return &tls.Config{RootCAs: pool}
}
