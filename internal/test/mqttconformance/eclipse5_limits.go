package mqttconformance

import "strings"

func subscribeOptions(t *test) {
	a, b := t.client(5, "a"), t.client(5, "b")
	a.subscribe(t.topic("A"), 2|noLocal)
	b.subscribe(t.topic("A"), 2|noLocal)
	a.publish(message{topic: t.topic("A"), payload: "noLocal test", qos: 1})
	b.payloads("noLocal test")
	a.nothing()
	a.disconnect()

	a = t.client(5, "a")
	a.subscribe(t.topic("A"), 2|retainAsPublished)
	a.publish(message{topic: t.topic("A"), payload: "false", qos: 1})
	a.publish(message{topic: t.topic("A"), payload: "true", qos: 1, retain: true})
	got := a.payloads("false", "true")
	equal(t, "retain of the first", got[0].retain, false)
	equal(t, "retain of the second", got[1].retain, true)
	a.publish(message{topic: t.topic("A"), retain: true})
	a.disconnect()

	a = t.client(5, "a")
	for qos := range byte(3) {
		a.publish(message{topic: t.topic(string('B' + rune(qos))), payload: "kept", qos: qos, retain: true})
	}
	for _, tt := range []struct {
		what    string
		options byte
		want    [2]int // retained messages after the first and the second SUBSCRIBE
	}{
		{"1", retainIfNew, [2]int{3, 0}}, {"2", retainNever, [2]int{0, 0}}, {"0", 0, [2]int{3, 3}},
	} {
		c := t.client(5, "c"+tt.what)
		for i, n := range tt.want {
			c.subscribe(t.topic("+"), 2|tt.options)
			if got := len(t.gather(a, c)[0]); got != n {
				t.fatalf("retain handling %s: SUBSCRIBE %d brings %d retained messages, want %d", tt.what, i+1, got, n)
			}
		}
	}
}

// aliasMaximum returns how many topic aliases the broker takes.
func (c *client) aliasMaximum() int {
	n, _ := c.ack.props.number(propTopicAliasMaximum)
	return n
}

func clientTopicAlias(t *test) {
	a := t.client(5, "a")
	a.send(message{topic: t.topic("A"), payload: "topic alias 0", qos: 1, id: 1, props: props{}.two(propTopicAlias, 0)}.encode(5))
	a.ends(0x81, 0x82, 0x94)

	a = t.connect(hello{id: t.id("a"), props: long()})
	if a.aliasMaximum() == 0 {
		return
	}
	alias := props{}.two(propTopicAlias, 1)
	a.subscribe(t.topic("A"), 2)
	a.publish(message{topic: t.topic("A"), payload: "topic alias 1", qos: 1, props: alias})
	a.publish(message{payload: "topic alias 2", qos: 1, props: alias})
	for _, m := range a.payloads("topic alias 1", "topic alias 2") {
		equal(t, "topic", m.topic, t.topic("A"))
	}
	a.disconnect()

	a = a.again() // the session lasts, the aliases do not
	a.publish(message{topic: t.topic("A"), payload: "topic alias 3", qos: 1})
	a.payloads("topic alias 3")
	a.send(message{payload: "topic alias 4", qos: 1, id: 9, props: alias}.encode(5))
	a.ends(0x82, 0x94)
}

// serverTopicAlias wants the broker to use an alias that the client allows. The specification does not ask for that.
func serverTopicAlias(t *test) {
	for _, tt := range []struct {
		name  string
		props props
		alias bool
	}{
		{"one", props{}.two(propTopicAliasMaximum, 1), true}, {"default", nil, false}, {"none", props{}.two(propTopicAliasMaximum, 0), false},
	} {
		a := t.connect(hello{id: t.id("a"), props: tt.props})
		a.subscribe(t.topic("A"), 2)
		for qos := range byte(3) {
			a.publish(message{topic: t.topic("A"), payload: "topic alias 1", qos: qos})
		}
		for i, m := range a.messages(3) {
			equal(t, "topic", m.topic, t.topic("A"))
			_, ok := m.props.number(propTopicAlias)
			if ok != tt.alias {
				t.fatalf("%s: message %d is %v", tt.name, i, m)
			}
			equal(t, "whether the topic was left out", m.aliased, tt.alias && i > 0)
		}
		a.disconnect()
	}
}

func maximumPacketSize(t *test) {
	a := t.client(5, "a")
	if limit, ok := a.ack.props.number(propMaximumPacketSize); ok && limit < 65535 {
		a.send(message{topic: t.topic("A"), payload: strings.Repeat(".", limit)}.encode(5))
		a.ends(0x95)
	}

	const size = 64
	a = t.connect(hello{id: t.id("a"), props: props{}.four(propMaximumPacketSize, size)})
	a.subscribe(t.topic("A"), 2)
	a.publish(message{topic: t.topic("A"), payload: strings.Repeat(".", size/2)})
	a.payloads(strings.Repeat(".", size/2))
	a.publish(message{topic: t.topic("A"), payload: strings.Repeat(".", size), qos: 1})
	a.nothing()
}

func flowControl1(t *test) {
	a := t.connect(hello{id: t.id("a"), props: props{}.two(propReceiveMaximum, 2).four(propSessionExpiry, 0)})
	a.manual = true
	a.subscribe(t.topic("A"), 2)
	a.publishAll(t.topic("A"), 1, "message 1", "message 2", "message 3")
	first := a.payloads("message 1", "message 2")
	a.acknowledge(first[0])
	third := a.payloads("message 3")
	a.acknowledge(first[1])
	a.acknowledge(third[0])
	a.nothing()
}

// flowControl2 publishes one message more than the broker takes without a PUBREL.
func flowControl2(t *test) {
	a := t.client(5, "a")
	limit, ok := a.ack.props.number(propReceiveMaximum)
	if !ok || limit == 65535 {
		t.skipf("the broker takes as many messages as there are packet identifiers")
	}
	for id := range uint16(limit) {
		a.send(message{topic: t.topic("A"), qos: 2, id: id + 1}.encode(5))
		a.answer(pubrec, id+1)
	}
	a.send(message{topic: t.topic("A"), qos: 2, id: uint16(limit + 1)}.encode(5))
	a.ends(0x93)
}

// willDelay lets wills come after their delay, and at the end of the session if that is earlier. That time has not
// passed, or has, shows in whether the session is still there.
func willDelay(t *test) {
	b := t.client(5, "b")
	b.subscribe(t.topic("A"), 2)
	for _, tt := range []struct {
		payload       string
		delay, expiry uint32
		present       bool // the session, after the will
	}{
		{"after the delay", 1, 600, true}, {"at once", 600, 0, false}, {"with the session", 600, 1, false},
	} {
		will := &message{topic: t.topic("A"), payload: tt.payload, props: props{}.four(propWillDelay, tt.delay)}
		a := t.connect(hello{id: t.id("a"), will: will, props: props{}.four(propSessionExpiry, tt.expiry)})
		equal(t, "session present", a.ack.present, false)
		a.cut()
		b.payloads(tt.payload)
		a = a.again()
		equal(t, "session present after the will that comes "+tt.payload, a.ack.present, tt.present)
		a.disconnect()
	}
}
