package mqttconformance

import (
	"iter"
	"maps"
	"slices"
	"strings"
)

// bad is what a broker must not accept.
type bad struct {
	name  string
	bytes []byte // with place for a topic or a client identifier
	codes []byte // of which the answer of MQTT 5 has one: those that the specification gives or, if it gives none, leaves open
}

// What the specification gives in words: a packet that cannot be parsed, one that is not allowed, and either where it
// does not say which.
func badPacket(name string, bytes []byte) bad { return bad{name, bytes, []byte{0x81}} }
func badUse(name string, bytes []byte) bad    { return bad{name, bytes, []byte{0x82}} }
func badEither(name string, bytes []byte, more ...byte) bad {
	return bad{name, bytes, append(more, 0x81, 0x82)}
}

// malformed are the tests of packets that a broker must not accept. In all of them another connection goes on.
func malformed() []entry {
	list := []entry{
		{"CONNECT: unknown protocol name", func(t *test) { t.unknownProtocol("MQTX", 5) }},
		{"CONNECT: unknown protocol level", func(t *test) { t.unknownProtocol("MQTT", 77) }},
		{"3.1.1 CONNECT: unknown protocol name", func(t *test) { t.unknownProtocol("MQTX", 4) }},
		{"topic alias above the maximum", aliasAboveMaximum},
		{"topic alias that was never set", aliasUnknown},
		{"packet larger than the broker allows", tooLarge},
		{"more messages than the broker allows", flowControl2},
		{"QoS above the maximum", qosAboveMaximum},
		{"retain where it is not available", retainUnavailable},
		{"PUBREL with an unknown id is answered", unknownPubrel},
		{"PUBREC with an unknown id is answered", unknownPubrec},
		{"DISCONNECT with an expiry where CONNECT had none", expiryFromNone},
		{"AUTH with another method", authOther},
	}
	for _, b := range slices.Concat(badConnects(5), badWills()) {
		list = append(list, entry{"CONNECT: " + b.name, func(t *test) { t.refuses(5, b) }})
	}
	for _, b := range badConnects(4) {
		list = append(list, entry{"3.1.1 CONNECT: " + b.name, func(t *test) { t.refuses(4, b) }})
	}
	for _, b := range first() {
		list = append(list, entry{"before CONNECT: " + b.name, func(t *test) { t.refuses(5, b) }})
	}
	for _, b := range slices.Concat(badPublishes(), badAcks(), badSubscribes(), badUnsubscribes(), badRest()) {
		list = append(list, entry{b.name, func(t *test) { t.dismisses(5, b) }})
	}
	for _, b := range bad3() {
		list = append(list, entry{"3.1.1 " + b.name, func(t *test) { t.dismisses(4, b) }})
	}
	for _, b := range badFilters(5) {
		list = append(list, entry{"SUBSCRIBE: filter " + b.name, func(t *test) { t.noFilter(5, b) }})
	}
	for _, b := range badFilters(4) {
		list = append(list, entry{"3.1.1 SUBSCRIBE: filter " + b.name, func(t *test) { t.noFilter(4, b) }})
	}
	return list
}

// fill replaces the place in bytes by a topic of the test that is as long.
func (t *test) fill(b []byte) []byte {
	topic := "/" + t.prefix + "/bad"
	for len(topic) < len(place) {
		topic += "."
	}
	return []byte(strings.ReplaceAll(string(b), place, topic[:len(place)]))
}

// place stands for a topic of the test.
const place = "TOPIC-TOPIC-TOPIC-TOPIC"

// sorted returns the entries of a map in the order of their names.
func sorted[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, name := range slices.Sorted(maps.Keys(m)) {
			if !yield(name, m[name]) {
				return
			}
		}
	}
}

// refuses wants the broker to refuse what comes first on a connection. A CONNACK with the reason is optional (MQTT 5,
// section 4.13.1).
func (t *test) refuses(version byte, b bad) {
	check := t.bystander()
	c := t.dial(version)
	c.send(t.fill(b.bytes))
	codes := b.codes
	if version < 5 {
		codes = []byte{1, 2, 3, 4, 5}
	}
	c.refused(codes...)
	check()
}

