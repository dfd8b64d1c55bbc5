package route_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/internal/cluster/route"
	"github.com/holter-iot/holter/internal/test/testwait"
	"github.com/holter-iot/holter/mqtt"
	"github.com/holter-iot/holter/mqtt/packet"
)

// What is published anywhere reaches the subscribers everywhere, once, with its QoS, in order.
func TestEverywhere(t *testing.T) {
	p := startPair(t)
	subscribers := make(map[string]*client)
	publishers := make(map[string]*client)
	for name, b := range p.brokers() {
		subscribers[name] = connect(t, b, "sub-"+name).subscribe("t/+/x")
		publishers[name] = connect(t, b, "pub-"+name)
	}
	for _, from := range publishers {
		for _, to := range subscribers {
			reach(from, to, "t/reach/x")
		}
	}
	for _, to := range subscribers {
		to.ignored = "t/reach/"
		to.wants()
	}
	for name, from := range publishers {
		t.Run("from "+name, func(t *testing.T) {
			var want []string
			for i := range 30 {
				topic := fmt.Sprintf("t/%s/x", name)
				from.publish(topic, strconv.Itoa(i), uint8(i%3))
				want = append(want, fmt.Sprintf("%s=%d q%d", topic, i, i%3))
				from.publish("t/other", "not wanted", 0)
			}
			for _, to := range subscribers {
				to.wants(want...)
			}
			testwait.Until(t, "all are acknowledged", func() bool {
				from.read()
				return len(from.got) == 20
			})
			from.got = nil
		})
	}
}

// What nobody elsewhere wants stays at the hub, and comes again once somebody does.
func TestUnsubscribed(t *testing.T) {
	p := startPair(t)
	from, to, other := connect(t, p.one.broker, "from"), connect(t, p.two.broker, "to"), connect(t, p.two.broker, "other")
	to.subscribe("a", "marks")
	other.subscribe("a")
	reach(from, to, "a")
	to.unsubscribe("a")
	other.unsubscribe("a")
	reach(from, to, "marks")
	before := p.hub.Stats().Sent
	for range 100 {
		from.publish("a", "x", 1)
	}
	settle(from, to, "marks")
	if got := p.hub.Stats().Sent - before; got != 1 {
		t.Errorf("%d messages were sent to the spokes, want 1", got)
	}
	to.subscribe("a")
	reach(from, to, "a")
}

// The properties of a message, and what is left of its expiry, go with it.
func TestProperties(t *testing.T) {
	p := startPair(t)
	from, to := connect(t, p.one.broker, "from"), connect(t, p.two.broker, "to").subscribe("a")
	reach(from, to, "a")
	properties := []byte{0x26, 0, 1, 'k', 0, 1, 'v', 0x03, 0, 4, 't', 'e', 'x', 't'} // a user property, and the content type
	out := packet.Out{Topic: "a", Payload: []byte("x"), QoS: 1, Properties: properties, HasExpiry: true, Expiry: 1000}
	from.publishOut(out)
	var h packet.Header
	var body []byte
	testwait.Until(t, "the message", func() bool {
		from.read()
		to.in, _ = to.conn.Pump(to.in, 1<<20, time.Now())
		var err error
		if h, body, _, err = packet.Split(packet.V5, to.in, packet.MaxSize); err != nil {
			t.Fatal(err)
		}
		return h.Type == packet.TypePublish
	})
	var in packet.Publish
	if err := in.DecodeFromServer(packet.V5, h, body); err != nil {
		t.Fatal(err)
	}
	forwarded := packet.AppendForwarded(nil, in.Properties)
	if !in.HasExpiry || in.Expiry < 900 || in.Expiry > 1000 || string(forwarded) != string(properties) {
		t.Errorf("the message has %+v, properties %x", in, forwarded)
	}
}

