package mqttconformance

import (
	"strconv"
	"strings"
)

func orderKept(t *test, version byte) {
	to, from := t.receiver(version)
	for qos := range byte(3) {
		var want []string
		for i := range 50 {
			want = append(want, strconv.Itoa(i))
		}
		from.publishAll(t.topic("A"), qos, want...)
		from.ping()
		to.payloads(want...)
	}
}

func ownMessages(t *test, version byte) {
	a := t.client(version, "a")
	a.subscribe(t.topic("A"), 2)
	a.publishAll(t.topic("A"), 1, "x")
	a.payloads("x")
}

func lowerQoS(t *test, version byte) {
	from := t.client(version, "from")
	for granted := range byte(3) {
		to := t.client(version, "to")
		to.subscribe(t.topic("A"), granted)
		for qos := range byte(3) {
			from.publish(message{topic: t.topic("A"), payload: "x", qos: qos})
			from.ping()
			equal(t, "QoS", to.payloads("x")[0].qos, min(granted, qos))
		}
	}
}

// sysAnswered publishes where clients may not. A broker answers, with or without a failure, and goes on.
func sysAnswered(t *test, version byte) {
	a := t.client(version, "a")
	for _, topic := range []string{"$SYS/" + t.prefix, "$SYS", "$" + t.prefix} {
		a.publish(message{topic: topic, payload: "x"})
		a.publish(message{topic: topic, payload: "x", qos: 1})
		a.publish(message{topic: topic, payload: "x", qos: 2})
	}
	a.ping()
}

func unsubscribeUnknown(t *test, version byte) {
	a := t.client(version, "a")
	a.subscribe(t.topic("A"), 0)
	if codes := a.unsubscribe(t.topic("A"), t.topic("B")); version == 5 {
		same(t, "codes of UNSUBACK", codes, []byte{0, 0x11})
	}
}

func severalFilters(t *test, version byte) {
	a := t.client(version, "a")
	codes := a.subscribeAll(nil, filter{t.topic("A"), 2}, filter{t.topic("B"), 0}, filter{t.topic("+/C"), 1})
	same(t, "codes of SUBACK", codes, []byte{2, 0, 1})
	for _, name := range []string{"A", "B", "x/C", "D"} {
		a.publish(message{topic: t.topic(name), payload: name, qos: 1})
	}
	a.payloads("A", "B", "x/C")
}

func subscribeAgain(t *test, version byte) {
	a := t.client(version, "a")
	a.subscribe(t.topic("A"), 2)
	a.subscribe(t.topic("A"), 1)
	a.publish(message{topic: t.topic("A"), payload: "x", qos: 2})
	equal(t, "QoS", a.payloads("x")[0].qos, 1)
}

func wildcards(t *test, version byte) {
	a := t.client(version, "a")
	for _, tt := range []struct {
		filter string
		topics string // that match, of all
	}{
		{"a/#", "a a/ a/b a/b/c a//c"},
		{"a/+", "a/ a/b"},
		{"+/b", "a/b /b"},
		{"+", "a b"},
		{"#", "a b /b a/ a/b a/b/c a//c"},
		{"a/+/c", "a/b/c a//c"},
		{"+/+", "a/ a/b /b"},
		{"a/+/#", "a/ a/b a/b/c a//c"},
		{"/+", "/b"},
		{"A", ""},
	} {
		a.subscribe(t.topic(tt.filter), 0)
		for topic := range strings.FieldsSeq("a b /b a/ a/b a/b/c a//c") {
			a.publish(message{topic: t.topic(topic), payload: topic})
		}
		var got, want []string
		for _, m := range t.gather(a, a)[0] {
			got = append(got, m.payload)
		}
		for topic := range strings.FieldsSeq("a b /b a/ a/b a/b/c a//c") {
			if strings.Contains(" "+tt.topics+" ", " "+topic+" ") {
				want = append(want, topic)
			}
		}
		same(t, "topics that match "+tt.filter, got, want)
		a.unsubscribe(t.topic(tt.filter))
	}
}

func largeMessage(t *test, version byte) {
	to, from := t.receiver(version)
	payload := strings.Repeat("0123456789", 10_000)
	for qos := range byte(3) {
		from.publishAll(t.topic("A"), qos, payload)
		if m := to.message(); m.payload != payload {
			t.fatalf("a message of %d bytes has %d", len(payload), len(m.payload))
		}
	}
	to.nothing()
}

func emptyMessage(t *test, version byte) {
	to, from := t.receiver(version)
	from.publishAll(t.topic("A"), 1, "")
	to.payloads("")
}

// flowMessages are the tests of the properties of messages.
func flowMessages() []entry {
	return []entry{
		{"topic alias of a client can be used and set anew", aliasReset},
		{"topic alias of the broker stays below the maximum", aliasesOfBroker},
		{"topic alias is not passed on", aliasNotPassed},
		{"message expiry is counted down", expiryCounted},
		{"message expiry of a retained message", expiryRetained},
		{"message without an expiry gets none", expiryNone},
		{"properties are passed on", propertiesPassed},
		{"PUBACK and PUBREC have no properties of the PUBLISH", ackProperties},
		{"reason string is left out on request", noProblemInfo},
		{"payload of any bytes", anyBytes},
		{"3.1.1 and 5 exchange messages", acrossVersions},
	}
}

func aliasReset(t *test) {
	a := t.client(5, "a")
	if a.aliasMaximum() == 0 {
		t.skipf("the broker takes no aliases")
	}
	alias := props{}.two(propTopicAlias, uint16(a.aliasMaximum()))
	a.subscribe(t.topic("+"), 1)
	for _, name := range []string{"A", "", "B", ""} {
		m := message{payload: "x", qos: 1, props: alias}
		if name != "" {
			m.topic = t.topic(name)
		}
		a.publish(m)
	}
	var got []string
	for _, m := range a.messages(4) {
		got = append(got, m.topic)
	}
	same(t, "topics", got, []string{t.topic("A"), t.topic("A"), t.topic("B"), t.topic("B")})
}