// dismisses wants the broker to end a connection because of a packet.
func (t *test) dismisses(version byte, b bad) {
	check := t.bystander()
	c := t.client(version, "bad")
	c.send(t.fill(b.bytes))
	c.ends(b.codes...)
	check()
}

// noFilter wants the broker to refuse a subscription, or to end the connection.
func (t *test) noFilter(version byte, b bad) {
	check := t.bystander()
	c := t.client(version, "bad")
	c.send(encodeSubscribe(version, 1, nil, filter{string(b.bytes), 1}))
	p, err := c.read(t.patience)
	switch {
	case err != nil && version < 5:
		c.closed(err)
	case err != nil:
		t.fatalf("%v, want DISCONNECT", err)
	case p.kind == suback:
		if len(p.codes) != 1 || p.codes[0] < 0x80 {
			t.fatalf("%v, want a failure", p)
		}
		c.ping()
	case p.kind == disconnect && slices.Contains(b.codes, p.code):
		_, err := c.read(t.patience)
		c.closed(err)
	default:
		t.fatalf("%v, want DISCONNECT with % #x", p, b.codes)
	}
	check()
}

func aliasAboveMaximum(t *test) {
	c := t.client(5, "bad")
	if c.aliasMaximum() == 65535 {
		t.skipf("the broker takes all aliases")
	}
	t.dismisses(5, bad{"", message{topic: place, props: props{}.two(propTopicAlias, uint16(c.aliasMaximum()+1))}.encode(5), []byte{0x94}})
}

func aliasUnknown(t *test) {
	c := t.client(5, "bad")
	if c.aliasMaximum() == 0 {
		t.skipf("the broker takes no aliases")
	}
	t.dismisses(5, badUse("", message{props: props{}.two(propTopicAlias, 1)}.encode(5)))
}

func tooLarge(t *test) {
	c := t.client(5, "bad")
	limit, ok := c.ack.props.number(propMaximumPacketSize)
	if !ok || limit > 16<<20 {
		t.skipf("the broker allows large packets")
	}
	check := t.bystander()
	c.send(appendNumber([]byte{publish << 4}, limit)) // the header alone tells
	c.ends(0x95)
	check()
}

func qosAboveMaximum(t *test) {
	c := t.client(5, "bad")
	limit, ok := c.ack.props.number(propMaximumQoS)
	if !ok {
		t.skipf("the broker takes all QoS")
	}
	t.dismisses(5, bad{"", message{topic: place, qos: byte(limit + 1), id: 1}.encode(5), []byte{0x9b}})
}

func retainUnavailable(t *test) {
	c := t.client(5, "bad")
	if n, ok := c.ack.props.number(propRetainAvailable); !ok || n == 1 {
		t.skipf("the broker takes retained messages")
	}
	t.dismisses(5, bad{"", message{topic: place, retain: true}.encode(5), []byte{0x9a}})
}

func unknownPubrel(t *test) {
	c := t.client(5, "a")
	c.send(encodeAck(pubrel, 77, 0))
	equal(t, "code of PUBCOMP", c.answer(pubcomp, 77).code, 0x92)
	c.ping()
	c = t.client(4, "a")
	c.send(encodeAck(pubrel, 77, 0))
	c.answer(pubcomp, 77)
	c.ping()
}

func unknownPubrec(t *test) {
	c := t.client(5, "a")
	c.manual = true
	c.send(encodeAck(pubrec, 77, 0))
	equal(t, "code of PUBREL", c.answer(pubrel, 77).code, 0x92)
	c.ping()
}

func expiryFromNone(t *test) {
	check := t.bystander()
	for _, p := range []props{nil, props{}.four(propSessionExpiry, 0)} {
		c := t.connect(hello{id: t.id("bad"), props: p})
		c.send(frame(disconnect<<4, []byte{0}, props{}.four(propSessionExpiry, 1).section()))
		c.ends(0x82)
	}
	check()
}

// authOther asks for a method that no broker has.
func authOther(t *test) {
	check := t.bystander()
	c := t.offer(hello{id: t.id("bad"), props: props{}.text(propAuthMethod, "no such method").text(propAuthData, "x")})
	c.refused(0x8c, 0x87)
	check()
}
