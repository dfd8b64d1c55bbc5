package mqtt_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/mqtt"
	"github.com/holter-iot/holter/mqtt/packet"
)

func TestQoS1(t *testing.T) {
	b := newBroker(t, mqtt.Config{})
	c, other := connect(t, b, "c"), connect(t, b, "other", v3)
	other.publishOut(packet.Out{Topic: "a", QoS: 1, ID: 3})
	other.wants("PUBACK #3 0x00")
	c.publishOut(packet.Out{Topic: "a", QoS: 1, ID: 3})
	c.wants("PUBACK #3 0x10")
	c.subscribe("a")
	other.publishOut(packet.Out{Topic: "a", QoS: 1, ID: 4, Payload: []byte("x")})
	other.wants("PUBACK #4 0x00")
	c.wants("a=x q1 #1")
	c.ackFor(packet.TypePuback, 1)
	c.ackFor(packet.TypePuback, 1)
	c.ackFor(packet.TypePuback, 9)
	c.wants()
}

func TestQoS2(t *testing.T) {
	b := newBroker(t, mqtt.Config{})
	c, other := connect(t, b, "c"), connect(t, b, "other")
	c.subscribe("a")
	for range 2 {
		other.publishOut(packet.Out{Topic: "a", QoS: 2, ID: 3, Payload: []byte("x")})
		other.wants("PUBREC #3 0x00")
	}
	for _, code := range []string{"0x00", "0x92"} {
		other.ackFor(packet.TypePubrel, 3)
		other.wants("PUBCOMP #3 " + code)
	}
	c.wants("a=x q2 #1")
	c.ackFor(packet.TypePubrec, 1)
	c.ackFor(packet.TypePubrec, 1)
	c.wants("PUBREL #1 0x00", "PUBREL #1 0x00")
	c.ackFor(packet.TypePubcomp, 1)
	c.ackFor(packet.TypePubrec, 1)
	c.wants("PUBREL #1 0x92")
	other.publishOut(packet.Out{Topic: "a", QoS: 2, ID: 3, Payload: []byte("y")})
	c.wants("a=y q2 #2")
	c.send(packet.AppendAck(nil, c.version, packet.TypePubrec, 2, packet.UnspecifiedError))
	c.wants()
}

func TestAcknowledgementOfAnotherKind(t *testing.T) {
	for _, tt := range []struct {
		qos  uint8
		kind packet.Type
	}{{1, packet.TypePubcomp}, {2, packet.TypePuback}, {2, packet.TypePubcomp}} {
		b := newBroker(t, mqtt.Config{})
		c := connect(t, b, "c")
		c.subscribe("a")
		c.publishOut(packet.Out{Topic: "a", QoS: tt.qos, ID: 1})
		c.next()
		c.next()
		c.fails(packet.AppendAck(nil, c.version, tt.kind, 1, packet.Success), packet.ProtocolError)
	}
}

func TestResend(t *testing.T) {
	for _, v := range []packet.Version{packet.V311, packet.V5} {
		t.Run(fmt.Sprint(v), func(t *testing.T) {
			b := newBroker(t, mqtt.Config{})
			session := func(p *packet.Connect) { p.Version = v; persistent(p) }
			c, other := connect(t, b, "c", session), connect(t, b, "other")
			c.subscribe("#")
			for i, qos := range []uint8{1, 2, 2, 1} {
				other.publishOut(packet.Out{Topic: "a", QoS: qos, ID: uint16(i + 1), Payload: fmt.Append(nil, i)})
			}
			c.wants("a=0 q1 #1", "a=1 q2 #2", "a=2 q2 #3", "a=3 q1 #4")
			c.ackFor(packet.TypePubrec, 2)
			c.wants("PUBREL #2 0x00")
			c.drop()
			other.publish("a", "not kept")
			other.publishOut(packet.Out{Topic: "a", QoS: 1, ID: 9, Payload: []byte("4")})
			if b.Stats().HeldBytes == 0 {
				t.Error("nothing waits for the client")
			}
			c = connect(t, b, "c", session)
			if !c.ack.SessionPresent {
				t.Errorf("CONNACK = %+v", c.ack)
			}
			c.room = 1
			c.wants("a=0 q1 #1 dup", "PUBREL #2 0x00", "a=2 q2 #3 dup", "a=3 q1 #4 dup", "a=4 q1 #5")
			c.ackFor(packet.TypePubcomp, 2)
			c.ackFor(packet.TypePuback, 1)
			c.drop()
			c = connect(t, b, "c", session, func(p *packet.Connect) { p.ReceiveMaximum = 1 })
			if v == packet.V5 {
				c.wants("a=2 q2 #3 dup")
				c.ackFor(packet.TypePubrec, 3)
				c.wants("PUBREL #3 0x00")
				c.ackFor(packet.TypePubcomp, 3)
				c.wants("a=3 q1 #4 dup")
				c.ackFor(packet.TypePuback, 4)
				c.wants("a=4 q1 #5 dup")
			}
			c.disconnect()
			c = connect(t, b, "c")
			if c.ack.SessionPresent {
				t.Error("a clean session was resumed")
			}
			c.wants()
			if st := b.Stats(); st.Subscriptions != 0 || st.Sessions != 2 || st.Connected != 2 || st.HeldBytes != 0 {
				t.Errorf("Stats = %+v, want no subscription, 2 sessions and nothing held", st)
			}
		})
	}
}

