package mqttconformance

// eclipse3 are the tests of the Eclipse project for MQTT 3.1.1 (client_test.py).
func eclipse3() []entry {
	return []entry{
		{"testBasic", func(t *test) { basic(t, 4) }},
		{"test_retained_messages", retainedMessages3},
		{"will_message_test", willMessage3},
		{"test_zero_length_clientid", zeroLengthID3},
		{"test_offline_message_queueing", func(t *test) { offlineQueue(t, 4) }},
		{"test_overlapping_subscriptions", func(t *test) { overlapping(t, 4) }},
		{"test_keepalive", func(t *test) { keepAlive(t, 4) }},
		{"test_redelivery_on_reconnect", func(t *test) { redelivery(t, 4) }},
		{"test_subscribe_failure", func(t *test) { subscribeFailure(t, 4) }},
		{"test_dollar_topics", func(t *test) { dollarTopics(t, 4) }},
		{"test_unsubscribe", func(t *test) { unsubscribes(t, 4) }},
	}
}

func retainedMessages3(t *test) {
	a := t.client(4, "a")
	equal(t, "session present", a.ack.present, false)
	a.publish(message{topic: t.topic("B"), payload: "qos 0", retain: true})
	a.publish(message{topic: t.topic("C"), payload: "qos 1", qos: 1, retain: true})
	a.publish(message{topic: t.topic("D"), payload: "qos 2", qos: 2, retain: true})
	a.subscribe(t.topic("+"), 2)
	seen := map[string]bool{}
	for _, m := range a.messages(3) {
		equal(t, "retain", m.retain, true)
		seen[m.payload] = true
	}
	equal(t, "number of different messages", len(seen), 3)
	a.disconnect()

	a = t.client(4, "a")
	for i, name := range []string{"B", "C", "D"} {
		a.publish(message{topic: t.topic(name), qos: byte(i), retain: true})
	}
	a.subscribe(t.topic("+"), 2)
	a.nothing()
}

func willMessage3(t *test) {
	a := t.connect(hello{version: 4, id: t.id("a"), keepAlive: 2, will: &message{topic: t.topic("C"), payload: "client not disconnected"}})
	b := t.client(4, "b")
	b.subscribe(t.topic("C"), 2)
	a.cut()
	b.payloads("client not disconnected")
}

func zeroLengthID3(t *test) {
	c := t.offer(hello{version: 4, resume: true})
	equal(t, "return code without an identifier and with Clean Session 0", c.want(connack).code, 2)
	c.ends()
	t.connect(hello{version: 4}).disconnect()
}

// basic is the first test of both versions.
func basic(t *test, version byte) {
	t.client(version, "a").disconnect()
	a := t.client(version, "a")
	equal(t, "session present", a.ack.present, false)
	a.subscribe(t.topic("A"), 2)
	for qos, payload := range []string{"qos 0", "qos 1", "qos 2"} {
		a.publish(message{topic: t.topic("A"), payload: payload, qos: byte(qos)})
	}
	for i, m := range a.payloads("qos 0", "qos 1", "qos 2") {
		equal(t, "QoS", m.qos, byte(i))
		equal(t, "topic", m.topic, t.topic("A"))
		equal(t, "retain", m.retain, false)
	}
	a.disconnect()

	a = t.client(version, "a")
	a.send(a.hello.encode())
	a.ends()

	t.unknownProtocol("hj", version)
}

func offlineQueue(t *test, version byte) {
	a := t.lasting(version, "a")
	a.subscribe(t.topic("#"), 2)
	a.disconnect()
	b := t.client(version, "b")
	b.publish(message{topic: t.topic("B"), payload: "qos 0"})
	b.publish(message{topic: t.topic("C"), payload: "qos 1", qos: 1})
	b.publish(message{topic: t.topic("D"), payload: "qos 2", qos: 2})
	b.disconnect()
	a = a.again()
	equal(t, "session present", a.ack.present, true)
	seen := map[string]byte{}
	for range 2 {
		m := a.message()
		if m.qos == 0 { // a broker may keep it
			m = a.message()
		}
		seen[m.payload] = m.qos
	}
	equal(t, `QoS of "qos 1"`, seen["qos 1"], 1)
	equal(t, `QoS of "qos 2"`, seen["qos 2"], 2)
}

// overlapping allows one message with the highest QoS of the subscriptions that match, and one for each of them.
func overlapping(t *test, version byte) {
	a := t.client(version, "a")
	same(t, "codes of SUBACK", a.subscribeAll(nil, filter{t.topic("#"), 2}, filter{t.topic("+"), 1}), []byte{2, 1})
	a.publish(message{topic: t.topic("D"), payload: "overlapping topic filters", qos: 2})
	if got := t.gather(a, a)[0]; len(got) == 1 {
		equal(t, "QoS", got[0].qos, 2)
	} else {
		equal(t, "number of messages", len(got), 2)
		equal(t, "sum of the QoS", got[0].qos+got[1].qos, 3)
	}
}

// keepAlive leaves a client silent, whose will must be published.
func keepAlive(t *test, version byte) {
	b := t.client(version, "b")
	b.subscribe(t.topic("E"), 2)
	t.connect(hello{version: version, id: t.id("a"), keepAlive: 1, will: &message{topic: t.topic("E"), payload: "keepalive expiry"}})
	b.payloads("keepalive expiry")
}

func redelivery(t *test, version byte) {
	b := t.lasting(version, "b")
	b.subscribe(t.topic("#"), 2)
	b.manual = true
	b.publish(message{topic: t.topic("B"), payload: "1", qos: 1})
	b.publish(message{topic: t.topic("D"), payload: "2", qos: 2})
	ids := map[string]uint16{}
	for _, m := range b.messages(2) {
		ids[m.payload] = m.id
	}
	b.disconnect()
	b = b.again()
	equal(t, "session present", b.ack.present, true)
	for _, m := range b.messages(2) { // they have different topics, so no order is asked for
		equal(t, "DUP", m.dup, true)
		equal(t, "packet identifier", m.id, ids[m.payload])
	}
}

func subscribeFailure(t *test, version byte) {
	if t.options.Refused == "" {
		t.skipf("no filter is known that the broker refuses")
	}
	a := t.client(version, "a")
	if code := a.subscribeCode(t.options.Refused, 2); code < 0x80 {
		t.fatalf("SUBACK with %#x for %q, want a failure", code, t.options.Refused)
	}
	a.ping()
}

// dollarTopics wants a filter that begins with a wildcard not to match a topic that begins with "$".
func dollarTopics(t *test, version byte) {
	b := t.client(version, "b")
	topic := t.dollar("B")
	b.subscribe("+/+/B", 2)
	b.subscribe(t.topic("end"), 1)
	b.publish(message{topic: topic, payload: "hidden", qos: 1})
	b.publish(message{topic: t.topic("end"), payload: "end", qos: 1})
	for m := b.message(); m.payload != "end"; m = b.message() {
		if m.topic == topic {
			t.fatalf("%v for a subscription to +/+/B", m)
		}
	}
}

func unsubscribes(t *test, version byte) {
	b := t.client(version, "b")
	for _, name := range []string{"A", "B", "C"} {
		b.subscribe(t.topic(name), 2)
	}
	for _, code := range b.unsubscribe(t.topic("A")) {
		equal(t, "code of UNSUBACK", code, 0)
	}
	a := t.client(version, "a")
	for _, name := range []string{"A", "B", "C"} {
		a.publish(message{topic: t.topic(name), payload: name, qos: 1})
	}
	b.payloads("B", "C")
}
