package mqtt_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/holter-iot/holter/mqtt"
	"github.com/holter-iot/holter/mqtt/packet"
)

// FuzzHandle hands anything to a broker with tight bounds, from two clients, and checks that
// nothing is left when they have ended.
func FuzzHandle(f *testing.F) {
	var all []byte
	for _, input := range [][]byte{
		packet.AppendSubscribe(nil, packet.V5, 1, 7, packet.Filter{Topic: []byte("a/+"), QoS: 2}, packet.Filter{Topic: []byte("$share/g/#"), QoS: 1}),
		(&packet.Out{Topic: "a/b", QoS: 2, ID: 1, Payload: []byte("x"), Retain: true}).Append(nil, packet.V5),
		(&packet.Out{Topic: "a/b", QoS: 1, ID: 2, Alias: 1}).Append(nil, packet.V5),
		packet.AppendAck(nil, packet.V5, packet.TypePubrec, 1, packet.Success),
		packet.AppendAck(nil, packet.V5, packet.TypePubcomp, 1, packet.Success),
		packet.AppendAck(nil, packet.V5, packet.TypePuback, 2, packet.Success),
		packet.AppendAck(nil, packet.V5, packet.TypePubrel, 1, packet.Success),
		packet.AppendUnsubscribe(nil, packet.V5, 3, []byte("a/+")),
	} {
		f.Add(input, true)
		all = append(all, input...)
	}
	f.Add(all, false)
	f.Fuzz(func(t *testing.T, input []byte, v5 bool) {
		b := newBroker(t, mqtt.Config{MaxQueue: 5, MaxQueueBytes: 1 << 10, MaxSubscriptions: 3, MaxRetained: 3, Logger: slog.New(slog.DiscardHandler)})
		version := func(p *packet.Connect) {
			p.Version = packet.V311
			if v5 {
				p.Version = packet.V5
			}
		}
		clients := []*client{connect(t, b, "0", version), connect(t, b, "1", version)}
		for i := 0; len(input) > 0; i++ {
			c := clients[i%2]
			h, body, n, err := packet.Split(c.version, input, 1000)
			if err != nil || n == 0 {
				break
			}
			if c.in, err = c.conn.Handle(c.in, h, body, c.now); err != nil {
				c.drop()
			}
			c.room = 100
			for c.next() != "" { // each packet can be read
				continue
			}
			input = input[n:]
		}
		for _, c := range clients {
			c.drop()
			c.drop()
		}
		if st := b.Stats(); st.Sessions != 0 || st.Connected != 0 || st.Subscriptions != 0 || st.HeldBytes != 0 || st.Retained > 3 {
			t.Errorf("Stats = %+v, want nothing left", st)
		}
	})
}

// FuzzRecord opens a broker on a store with any record.
func FuzzRecord(f *testing.F) {
	store := newMemory()
	b := newBroker(f, mqtt.Config{Store: store})
	c, other := connect(f, b, "c", persistent), connect(f, b, "other")
	c.send(packet.AppendSubscribe(nil, c.version, 1, 1, packet.Filter{Topic: []byte("a"), QoS: 2}))
	other.publishOut(packet.Out{Topic: "a", QoS: 1, ID: 1, Payload: []byte("x"), Retain: true})
	c.publishOut(packet.Out{Topic: "x", QoS: 2, ID: 9})
	connect(f, b, "w", persistent, withWill(10)).drop()
	b.Commit(f.Context())
	for _, r := range store.sorted() {
		f.Add(uint8(r.Kind), r.Key, r.Value)
	}
	f.Fuzz(func(t *testing.T, kind uint8, key, value []byte) {
		if value == nil {
			return
		}
		copied := store.without(mqtt.Change{})
		if err := copied.Commit(t.Context(), []mqtt.Change{{Kind: mqtt.Kind(kind), Key: key, Value: value}}); err != nil {
			t.Fatal(err)
		}
		b := openBroker(t, mqtt.Config{Store: copied, Logger: slog.New(slog.DiscardHandler)})
		if c, err := tryConnect(t, b, user{}, "c", persistent); err == nil {
			c.pump()
			c.disconnect()
		}
		if c, err := tryConnect(t, b, user{}, "w"); err == nil {
			c.disconnect()
		}
		for topic := range b.Retained("#") {
			if strings.HasPrefix(topic, "$") {
				t.Errorf("# matches %q", topic)
			}
		}
		b.Commit(t.Context())
	})
}
