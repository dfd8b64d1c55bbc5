package mqttsink_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/delivery/mqttsink"
	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/delivery/sink/sinktest"
)

func TestMain(m *testing.M) { sinktest.Main(m) }

// A private broker is refused, as all private addresses are, and no proxy of the environment is asked instead.
func TestMQTTPrivate(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, proxy := range []string{"", "http://proxy.invalid:3128", "socks5://" + l.Addr().String()} {
		for _, scheme := range []string{"tcp", "mqtt", "tls", "ssl", "mqtts"} {
			t.Run(scheme+" "+proxy, func(t *testing.T) {
				t.Setenv("all_proxy", proxy)
				s := sinktest.New(t, mqttsink.Kind(sink.NewGuard(nil)), scheme+"://"+l.Addr().String(), "")
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				if r := s.Deliver(ctx, []sink.Message{sinktest.Message("a", "{}")}); !errors.Is(r[0].Err, sink.ErrPrivate) {
					t.Errorf("%v, want ErrPrivate", r[0].Err)
				}
			})
		}
	}
}

// A broker whose certificate nobody trusts gets no password.
func TestMQTTCertificate(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	s := sinktest.New(t, mqttsink.Kind(sinktest.Guard()), "tls://"+server.Listener.Addr().String(), `{"username":"u","password":"p"}`)
	var untrusted *tls.CertificateVerificationError
	if r := s.Deliver(t.Context(), []sink.Message{sinktest.Message("a", "{}")}); !errors.As(r[0].Err, &untrusted) {
		t.Errorf("%v, want one about the certificate", r[0].Err)
	}
}
