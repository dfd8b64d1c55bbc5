package delivery_test

import (
	"context"
	"encoding/json"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holter-iot/holter/delivery"
	"github.com/holter-iot/holter/delivery/jetstream"
	"github.com/holter-iot/holter/delivery/kafka"
	"github.com/holter-iot/holter/delivery/mqttsink"
	"github.com/holter-iot/holter/delivery/sink"
	"github.com/holter-iot/holter/delivery/sink/sinktest"
	"github.com/holter-iot/holter/internal/test/testmqtt"
	"github.com/holter-iot/holter/jobs"
	"github.com/holter-iot/holter/liveness/cloudevent"
)

// throughEngine appends events, stops and starts the engine in between, and wants their ids from what reads the broker.
func throughEngine(t *testing.T, name string, kind sink.Kind, target string, read func(ctx context.Context) []string) {
	t.Helper()
	r := newRig(t, delivery.Config{Kinds: map[string]sink.Kind{name: kind}})
	r.queue(quick)
	r.endpoint("broker", name, target, `{"batch":10}`)
	r.append("dev-1", "dev-2", "dev-1")
	r.idle()
	r.append("dev-1")
	r.end()
	r.start()
	r.append("dev-2")
	r.idle()
	if p := r.engine.Stats().Endpoints[0]; p.State != "closed" || p.Failed != 0 {
		t.Errorf("the endpoint: %+v", p)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	of := make(map[string][]string)
	for _, id := range read(ctx) {
		of[id[:5]] = append(of[id[:5]], id)
	}
	if !slices.Equal(of["dev-1"], []string{"dev-1:1", "dev-1:2", "dev-1:3"}) || !slices.Equal(of["dev-2"], []string{"dev-2:1", "dev-2:2"}) {
		t.Errorf("the broker has %q", of)
	}
}

// Events arrive in a stream, once and in order.
func TestNATS(t *testing.T) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(30 * time.Second) {
		t.Fatal("the server does not start")
	}
	conn, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := natsjs.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateStream(t.Context(), natsjs.StreamConfig{Name: "FLEET", Subjects: []string{"holter.device.>"}})
	if err != nil {
		t.Fatal(err)
	}
	throughEngine(t, "nats", jetstream.Kind(sinktest.Guard()), "nats://"+s.Addr().(*net.TCPAddr).String(), func(ctx context.Context) (ids []string) {
		info, err := stream.Info(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for i := range info.State.LastSeq {
			m, err := stream.GetMsg(ctx, i+1)
			if err != nil {
				t.Fatal(err)
			}
			_, id, _ := strings.Cut(m.Header.Get(natsjs.MsgIDHeader), " ")
			ids = append(ids, id)
		}
		return ids
	})
}

// Events arrive in a topic, once and in order.
func TestKafka(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "fleet"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	broker := c.ListenAddrs()[0]
	throughEngine(t, "kafka", kafka.Kind(sinktest.Guard()), "kafka://"+broker+"/fleet", func(ctx context.Context) (ids []string) {
		client, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.ConsumeTopics("fleet"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		for len(ids) < 5 {
			fetches := client.PollFetches(ctx)
			if err := fetches.Err(); err != nil {
				t.Fatal(err)
			}
			fetches.EachRecord(func(r *kgo.Record) {
				for _, h := range r.Headers {
					if h.Key == "message-id" {
						ids = append(ids, string(h.Value))
					}
				}
			})
		}
		return ids
	})
}

// Events are published to a real broker, also after it was killed.
func TestMQTT(t *testing.T) {
	broker := testmqtt.Mosquitto(t, testmqtt.Options{})
	r := newRig(t, delivery.Config{Kinds: map[string]sink.Kind{"mqtt": mqttsink.Kind(sinktest.Guard())}})
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
	r.check(r.engine.PauseQueue(t.Context(), jobs.DefaultQueue, true))
	broker.Restart()
	subscribe()
	r.check(r.engine.PauseQueue(t.Context(), jobs.DefaultQueue, false))
	want("fleet/dev-1/device.offline", "dev-1:2")
	r.idle()
	for target, settings := range map[string]string{
		"http://x": "", "tcp://u:p@x": "", "tcp://": "", "tcp://x": `{"qos":3}`, "tcp://y": `{"topic":"a/#"}`, "tcp://z": `{"topc":"a"}`,
	} {
		if err := r.engine.PutEndpoint(t.Context(), jobs.Endpoint{Name: "bad", Kind: "mqtt", Target: target, Settings: json.RawMessage(settings)}); !isErr(err, jobs.ErrBad) {
			t.Errorf("%s %s: %v", target, settings, err)
		}
	}
}
