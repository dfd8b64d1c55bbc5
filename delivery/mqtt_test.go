package delivery_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"

	"github.com/holter-iot/holter/delivery"
	"github.com/holter-iot/holter/internal/testmqtt"
	"github.com/holter-iot/holter/liveness/cloudevent"
	"github.com/holter-iot/holter/store"
)

// Events are published to a real broker, also after it was killed.
func TestMQTT(t *testing.T) {
	broker := testmqtt.Mosquitto(t, testmqtt.Options{})
	r := newRig(t, delivery.Config{})
	r.queue(quick)
	came := make(chan mqtt.Message, 100)
	subscribe := func() {
		t.Helper()
		client := mqtt.NewClient(mqtt.NewClientOptions().AddBroker(broker.URL()).SetClientID("reader").SetAutoReconnect(false))
		for _, ask := range []func() mqtt.Token{
			client.Connect,
			func() mqtt.Token {
				return client.Subscribe("fleet/#", 1, func(_ mqtt.Client, m mqtt.Message) { came <- m })
			},
		} {
			token := ask()
			if !token.WaitTimeout(10 * time.Second) {
				t.Fatal("the broker does not answer")
			}
			if err := token.Error(); err != nil {
				t.Fatal(err)
			}
		}
		t.Cleanup(func() { client.Disconnect(100) })
	}
	want := func(topic, id string) {
		t.Helper()
		select {
		case m := <-came:
			var ev cloudevent.Event
			if err := json.Unmarshal(m.Payload(), &ev); err != nil || m.Topic() != topic || ev.ID != id || m.Qos() != 1 {
				t.Errorf("%s at %s: %v, want %s at %s", ev.ID, m.Topic(), err, id, topic)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("%s did not come; %+v", id, r.engine.Stats())
		}
	}
	subscribe()
	r.endpoint("broker", "mqtt", broker.URL(), `{"topic":"fleet/{key}/{type}","timeout_ms":2000}`)
	r.append("dev-1")
	want("fleet/dev-1/device.offline", "dev-1:1")
	r.idle()
	broker.Kill()
	r.append("dev-1")
	r.until("an attempt failed", func() bool { return r.engine.Stats().Queues[0].Retried > 0 })
	r.check(r.engine.PauseQueue(t.Context(), delivery.DefaultQueue, true))
	broker.Restart()
	subscribe()
	r.check(r.engine.PauseQueue(t.Context(), delivery.DefaultQueue, false))
	want("fleet/dev-1/device.offline", "dev-1:2")
	r.idle()
	for target, settings := range map[string]string{
		"http://x": "", "tcp://u:p@x": "", "tcp://": "", "tcp://x": `{"qos":3}`, "tcp://y": `{"topic":"a/#"}`, "tcp://z": `{"topc":"a"}`,
	} {
		if err := r.engine.PutEndpoint(t.Context(), store.Endpoint{Name: "bad", Kind: "mqtt", Target: target, Settings: json.RawMessage(settings)}); !isErr(err, delivery.ErrBad) {
			t.Errorf("%s %s: %v", target, settings, err)
		}
	}
}

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
				s := sink(t, delivery.MQTTKind(delivery.NewGuard(nil)), scheme+"://"+l.Addr().String(), "")
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				if r := s.Deliver(ctx, []delivery.Message{message("a", "{}")}); !errors.Is(r[0].Err, delivery.ErrPrivate) {
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
	s := sink(t, delivery.MQTTKind(delivery.NewGuard(loopback())), "tls://"+server.Listener.Addr().String(), `{"username":"u","password":"p"}`)
	var untrusted *tls.CertificateVerificationError
	if r := s.Deliver(t.Context(), []delivery.Message{message("a", "{}")}); !errors.As(r[0].Err, &untrusted) {
		t.Errorf("%v, want one about the certificate", r[0].Err)
	}
}
