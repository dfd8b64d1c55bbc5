package mqttbridge

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
	"github.com/holter-iot/holter/mqttbridge/convention"
)

// BenchmarkReceive is the way of a message from the client's handler to the device's timer, with 100,000 devices: a recorded stream in
// random order. One operation is one message.
func BenchmarkReceive(b *testing.B) {
	const devices = 100_000
	specs := map[string]convention.Spec{
		"topic": {Name: "topic", Rules: []convention.Rule{{Topic: "tele/{device}/STATE"}}},
		"text": {Name: "text", Rules: []convention.Rule{{
			Topic: "tele/{device}/STATE", Cases: []convention.Case{{Text: new("Online"), Means: convention.Online}, {Text: new("Offline"), Means: convention.Offline}},
			Else: convention.Beat,
		}}},
		"json": {Name: "json", Rules: []convention.Rule{{
			Topic: "tele/{device}/STATE", Cases: []convention.Case{{JSON: "/state", Equals: []any{"online"}, Means: convention.Beat}},
		}}},
	}
	for name, spec := range specs {
		b.Run("convention="+name, func(b *testing.B) {
			c, err := convention.New(spec)
			if err != nil {
				b.Fatal(err)
			}
			bridge, stop := benchBridge(b, c)
			defer stop()
			stream := make([]convention.Message, devices)
			for i, n := range rand.New(rand.NewPCG(1, 2)).Perm(devices) {
				stream[i] = convention.Message{Topic: fmt.Sprintf("tele/plug-%06d/STATE", n), Payload: []byte(`{"state":"online","uptime":12345}`)}
			}
			conn := new(link)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				m := stream[i%devices]
				m.Time = time.Now()
				bridge.receive(conn, m)
				for waiting := 1024; i%1024 == 0 && waiting >= 1024; waiting, _ = bridge.queue.depth() {
					runtime.Gosched() // the worker has its turn, as it has while a client reads
				}
			}
			for waiting := 1; waiting > 0; waiting, _ = bridge.queue.depth() {
				runtime.Gosched()
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
			if v := bridge.View(); v.Dropped > 0 || v.Beats+1024 < uint64(b.N) {
				b.Errorf("View = %+v", v)
			}
		})
	}
}

// benchBridge returns a bridge that applies what it receives, and what ends it.
func benchBridge(b *testing.B, c convention.Convention) (bridge *Bridge, stop func()) {
	b.Helper()
	log, err := eventlog.New(0)
	if err != nil {
		b.Fatal(err)
	}
	registry, err := liveness.New(log, liveness.Config{})
	if err != nil {
		b.Fatal(err)
	}
	if bridge, err = New(registry, Config{URL: "tcp://broker", Conventions: []convention.Convention{c}}); err != nil {
		b.Fatal(err)
	}
	bridge.clock.main.source.Pulse(time.Now())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{}, 2)
	go func() { bridge.work(ctx); done <- struct{}{} }()
	go func() { _ = registry.Run(ctx); done <- struct{}{} }()
	return bridge, func() {
		cancel()
		<-done
		<-done
	}
}