// A client does not get what it publishes itself if it does not want that, wherever others are.
func TestNoLocal(t *testing.T) {
	p := startPair(t)
	a, b := connect(t, p.one.broker, "a"), connect(t, p.two.broker, "b").subscribe("x")
	a.send(packet.AppendSubscribe(nil, packet.V5, 1, 0, packet.Filter{Topic: []byte("x"), QoS: 2, NoLocal: true}))
	reach(a, b, "x")
	reach(b, a, "x")
	b.read()
	b.got, a.got = nil, nil
	a.publish("x", "of a", 1)
	b.wants("x=of a q1")
	a.wants(fmt.Sprintf("PUBACK %d", a.id))
	b.publish("x", "of b", 0)
	a.wants("x=of b q0")
	b.wants("x=of b q0")
}

// A will reaches subscribers elsewhere.
func TestWill(t *testing.T) {
	p := startPair(t)
	to := connect(t, p.two.broker, "to").subscribe("#")
	reach(connect(t, p.one.broker, "from"), to, "x")
	dying := connect(t, p.one.broker, "dying", func(c *packet.Connect) {
		c.HasWill, c.Will = true, packet.Will{Topic: []byte("will"), Payload: []byte("gone"), QoS: 1, Retain: true}
	})
	dying.conn.Close(mqtt.Ending{}, time.Now())
	to.wants("will=gone q1")
	late := connect(t, p.hub.broker, "late").subscribe("will")
	late.wants("will=gone q1 retain")
}

// One member of a group gets a message, wherever the members are.
func TestShared(t *testing.T) {
	p := startPair(t)
	members := make(map[string]*client)
	for name, b := range p.brokers() {
		members[name] = connect(t, b, "sub-"+name).subscribe("$share/g/job/+", "$share/g/local")
	}
	second := connect(t, p.one.broker, "second").subscribe("$share/g/job/+")
	from := connect(t, p.two.broker, "from")
	total := func() (n int) {
		for _, c := range members {
			c.read()
			n += len(c.got)
		}
		second.read()
		return n + len(second.got)
	}
	testwait.Until(t, "all members are known", func() bool {
		from.publish("job/1", "there?", 1)
		total()
		return len(members["hub"].got) > 0 && len(members["one"].got)+len(second.got) > 0 && len(members["two"].got) > 0
	})
	from.read()
	testwait.Until(t, "each message came once", func() bool { from.read(); return total() == int(from.id) })
	sent := int(from.id)
	for range 300 {
		from.publish("job/2", "x", 1)
		from.read()
	}
	testwait.Until(t, "each message came once", func() bool { from.read(); return total() >= sent+300 && len(from.got) == sent+300 })
	if n := total(); n != sent+300 {
		t.Errorf("%d copies of %d messages", n, sent+300)
	}
	for name, c := range members {
		if len(c.got) < 40 {
			t.Errorf("the member at %s got %d of 300", name, len(c.got))
		}
	}
}

// Clients may not publish where only the hub's program does.
func TestReserved(t *testing.T) {
	h := startHub(t, mqtt.Config{Reserved: "verdicts/"}, route.Config{})
	s := startSpoke(t, h.address, "one", mqtt.Config{Reserved: "-"})
	from, to := connect(t, s.broker, "from"), connect(t, s.broker, "to").subscribe("verdicts/#")
	reach(connect(t, h.broker, "x"), connect(t, s.broker, "z").subscribe("y"), "y")
	from.publish("verdicts/d", "forged", 0)
	if err := h.broker.Publish("verdicts/d", []byte("online"), true); err != nil {
		t.Fatal(err)
	}
	to.wants("verdicts/d=online q0")
	if st := s.broker.Stats(); st.Denied != 1 {
		t.Errorf("%d messages were denied, want 1", st.Denied)
	}
	connect(t, s.broker, "late").subscribe("verdicts/d").wants("verdicts/d=online q0 retain")
}

// A message may be larger than what gRPC takes by default.
func TestLargeMessage(t *testing.T) {
	p := startPair(t)
	from, to := connect(t, p.one.broker, "from"), connect(t, p.two.broker, "to").subscribe("a")
	reach(from, to, "a")
	large := strings.Repeat("x", 9<<20)
	from.publish("a", large, 1)
	to.wants("a=" + large + " q1")
}
