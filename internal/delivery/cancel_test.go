package delivery_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"

	"github.com/holter-iot/holter/internal/delivery/command"
	"github.com/holter-iot/holter/internal/delivery/mqttsink"
	"github.com/holter-iot/holter/internal/delivery/sink"
	"github.com/holter-iot/holter/internal/delivery/sink/sinktest"
	"github.com/holter-iot/holter/internal/delivery/webhook"
)

// A delivery that we end ourselves says so, whatever was going on: nothing can be told of the receiver.
func TestCancelled(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	webhooks := webhook.New(sinktest.Guard(), "holter/test")
	defer webhooks.Close()
	address := l.Addr().String()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	broker := mqttsink.Kind(sinktest.Guard())
	for _, c := range []struct {
		name             string
		kind             sink.Kind
		target, settings string
	}{
		{"webhook", webhooks.Kind, "http://" + address, ""},
		{"webhook over TLS", webhooks.Kind, "https://" + address, ""},
		{"mqtt", broker, "tcp://" + address, ""},
		{"mqtt over TLS", broker, "tls://" + address, ""},
		{"command", command.Kind(true), "bash", `{"args":["-c","exec 3<>/dev/tcp/` + host + "/" + port + `; sleep 100"]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sinktest.New(t, c.kind, c.target, c.settings)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var delivering sync.WaitGroup
			for _, when := range []string{"in the middle", "before"} {
				delivering.Go(func() {
					if r := s.Deliver(ctx, []sink.Message{sinktest.Message("a", "{}")}); !errors.Is(r[0].Err, context.Canceled) || r[0].Permanent {
						t.Errorf("%s: %+v, want context.Canceled", when, r[0])
					}
				})
				if when == "in the middle" {
					conn, err := l.Accept()
					if err != nil {
						t.Fatal(err)
					}
					defer conn.Close()
				}
				cancel()
				delivering.Wait()
			}
		})
	}
}
