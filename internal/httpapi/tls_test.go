package httpapi_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"testing"

	"github.com/holter-iot/holter/internal/httpapi"
	"github.com/holter-iot/holter/internal/test/testcert"
	"github.com/holter-iot/holter/liveness"
)

func TestServeTLS(t *testing.T) {
	t.Parallel()
	ca := testcert.New(t)
	certificates := []tls.Certificate{ca.Issue(t, testcert.Ask{Name: "holter"})}
	s := newStation(t, liveness.Config{}, httpapi.Config{TLS: &tls.Config{Certificates: certificates}})
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
	answer, err := get(&tls.Config{RootCAs: ca.Pool()})
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != 200 || answer.TLS.Version < tls.VersionTLS12 || answer.ProtoMajor != 1 {
		t.Errorf("%s %x %s", answer.Status, answer.TLS.Version, answer.Proto)
	}
	if _, err := get(&tls.Config{RootCAs: ca.Pool(), MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}); err == nil { // to see it refused
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
