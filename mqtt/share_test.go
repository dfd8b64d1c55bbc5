package mqtt_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/holter-iot/holter/mqtt"
	"github.com/holter-iot/holter/mqtt/packet"
)

func TestShare(t *testing.T) {
	b := newBroker(t, mqtt.Config{})
	publisher := connect(t, b, "publisher")
	var members []*client
	for i := range 3 {
		c := connect(t, b, strconv.Itoa(i))
		c.subscribeTo(packet.Filter{Topic: []byte("$share/g/a/+"), QoS: 1}, uint32(i+1))
		members = append(members, c)
	}
	members[0].subscribe("$share/h/a/#", "a/b")
	for i := range 3 {
		publisher.publish("a/b", strconv.Itoa(i))
	}
	members[0].wants("a/b=0", "a/b=0", "a/b=1", "a/b=1", "a/b=2", "a/b=2", "a/b=2 s1")
}

func TestShareTurns(t *testing.T) {
	b := newBroker(t, mqtt.Config{MaxQueue: 2})
	publisher := connect(t, b, "publisher")
	publish := func(n int, want string) {
		t.Helper()
		publisher.publishOut(packet.Out{Topic: "a", QoS: 1, ID: 1, Payload: fmt.Append(nil, n)})
		publisher.wants("PUBACK #1 " + want)
	}
	a, away := connect(t, b, "a"), connect(t, b, "away", persistent)
	a.subscribe("$share/g/+")
	away.subscribe("$share/g/+")
	away.drop()
	for i := range 4 { // two for the one that is connected, two for the other
		publish(i, "0x00")
	}
	publish(4, "0x97")
	if got := b.Stats().Dropped; got != 1 {
		t.Errorf("%d were dropped, want 1", got)
	}
	a.wants("a=0 q1 #1", "a=1 q1 #2")
	a.ackFor(packet.TypePuback, 1)
	away = connect(t, b, "away", persistent)
	away.wants("a=2 q1 #1", "a=3 q1 #2")
	away.ackFor(packet.TypePuback, 1)
	a.drop() // what it has not acknowledged goes to the other one
	away.wants("a=1 q1 #3")
	away.drop()
	publisher.publish("a", "nobody is there")
	away = connect(t, b, "away", persistent)
	away.wants("a=3 q1 #2 dup", "a=1 q1 #3 dup")
	away.send(packet.AppendUnsubscribe(nil, away.version, 1, []byte("$share/g/+")))
	away.wants("UNSUBACK #1 0x00")
	publish(5, "0x10")
	away.disconnect()
}

func TestShareExactlyOnce(t *testing.T) {
	b := newBroker(t, mqtt.Config{})
	a, other := connect(t, b, "a", func(p *packet.Connect) { p.ReceiveMaximum = 2 }), connect(t, b, "other")
	a.subscribe("$share/g/a", "$share/g/a")
	for i := range uint16(3) {
		other.publishOut(packet.Out{Topic: "a", QoS: 2, ID: i + 1, Payload: fmt.Append(nil, i)})
	}
	other.wants("PUBREC #1 0x00", "PUBREC #2 0x00", "PUBREC #3 0x00")
	a.wants("a=0 q2 #1", "a=1 q2 #2")
	a.ackFor(packet.TypePubrec, 1) // it has the first, and perhaps the second
	other.subscribe("$share/g/a")
	a.drop()
	other.wants("a=2 q2 #1")
}