// aliasesOfBroker has more topics than aliases. The client checks each alias.
func aliasesOfBroker(t *test) {
	to := t.connect(hello{id: t.id("to"), props: props{}.two(propTopicAliasMaximum, 2)})
	to.subscribe(t.topic("+"), 1)
	from := t.client(5, "from")
	for i := range 20 {
		name := strconv.Itoa(i * i % 5)
		from.publishAll(t.topic(name), byte(i%2), name)
		from.ping()
		equal(t, "topic", to.payloads(name)[0].topic, t.topic(name))
	}
}

func aliasNotPassed(t *test) {
	to, from := t.client(5, "to"), t.client(5, "from")
	if from.aliasMaximum() == 0 {
		t.skipf("the broker takes no aliases")
	}
	to.subscribe(t.topic("A"), 1)
	from.publish(message{topic: t.topic("A"), qos: 1, props: props{}.two(propTopicAlias, 1)})
	if m := to.message(); m.topic != t.topic("A") {
		t.fatalf("%v, want the topic %q", m, t.topic("A"))
	}
}

func expiryCounted(t *test) {
	to, from := t.receiver(5)
	to.disconnect()
	from.publish(message{topic: t.topic("A"), payload: "x", qos: 1, props: props{}.four(propMessageExpiry, 600)})
	t.pass(2)
	m := to.again().payloads("x")[0]
	if left, _ := m.props.number(propMessageExpiry); left == 0 || left > 599 {
		t.fatalf("%v, want an expiry below 600 s", m)
	}
}

func expiryRetained(t *test) {
	a := t.client(5, "a")
	for name, expiry := range map[string]uint32{"A": 1, "B": 600} {
		a.publish(message{topic: t.topic(name), payload: name, qos: 1, retain: true, props: props{}.four(propMessageExpiry, expiry)})
	}
	t.pass(3)
	a.subscribe(t.topic("+"), 1)
	m := a.payloads("B")[0]
	if left, _ := m.props.number(propMessageExpiry); left == 0 || left > 599 {
		t.fatalf("%v, want an expiry below 600 s", m)
	}
}

func expiryNone(t *test) {
	to, from := t.receiver(5)
	from.publishAll(t.topic("A"), 1, "x")
	if m := to.message(); len(m.props) > 0 {
		t.fatalf("%v, want no properties", m)
	}
}

func propertiesPassed(t *test) {
	to, from := t.receiver(5)
	p := props{}.byte(propPayloadFormat, 1).text(propContentType, "x/y").text(propResponseTopic, t.topic("back")).
		text(propCorrelationData, "\x00\xff").pair("b", "1").pair("a", "2").pair("b", "3").pair("", "")
	from.publish(message{topic: t.topic("A"), payload: "x", qos: 1, props: p})
	m := to.message()
	same(t, "user properties", m.props.user(), []string{"b=1", "a=2", "b=3", "="})
	for id, want := range map[byte]string{propContentType: "x/y", propResponseTopic: t.topic("back"), propCorrelationData: "\x00\xff"} {
		if got, ok := m.props.text(id); !ok || got != want {
			t.fatalf("%v, want %q as property %#x", m, want, id)
		}
	}
	format, _ := m.props.number(propPayloadFormat)
	equal(t, "payload format", format, 1)
	equal(t, "number of properties", len(m.props), 8)
}

func ackProperties(t *test) {
	a := t.client(5, "a")
	for id, kind := range []byte{puback, pubrec} {
		m := message{topic: t.topic("A"), qos: byte(id + 1), id: uint16(id + 1), props: twoUsers()}
		a.send(m.encode(5))
		if p := a.answer(kind, m.id); len(p.props.user()) > 0 {
			t.fatalf("%v, want no user properties", p)
		}
	}
}

// noProblemInfo allows a reason string in CONNACK and DISCONNECT only.
func noProblemInfo(t *test) {
	a := t.connect(hello{id: t.id("a"), props: props{}.byte(propRequestProblemInfo, 0)})
	a.send(encodeAck(pubrel, 77, 0))
	if p := a.answer(pubcomp, 77); len(p.props) > 0 {
		t.fatalf("%v, want no properties", p)
	}
	a.send(encodeUnsubscribe(5, 1, t.topic("none")))
	if p := a.answer(unsuback, 1); len(p.props) > 0 {
		t.fatalf("%v, want no properties", p)
	}
}

func anyBytes(t *test) {
	to, from := t.receiver(5)
	var all strings.Builder
	for b := range 256 {
		all.WriteByte(byte(b))
	}
	from.publishAll(t.topic("A"), 1, all.String())
	to.payloads(all.String())
}

func acrossVersions(t *test) {
	to5, to4 := t.client(5, "to5"), t.client(4, "to4")
	for _, c := range []*client{to5, to4} {
		c.subscribe(t.topic("A"), 2)
	}
	for _, version := range []byte{4, 5} {
		from := t.client(version, "from")
		for qos := range byte(3) {
			from.publish(message{topic: t.topic("A"), payload: "x", qos: qos, props: twoUsers()})
			from.ping()
			equal(t, "QoS", to4.payloads("x")[0].qos, qos)
			m := to5.payloads("x")[0]
			equal(t, "QoS", m.qos, qos)
			equal(t, "number of user properties", len(m.props.user()), 2*int(version-4))
		}
	}
}
