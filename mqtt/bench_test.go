package mqtt_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/holter-iot/holter/mqtt"
	"github.com/holter-iot/holter/mqtt/packet"
)

// BenchmarkPublish measures a message with QoS 0 of 64 bytes, from the publisher's packet to those
// of its receivers.
func BenchmarkPublish(b *testing.B) {
	for _, v := range []packet.Version{packet.V311, packet.V5} {
		for _, n := range []int{0, 1, 10_000} {
			b.Run(fmt.Sprintf("v=%d/receivers=%d", v, n), func(b *testing.B) {
				version := func(p *packet.Connect) { p.Version = v }
				broker := newBroker(b, mqtt.Config{})
				publisher := connect(b, broker, "publisher", version)
				receivers := make([]*client, n)
				for i := range receivers {
					receivers[i] = connect(b, broker, strconv.Itoa(i), version)
					receivers[i].subscribe("site/+/device/+")
				}
				input := (&packet.Out{Topic: "site/12/device/345", Payload: make([]byte, 64)}).Append(nil, v)
				h, body, _, _ := packet.Split(v, input, 1000)
				out := make([]byte, 0, 1000)
				now := time.Now()
				b.ReportAllocs()
				for b.Loop() {
					_, _ = publisher.conn.Handle(out, h, body, now)
					for publisher.conn.Continue() {
					}
					for _, r := range receivers {
						if got, _ := r.conn.Pump(out, 1000, now); len(got) == 0 {
							b.Fatal("nothing came")
						}
					}
				}
				if n > 1 {
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/receiver")
				}
			})
		}
	}
}

// BenchmarkPublishQoS measures a message with QoS 1 and 2 to one receiver, with its
// acknowledgements.
func BenchmarkPublishQoS(b *testing.B) {
	for qos := uint8(1); qos <= 2; qos++ {
		b.Run(fmt.Sprintf("qos=%d", qos), func(b *testing.B) {
			broker := newBroker(b, mqtt.Config{})
			publisher, receiver := connect(b, broker, "publisher", v3), connect(b, broker, "receiver", v3)
			receiver.subscribe("a/b/c")
			input := (&packet.Out{Topic: "a/b/c", Payload: make([]byte, 64), QoS: qos, ID: 7}).Append(nil, packet.V311)
			if qos == 2 {
				input = packet.AppendAck(input, packet.V311, packet.TypePubrel, 7, packet.Success)
			}
			answer := make([]byte, 0, 100)
			id := uint16(0)
			b.ReportAllocs()
			for b.Loop() {
				publisher.in, receiver.in = publisher.in[:0], receiver.in[:0]
				publisher.send(input)
				receiver.pump()
				if id++; id == 0 {
					id = 1
				}
				if qos == 1 {
					receiver.send(packet.AppendAck(answer, packet.V311, packet.TypePuback, id, packet.Success))
				} else {
					answer := packet.AppendAck(answer, packet.V311, packet.TypePubrec, id, packet.Success)
					receiver.send(packet.AppendAck(answer, packet.V311, packet.TypePubcomp, id, packet.Success))
				}
			}
		})
	}
}

// BenchmarkMatch measures a publish among 100,000 subscriptions of which one matches, and is full.
func BenchmarkMatch(b *testing.B) {
	for _, filter := range []string{"site/%d/device/%d", "site/%d/+/%d", "site/%d/device/%d/#"} {
		b.Run("filter="+filter[len("site/%d/"):], func(b *testing.B) {
			broker := newBroker(b, mqtt.Config{})
			for i := range 1000 {
				c := connect(b, broker, strconv.Itoa(i), func(p *packet.Connect) { p.SessionExpiry = 1000 })
				for j := range 100 {
					c.subscribeTo(packet.Filter{Topic: fmt.Appendf(nil, filter, j, i)}, 0)
				}
				c.drop()
			}
			publisher := connect(b, broker, "publisher", v3)
			input := (&packet.Out{Topic: "site/12/device/345", Payload: make([]byte, 64)}).Append(nil, packet.V311)
			h, body, _, _ := packet.Split(packet.V311, input, 1000)
			now := time.Now()
			b.ReportAllocs()
			for b.Loop() {
				_, _ = publisher.conn.Handle(nil, h, body, now)
			}
		})
	}
}

// BenchmarkIdle measures the memory of a client that does nothing.
func BenchmarkIdle(b *testing.B) {
	const n = 200_000
	for b.Loop() {
		broker := newBroker(b, mqtt.Config{})
		conns := make([]*mqtt.Conn, n)
		w := &wire{}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range n {
			id := fmt.Appendf(nil, "device-%06d", i)
			conns[i], _, _ = broker.Connect(&packet.Connect{Version: packet.V311, Clean: true, ClientID: id}, string(id), user{}, w, time.Time{})
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "B/client")
		runtime.KeepAlive(conns)
		runtime.KeepAlive(broker)
	}
}

// BenchmarkStored measures a message with QoS 1 to a client whose session is stored, by a store
// that does nothing.
func BenchmarkStored(b *testing.B) {
	broker := newBroker(b, mqtt.Config{Store: nothing{}})
	publisher, receiver := connect(b, broker, "publisher", v3), connect(b, broker, "receiver", persistent)
	receiver.send(packet.AppendSubscribe(nil, receiver.version, 1, 0, packet.Filter{Topic: []byte("a/b/c"), QoS: 1}))
	input := (&packet.Out{Topic: "a/b/c", Payload: make([]byte, 64), QoS: 1, ID: 7}).Append(nil, packet.V311)
	id := uint16(0)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		publisher.in, receiver.in = publisher.in[:0], receiver.in[:0]
		publisher.send(input)
		receiver.pump()
		if id++; id == 0 {
			id = 1
		}
		receiver.send(packet.AppendAck(nil, packet.V5, packet.TypePuback, id, packet.Success))
		if n%100 == 99 {
			broker.Commit(b.Context())
			publisher.pump()
		}
	}
}

// nothing is a store that keeps nothing.
type nothing struct{}

func (nothing) Load(context.Context, func(mqtt.Change) error) error { return nil }
func (nothing) Commit(context.Context, []mqtt.Change) error         { return nil }