func TestReceiveMaximum(t *testing.T) {
	b := newBroker(t, mqtt.Config{ReceiveMaximum: 2})
	c := connect(t, b, "c", func(p *packet.Connect) { p.ReceiveMaximum = 2 })
	if c.ack.ReceiveMaximum != 2 {
		t.Errorf("CONNACK = %+v", c.ack)
	}
	c.subscribe("a")
	for i := range 4 {
		c.publishOut(packet.Out{Topic: "a", QoS: 1, ID: uint16(i + 1), Payload: fmt.Append(nil, i)})
	}
	c.publish("a", "last")
	c.wants("PUBACK #1 0x00", "PUBACK #2 0x00", "PUBACK #3 0x00", "PUBACK #4 0x00", "a=0 q1 #1", "a=1 q1 #2", "a=last")
	wakes := c.wire.wakes.Load()
	c.ackFor(packet.TypePuback, 2)
	if c.wire.wakes.Load() != wakes+1 {
		t.Error("the acknowledgement did not wake the connection")
	}
	c.wants("a=2 q1 #3")
	c.ackFor(packet.TypePuback, 1)
	c.wants("a=3 q1 #4")
	for id := range uint16(2) {
		c.publishOut(packet.Out{Topic: "b", QoS: 2, ID: 10 + id})
	}
	c.fails((&packet.Out{Topic: "b", QoS: 2, ID: 12}).Append(nil, c.version), packet.ReceiveMaximumExceeded)
	old := connect(t, b, "old", v3)
	for id := range uint16(4) {
		old.publishOut(packet.Out{Topic: "b", QoS: 2, ID: 10 + id})
	}
}

func TestFullQueue(t *testing.T) {
	b := newBroker(t, mqtt.Config{MaxQueue: 3, MaxQueueBytes: 2000, MaxInflight: 1})
	c, other := connect(t, b, "c", persistent), connect(t, b, "other")
	c.subscribe("a")
	for i, want := range []string{"0x00", "0x00", "0x00", "0x97"} {
		other.publishOut(packet.Out{Topic: "a", QoS: 1, ID: uint16(i + 1), Payload: fmt.Append(nil, i)})
		other.wants(fmt.Sprintf("PUBACK #%d %s", i+1, want))
	}
	other.publish("a", "more")
	c.wants("a=0 q1 #1")
	c.drop()
	other.publishOut(packet.Out{Topic: "a", QoS: 2, ID: 9})
	other.wants("PUBREC #9 0x97")
	second := connect(t, b, "second")
	second.subscribe("a")
	other.publishOut(packet.Out{Topic: "a", QoS: 2, ID: 9})
	other.wants("PUBREC #9 0x00") // somebody got it
	if got := b.Stats().Dropped; got != 4 {
		t.Errorf("%d were dropped, want 4", got)
	}
	b = newBroker(t, mqtt.Config{MaxQueueBytes: 2000})
	c, other = connect(t, b, "c"), connect(t, b, "other")
	c.subscribe("a")
	for range 3 {
		other.publish("a", strings.Repeat("x", 800))
	}
	if got := b.Stats().Dropped; got != 1 {
		t.Errorf("%d were dropped, want 1", got)
	}
}

func TestExpiry(t *testing.T) {
	b := newBroker(t, mqtt.Config{})
	c, other := connect(t, b, "c", persistent), connect(t, b, "other")
	c.subscribe("a")
	for i, expiry := range []uint32{1, 10, 100} {
		other.publishOut(packet.Out{Topic: "a", QoS: 1, ID: 1, Payload: fmt.Append(nil, i), HasExpiry: true, Expiry: expiry})
		other.retainFor("r", expiry)
	}
	c.now = c.now.Add(2500 * time.Millisecond)
	c.wants("a=1 q1 #2 expiry8", "a=2 q1 #3 expiry98")
	c.now = c.now.Add(100 * time.Second)
	c.drop()
	now := c.now
	c = connect(t, b, "c", persistent)
	c.now = now
	c.wants("a=1 q1 #2 dup expiry1", "a=2 q1 #3 dup expiry1") // their delivery has begun
	c.subscribe("r")
	c.wants()
	if got := b.Stats().Expired; got != 1 {
		t.Errorf("%d have expired, want 1", got)
	}
}

