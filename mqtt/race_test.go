package mqtt_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"

	"github.com/holter-iot/holter/mqtt"
	"github.com/holter-iot/holter/mqtt/packet"
)

// TestManyAtOnce has many goroutines publish, subscribe, come, go and take sessions over.
func TestManyAtOnce(t *testing.T) {
	b := newBroker(t, mqtt.Config{MaxQueue: 20, MaxInflight: 3, MaxSessions: 3, MaxHeldBytes: 1 << 20})
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { _ = b.Run(ctx) })
	var clients sync.WaitGroup
	for i := range 8 {
		clients.Go(func() { randomClient(t, b, rand.New(rand.NewPCG(uint64(i), 2))) })
	}
	clients.Wait()
	cancel()
	group.Wait()
	for i := range 4 {
		connect(t, b, strconv.Itoa(i)).drop()
	}
	if st := b.Stats(); st.Connected != 0 || st.Sessions != 0 || st.Subscriptions != 0 || st.HeldBytes != 0 {
		t.Errorf("Stats = %+v, want nothing left", st)
	}
}

func randomClient(t *testing.T, b *mqtt.Broker, random *rand.Rand) {
	t.Helper()
	for range 60 {
		c, err := tryConnect(t, b, user{}, strconv.Itoa(random.IntN(4)), func(p *packet.Connect) {
			if random.IntN(2) == 0 {
				persistent(p)
			}
			if random.IntN(2) == 0 {
				withWill(uint32(random.IntN(2)))(p)
			}
		})
		if err != nil {
			t.Error(err)
			return
		}
		for range 30 {
			if c.handle(randomPacket(random, c.version)) != nil {
				break
			}
			c.room = 1 + random.IntN(300)
			if c.in, _ = c.conn.Pump(c.in, c.room, c.now); random.IntN(3) == 0 {
				c.in = nil
			}
		}
		_ = b.Stats()
		if random.IntN(2) == 0 {
			c.drop()
		} else {
			c.disconnect()
		}
	}
}

func randomPacket(random *rand.Rand, v packet.Version) []byte {
	filter := []byte(anyOf(random, "a", "b", "+"))
	if random.IntN(4) == 0 {
		filter = append([]byte("$share/g/"), filter...)
	}
	id := uint16(1 + random.IntN(10))
	switch random.IntN(8) {
	case 0, 1:
		return packet.AppendSubscribe(nil, v, id, uint32(random.IntN(3)), packet.Filter{Topic: filter, QoS: uint8(random.IntN(3))})
	case 2:
		return packet.AppendUnsubscribe(nil, v, id, filter)
	case 3:
		return packet.AppendAck(nil, v, packet.TypePuback, id, packet.Success)
	case 4:
		return packet.AppendAck(nil, v, packet.TypePubrec, id, packet.Success)
	case 5:
		return packet.AppendAck(nil, v, packet.TypePubrel, id, packet.Success)
	}
	o := packet.Out{Topic: anyOf(random, "a", "b"), Payload: make([]byte, random.IntN(600)), QoS: uint8(random.IntN(3)), ID: id, Retain: random.IntN(4) == 0}
	return o.Append(nil, v)
}
