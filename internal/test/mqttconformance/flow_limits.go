package mqttconformance

import (
	"strconv"
	"strings"
)

// flowLimits are the tests of what a client asks the broker to keep to.
func flowLimits() []entry {
	return []entry{
		{"Receive Maximum with QoS 1", func(t *test) { receiveMaximum(t, 1) }},
		{"Receive Maximum with QoS 2", func(t *test) { receiveMaximum(t, 2) }},
		{"Receive Maximum does not hold back QoS 0", receiveMaximumQoS0},
		{"Receive Maximum counts a failed PUBREC as the end", receiveMaximumFailed},
		{"Receive Maximum holds for what comes again", receiveMaximumAgain},
		{"Receive Maximum of the next connection holds", receiveMaximumNext},
		{"Maximum Packet Size: a message of that size comes", packetSizeExact},
		{"Maximum Packet Size: one that is larger does not hold up others", packetSizeSkipped},
		{"Maximum Packet Size holds for retained messages and wills", packetSizeRetained},
		{"Maximum Packet Size holds for a client that was away", packetSizeAway},
	}
}

// receiveMaximum publishes more than the client takes, and acknowledges one after the other.
func receiveMaximum(t *test, qos byte) {
	to := t.connect(hello{id: t.id("to"), props: props{}.two(propReceiveMaximum, 3)})
	to.manual = true
	to.subscribe(t.topic("A"), 2)
	from := t.client(5, "from")
	for i := range 12 {
		from.publish(message{topic: t.topic("A"), payload: strconv.Itoa(i), qos: qos})
	}
	open := to.payloads("0", "1", "2")
	for i := 3; i < 15; i++ {
		m := open[0]
		open = open[1:]
		to.acknowledge(m)
		if qos == 2 {
			equal(t, "packet identifier of PUBREL", to.await(pubrel).id, m.id)
			to.nothing() // PUBREC leaves no room
			to.complete(m.id)
		}
		if i < 12 {
			open = append(open, to.payloads(strconv.Itoa(i))...)
		}
	}
	to.nothing()
}

func receiveMaximumQoS0(t *test) {
	to := t.connect(hello{id: t.id("to"), props: props{}.two(propReceiveMaximum, 1)})
	to.manual = true
	to.subscribe(t.topic("A"), 2)
	from := t.client(5, "from")
	from.publishAll(t.topic("A"), 1, "1", "2")
	from.publishAll(t.topic("A"), 0, "0")
	from.ping()
	to.acknowledge(to.payloads("1", "0")[0])
	to.payloads("2")
}

func receiveMaximumFailed(t *test) {
	to := t.connect(hello{id: t.id("to"), props: props{}.two(propReceiveMaximum, 1)})
	to.manual = true
	to.subscribe(t.topic("A"), 2)
	from := t.client(5, "from")
	from.publishAll(t.topic("A"), 2, "1", "2")
	m := to.payloads("1")[0]
	delete(to.inflight, m.id)
	to.send(encodeAck(pubrec, m.id, 0x80))
	m = to.payloads("2")[0]
	delete(to.inflight, m.id)
	to.send(encodeAck(pubrec, m.id, 0x80))
	to.nothing()
}

func receiveMaximumAgain(t *test) {
	to := t.connect(hello{id: t.id("to"), props: props{}.two(propReceiveMaximum, 2).four(propSessionExpiry, 600)})
	to.manual = true
	to.subscribe(t.topic("A"), 2)
	from := t.client(5, "from")
	from.publishAll(t.topic("A"), 1, "1", "2", "3")
	to.payloads("1", "2")
	to.cut()
	to = to.again()
	to.manual = true
	got := to.payloads("1", "2")
	to.acknowledge(got[0])
	to.payloads("3")
}

// receiveMaximumNext has messages on their way that are more than the client takes after it has connected again.
func receiveMaximumNext(t *test) {
	to, from := t.receiver(5)
	to.manual = true
	from.publishAll(t.topic("A"), 1, "1", "2", "3")
	to.payloads("1", "2", "3")
	to.cut()
	to.hello.props = props{}.two(propReceiveMaximum, 1).four(propSessionExpiry, 600)
	to = to.again()
	to.manual = true
	for _, payload := range []string{"1", "2", "3"} {
		to.acknowledge(to.payloads(payload)[0])
	}
}

// limited returns a client that takes packets of 100 bytes, and a payload with which a message on the topic has as many.
func (t *test) limited() (c *client, payload string) {
	c = t.connect(hello{id: t.id("to"), props: props{}.four(propMaximumPacketSize, 100).four(propSessionExpiry, 600)})
	c.subscribe(t.topic("A"), 1)
	empty := len(message{topic: t.topic("A"), qos: 1}.encode(5))
	return c, strings.Repeat("x", 100-empty)
}

func packetSizeExact(t *test) {
	to, payload := t.limited()
	t.client(5, "from").publishAll(t.topic("A"), 1, payload, payload+"x", "end")
	to.payloads(payload, "end")
}

func packetSizeSkipped(t *test) {
	to, payload := t.limited()
	other := t.client(5, "other")
	other.subscribe(t.topic("A"), 1)
	t.client(5, "from").publishAll(t.topic("A"), 1, "1", payload+"x", "2", payload+payload, "3")
	to.payloads("1", "2", "3")
	other.payloads("1", payload+"x", "2", payload+payload, "3")
}

func packetSizeRetained(t *test) {
	to, payload := t.limited()
	from := t.client(5, "from")
	from.publish(message{topic: t.topic("R/1"), payload: payload + "....", qos: 1, retain: true})
	from.publish(message{topic: t.topic("R/2"), payload: "short", qos: 1, retain: true})
	will := &message{topic: t.topic("A"), payload: payload + "x", qos: 1}
	t.connect(hello{id: t.id("will"), will: will}).cut()
	to.subscribe(t.topic("R/#"), 1)
	to.payloads("short")
}

func packetSizeAway(t *test) {
	to, payload := t.limited()
	to.disconnect()
	t.client(5, "from").publishAll(t.topic("A"), 1, "1", payload+"x", "2")
	to.again().payloads("1", "2")
}