func TestPacketTooLarge(t *testing.T) {
	b := newBroker(t, mqtt.Config{})
	c, other := connect(t, b, "c", func(p *packet.Connect) { p.MaximumPacketSize = 30 }), connect(t, b, "other")
	c.subscribe("a")
	for i, n := range []int{24, 23, 25, 21, 22} {
		other.publishOut(packet.Out{Topic: "a", QoS: uint8(i % 2), ID: 1, Payload: []byte(strings.Repeat("x", n))})
	}
	c.wants("a="+strings.Repeat("x", 24), "a="+strings.Repeat("x", 21)+" q1 #2", "a="+strings.Repeat("x", 22))
	if got := b.Stats().TooLarge; got != 2 {
		t.Errorf("%d were too large, want 2", got)
	}
}

func TestAliases(t *testing.T) {
	b := newBroker(t, mqtt.Config{TopicAliases: 2})
	c, other := connect(t, b, "c", func(p *packet.Connect) { p.TopicAliasMaximum = 2 }), connect(t, b, "other")
	c.subscribe("#")
	other.publishOut(packet.Out{Topic: "a", Alias: 2})
	other.publishOut(packet.Out{Alias: 2})
	other.publishOut(packet.Out{Topic: "b", Alias: 2})
	other.publishOut(packet.Out{Alias: 2})
	other.publish("c", "")
	other.publish("c", "")
	c.wants("a= alias1", "= alias1", "b= alias2", "= alias2", "c=", "c=")
	other.fails((&packet.Out{Topic: "a", Alias: 3}).Append(nil, packet.V5), packet.InvalidAlias)
	other.fails((&packet.Out{Alias: 1}).Append(nil, packet.V5), packet.ProtocolError)
}

func TestDenied(t *testing.T) {
	b := newBroker(t, mqtt.Config{})
	all := connect(t, b, "all")
	all.subscribe("#", "$SYS/#")
	g := user{publish: []string{"secret"}}
	for _, topic := range []string{"secret", "holter", "holter/x", "$SYS/x", strings.Repeat("x", 2000)} {
		code := "0x87"
		if len(topic) > 1000 {
			code = "0x90"
		}
		c, old := connectAs(t, b, g, "c"), connectAs(t, b, g, "old", v3)
		for _, v := range []*client{c, old} {
			v.publish(topic, "x")
			v.publishOut(packet.Out{Topic: topic, QoS: 1, ID: 1})
			v.publishOut(packet.Out{Topic: topic, QoS: 2, ID: 2})
		}
		c.wants("PUBACK #1 "+code, "PUBREC #2 "+code)
		old.wants("PUBACK #1 0x00", "PUBREC #2 0x00")
		old.ackFor(packet.TypePubrel, 2)
		old.wants("PUBCOMP #2 0x00")
	}
	all.wants()
	if got := b.Stats().Denied; got != 30 {
		t.Errorf("%d were denied, want 30", got)
	}
	b = newBroker(t, mqtt.Config{Reserved: "-"})
	c := connect(t, b, "c")
	c.subscribe("holter/x")
	c.publish("holter/x", "")
	c.wants("holter/x=")
}

// TestPacketIDs checks that no two messages in flight have the same packet id, when the ids begin
// again.
func TestPacketIDs(t *testing.T) {
	b := newBroker(t, mqtt.Config{MaxQueue: 100, MaxQueueBytes: 1 << 20})
	c, other := connect(t, b, "c", v3), connect(t, b, "other", v3)
	c.subscribe("a")
	input := (&packet.Out{Topic: "a", QoS: 1, ID: 1}).Append(nil, other.version)
	inflight := make(map[uint16]bool)
	for i := range 200_000 {
		other.send(input)
		c.in, other.in = c.in[:0], other.in[:0]
		c.pump()
		h, body, _, err := packet.Split(c.version, c.in, 1000)
		if err != nil {
			t.Fatal(err)
		}
		var p packet.Publish
		if err := p.DecodeFromServer(c.version, h, body); err != nil || p.ID == 0 || inflight[p.ID] {
			t.Fatalf("message %d has the id %d, %v", i, p.ID, err)
		}
		if inflight[p.ID] = true; i%10_007 != 0 { // some are acknowledged never
			c.ackFor(packet.TypePuback, p.ID)
			delete(inflight, p.ID)
		}
	}
}

func TestGrantEnds(t *testing.T) {
	b := newBroker(t, mqtt.Config{})
	ended := false
	c := connectAs(t, b, &passing{ended: &ended}, "c")
	c.subscribe("a")
	ended = true
	c.fails((&packet.Out{Topic: "a"}).Append(nil, packet.V5), packet.NotAuthorized)
	c.wants()
}

// passing is a grant that ends.
type passing struct {
	user

	ended *bool
}

func (p *passing) Valid() bool { return !*p.ended }
