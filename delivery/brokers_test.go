package delivery_test

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holter-iot/holter/delivery"
	"github.com/holter-iot/holter/delivery/jetstream"
	"github.com/holter-iot/holter/delivery/kafka"
)

// throughEngine appends events, stops and starts the engine in between, and wants their ids from what reads the broker.
func throughEngine(t *testing.T, name string, kind delivery.Kind, target string, read func(ctx context.Context) []string) {
	t.Helper()
	r := newRig(t, delivery.Config{Kinds: map[string]delivery.Kind{name: kind}})
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
	throughEngine(t, "nats", jetstream.Kind(delivery.NewGuard(loopback())), "nats://"+s.Addr().(*net.TCPAddr).String(), func(ctx context.Context) (ids []string) {
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
	throughEngine(t, "kafka", kafka.Kind(delivery.NewGuard(loopback())), "kafka://"+broker+"/fleet", func(ctx context.Context) (ids []string) {
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
