package route_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/holter-iot/holter/internal/cluster/route"
	"github.com/holter-iot/holter/internal/test/testenv"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/mqtt"
	"github.com/holter-iot/holter/mqtt/packet"
)

// retainedOf returns what a broker retains.
func retainedOf(b *mqtt.Broker) map[string]string {
	all := make(map[string]string)
	for topic, payload := range b.Retained("#") {
		all[topic] = string(payload)
	}
	return all
}

// same waits until brokers retain this, all of them.
func same(t *testing.T, want map[string]string, brokers ...*mqtt.Broker) {
	t.Helper()
	for _, b := range brokers {
		testwait.Until(t, fmt.Sprintf("the broker retains %v", want), func() bool { return maps.Equal(retainedOf(b), want) },
			func() string { return fmt.Sprint(retainedOf(b)) })
	}
}

// What is retained anywhere is retained everywhere, also by spokes that come later or come back, and
// what is no longer is not.
func TestRetained(t *testing.T) {
	p := startPair(t)
	all := []*mqtt.Broker{p.hub.broker, p.one.broker, p.two.broker}
	a, b, c := connect(t, p.one.broker, "a"), connect(t, p.two.broker, "b"), connect(t, p.hub.broker, "c")
	a.retain("of/a", "1")
	b.retain("of/b", "1")
	c.retain("of/c", "1")
	a.publishOut(packet.Out{Topic: "zero", Payload: []byte("0"), Retain: true})
	same(t, map[string]string{"of/a": "1", "of/b": "1", "of/c": "1", "zero": "0"}, all...)
	connect(t, p.two.broker, "late").subscribe("of/a").wants("of/a=1 q1 retain")

	p.two.lead("127.0.0.1:1")
	p.two.cut()
	testwait.Until(t, "the spoke has no hub", func() bool { return !p.two.joined() })
	watching := connect(t, p.two.broker, "watching").subscribe("of/a", "of/b", "of/c")
	watching.wants("of/a=1 q1 retain", "of/b=1 q1 retain", "of/c=1 q1 retain")
	a.retain("of/a", "2")
	c.retain("of/c", "")
	c.retain("new", "1")
	b.retain("of/b", "2")
	b.retain("own", "1")
	watching.wants("of/b=2 q1")
	p.two.lead(p.hub.address)
	same(t, map[string]string{"of/a": "2", "of/b": "2", "own": "1", "new": "1", "zero": "0"}, all...)
	testwait.Until(t, "the subscriber knows", func() bool {
		watching.read()
		return slices.Contains(watching.got, "of/a=2 q1") && slices.Contains(watching.got, "of/c= q1")
	}, func() string { return fmt.Sprint(watching.got) })

	third := startSpoke(t, p.hub.address, "three", mqtt.Config{})
	same(t, map[string]string{"of/a": "2", "of/b": "2", "own": "1", "new": "1", "zero": "0"}, third.broker)
	for _, topic := range []string{"of/a", "of/b", "own", "new", "zero"} {
		connect(t, third.broker, "d").retain(topic, "")
	}
	same(t, map[string]string{}, append(all, third.broker)...)
}

// Clients at several brokers write the same topics at once, while connections break: at the end all
// brokers retain the same.
func TestRetainedConverges(t *testing.T) {
	p := startPair(t)
	writers := []*client{connect(t, p.one.broker, "a"), connect(t, p.two.broker, "b"), connect(t, p.hub.broker, "c")}
	rounds := 210 // of which some are after each of the cuts
	if testenv.Checks() {
		rounds = 600
	}
	for i := range rounds {
		for _, w := range writers {
			w.publishOut(packet.Out{Topic: fmt.Sprint("t/", i%7), Payload: fmt.Append(nil, i), QoS: uint8(i % 2), Retain: true})
			w.read()
		}
		switch {
		case i%20 == 19:
			testwait.Until(t, "these are acknowledged", func() bool {
				n := 0
				for _, w := range writers {
					w.read()
					n += len(w.got)
				}
				return n == 3*(i+1)/2
			})
		case i%97 == 0:
			p.one.cut()
		case i%101 == 0:
			p.two.cut()
		}
	}
	testwait.Until(t, "all retain the same", func() bool {
		want := retainedOf(p.hub.broker)
		return len(want) == 7 && maps.Equal(want, retainedOf(p.one.broker)) && maps.Equal(want, retainedOf(p.two.broker))
	}, func() string {
		return fmt.Sprint(retainedOf(p.hub.broker), retainedOf(p.one.broker), retainedOf(p.two.broker))
	})
}

// What the hub has no room for is not retained at the spoke either.
func TestRetainedRefused(t *testing.T) {
	h := startHub(t, mqtt.Config{MaxRetained: 1}, route.Config{})
	s := startSpoke(t, h.address, "one", mqtt.Config{})
	a := connect(t, s.broker, "a")
	a.retain("first", "1")
	a.retain("second", "1")
	a.wants("PUBACK 1", "PUBACK 2")
	same(t, map[string]string{"first": "1"}, h.broker, s.broker)
}

// A copy is made in pieces.
func TestManyRetained(t *testing.T) {
	h := startHub(t, mqtt.Config{}, route.Config{})
	want := make(map[string]string)
	c := connect(t, h.broker, "c")
	for i := range 5000 {
		topic := fmt.Sprint("many/", i)
		c.retain(topic, strconv.Itoa(i))
		want[topic] = strconv.Itoa(i)
	}
	for i := range 3000 {
		topic := fmt.Sprint("many/", i)
		c.retain(topic, "")
		delete(want, topic)
	}
	same(t, want, startSpoke(t, h.address, "one", mqtt.Config{}).broker)
}
