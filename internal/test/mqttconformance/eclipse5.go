package mqttconformance

// eclipse5 are the tests of the Eclipse project for MQTT 5 (client_test5.py).
func eclipse5() []entry {
	return []entry{
		{"test_basic", func(t *test) { basic(t, 5) }},
		{"test_retained_message", retainedMessage5},
		{"test_will_message", willMessage5},
		{"test_zero_length_clientid", zeroLengthID5},
		{"test_offline_message_queueing", func(t *test) { offlineQueue(t, 5) }},
		{"test_overlapping_subscriptions", func(t *test) { overlapping(t, 5) }},
		{"test_keepalive", func(t *test) { keepAlive(t, 5) }},
		{"test_redelivery_on_reconnect", func(t *test) { redelivery(t, 5) }},
		{"test_subscribe_failure", func(t *test) { subscribeFailure(t, 5) }},
		{"test_dollar_topics", func(t *test) { dollarTopics(t, 5) }},
		{"test_unsubscribe", func(t *test) { unsubscribes(t, 5) }},
		{"test_session_expiry", sessionExpiry},
		{"test_user_properties", userProperties},
		{"test_payload_format", payloadFormat},
		{"test_publication_expiry", publicationExpiry},
		{"test_subscribe_options", subscribeOptions},
		{"test_assigned_clientid", assignedID},
		{"test_subscribe_identifiers", subscribeIdentifiers},
		{"test_request_response", requestResponse},
		{"test_client_topic_alias", clientTopicAlias},
		{"test_server_topic_alias", serverTopicAlias},
		{"test_maximum_packet_size", maximumPacketSize},
		{"test_server_keep_alive", serverKeepAlive},
		{"test_flow_control1", flowControl1},
		{"test_flow_control2", flowControl2},
		{"test_will_delay", willDelay},
		{"test_shared_subscriptions", sharedSubscriptions},
	}
}

// twoUsers are two user properties.
func twoUsers() props { return props{}.pair("a", "2").pair("c", "3") }

func wantTwoUsers(t *test, m packet) {
	same(t, "user properties", m.props.user(), []string{"a=2", "c=3"})
}

func retainedMessage5(t *test) {
	a := t.client(5, "a")
	for qos, payload := range []string{"qos 0", "qos 1", "qos 2"} {
		a.publish(message{topic: t.topic(payload), payload: payload, qos: byte(qos), retain: true, props: twoUsers()})
	}
	a.subscribe(t.topic("+"), 2)
	var seen [3]bool
	for _, m := range a.messages(3) {
		wantTwoUsers(t, m)
		equal(t, "retain", m.retain, true)
		equal(t, "payload", m.payload, []string{"qos 0", "qos 1", "qos 2"}[m.qos])
		seen[m.qos] = true
	}
	equal(t, "QoS that came", seen, [3]bool{true, true, true})
}

func willMessage5(t *test) {
	b := t.client(5, "b")
	b.subscribe(t.topic("C"), 2)
	will := &message{topic: t.topic("C"), payload: "will message", props: append(props{}.four(propWillDelay, 0), twoUsers()...)}
	t.connect(hello{id: t.id("a"), keepAlive: 1, will: will})
	wantTwoUsers(t, b.payloads("will message")[0])
}

func zeroLengthID5(t *test) {
	t.connect(hello{resume: true}).disconnect()
	t.connect(hello{}).disconnect()
}

// sessionExpiry ends sessions before their time and after it. That one was ended by time shows in its will, which has a
// longer delay.
func sessionExpiry(t *test) {
	a := t.connect(hello{id: t.id("a"), props: props{}.four(propSessionExpiry, 0)})
	equal(t, "session present at first", a.ack.present, false)
	a.subscribe(t.topic("A"), 2)
	a.disconnect()
	a = a.again()
	equal(t, "session present with an expiry of 0", a.ack.present, false)
	a.disconnect()

	watch := t.client(5, "b")
	watch.subscribe(t.topic("will"), 0)
	will := &message{topic: t.topic("will"), props: props{}.four(propWillDelay, 600)}
	a = t.connect(hello{id: t.id("a"), will: will, props: props{}.four(propSessionExpiry, 3)})
	equal(t, "session present of a new one", a.ack.present, false)
	a.cut()
	a = a.again()
	equal(t, "session present before the expiry", a.ack.present, true)
	a.cut()
	watch.message()
	a = a.again()
	equal(t, "session present after the expiry", a.ack.present, false)
	a.disconnect()

	a = t.connect(hello{id: t.id("a"), props: props{}.four(propSessionExpiry, 1)})
	a.bye(frame(disconnect<<4, []byte{0}, long().section()))
	t.pass(2)
	a = a.again()
	equal(t, "session present after a DISCONNECT with a longer expiry", a.ack.present, true)
	a.bye(frame(disconnect<<4, []byte{0}, props{}.four(propSessionExpiry, 0).section()))
	equal(t, "session present after a DISCONNECT with an expiry of 0", a.again().ack.present, false)
}

func userProperties(t *test) {
	a := t.client(5, "a")
	a.subscribe(t.topic("A"), 2)
	for qos := range byte(3) {
		a.publish(message{topic: t.topic("A"), qos: qos, props: twoUsers()})
	}
	for i, m := range a.messages(3) {
		wantTwoUsers(t, m)
		equal(t, "QoS", m.qos, byte(i))
	}
}

func payloadFormat(t *test) {
	a := t.client(5, "a")
	a.subscribe(t.topic("A"), 2)
	for qos := range byte(3) {
		a.publish(message{topic: t.topic("A"), qos: qos, props: props{}.byte(propPayloadFormat, 1).text(propContentType, "My name")})
	}
	for i, m := range a.messages(3) {
		format, _ := m.props.number(propPayloadFormat)
		equal(t, "payload format", format, 1)
		kind, _ := m.props.text(propContentType)
		equal(t, "content type", kind, "My name")
		equal(t, "QoS", m.qos, byte(i))
	}
}

func publicationExpiry(t *test) {
	b := t.connect(hello{id: t.id("b"), props: long()})
	b.subscribe(t.topic("A"), 2)
	b.disconnect()
	a := t.client(5, "a")
	for _, m := range []struct {
		payload string
		expiry  uint32
	}{{"expire", 1}, {"stay", 600}} {
		for qos := byte(1); qos <= 2; qos++ {
			a.publish(message{topic: t.topic("A"), payload: m.payload, qos: qos, props: props{}.four(propMessageExpiry, m.expiry)})
		}
	}
	t.pass(3)
	for _, m := range b.again().payloads("stay", "stay") {
		if left, ok := m.props.number(propMessageExpiry); !ok || left >= 600 || left == 0 {
			t.fatalf("%v, want an expiry below 600 s", m)
		}
	}
}

func assignedID(t *test) {
	if id, _ := t.connect(hello{}).ack.props.text(propAssignedClientID); id == "" {
		t.fatalf("CONNACK has no assigned client identifier")
	}
}

func subscribeIdentifiers(t *test) {
	a, b := t.client(5, "a"), t.client(5, "b")
	a.subscribe(t.topic("A"), 2, props{}.subscription(456789))
	b.subscribe(t.topic("A"), 2, props{}.subscription(2))
	b.subscribe(t.topic("A/#"), 2, props{}.subscription(3))
	b.publish(message{topic: t.topic("A"), payload: "sub identifier test", qos: 1})
	same(t, "identifiers", a.messages(1)[0].props.subscriptions(), []int{456789})
	same(t, "identifiers", t.identifiers(b, b), []int{2, 3})
}

func requestResponse(t *test) {
	a, b := t.client(5, "a"), t.client(5, "b")
	a.subscribe(t.topic("A"), 2|noLocal)
	b.subscribe(t.topic("A"), 2|noLocal)
	ask := props{}.text(propResponseTopic, t.topic("A")).text(propCorrelationData, "334\x00\xff")
	a.publish(message{topic: t.topic("A"), payload: "request", qos: 1, props: ask})
	request := b.payloads("request")[0]
	topic, _ := request.props.text(propResponseTopic)
	equal(t, "response topic", topic, t.topic("A"))
	data, _ := request.props.text(propCorrelationData)
	equal(t, "correlation data", data, "334\x00\xff")
	b.publish(message{topic: topic, payload: "response", qos: 1, props: props{}.text(propCorrelationData, data)})
	response := a.payloads("response")[0]
	data, _ = response.props.text(propCorrelationData)
	equal(t, "correlation data", data, "334\x00\xff")
}

func serverKeepAlive(t *test) {
	limit := int(t.options.KeepAlive.Seconds())
	if limit == 0 {
		t.skipf("the longest keep alive that the broker allows is not known")
	}
	a := t.connect(hello{id: t.id("limited"), keepAlive: 120})
	if got, ok := a.ack.props.number(propServerKeepAlive); !ok || got != limit {
		t.fatalf("%v, want a Server Keep Alive of %d", a.ack, limit)
	}
}

func sharedSubscriptions(t *test) {
	a, b := t.client(5, "a"), t.client(5, "b")
	for _, c := range []*client{a, b} {
		same(t, "codes of SUBACK", c.subscribeAll(nil, filter{"$share/name/" + t.topic("x"), 2}, filter{t.topic("A"), 2}), []byte{2, 2})
	}
	b.publish(message{topic: t.topic("A"), payload: "for both", qos: 1})
	a.payloads("for both")
	b.payloads("for both")
	b.publish(message{topic: t.topic("x"), payload: "for one", qos: 1})
	b.publish(message{topic: t.topic("A"), payload: "end", qos: 1})
	got := 0
	for _, c := range []*client{a, b} {
		for m := c.message(); m.payload != "end"; m = c.message() {
			equal(t, "payload", m.payload, "for one")
			got++
		}
	}
	equal(t, "number of members that got the message", got, 1)
}

// identifiers returns all identifiers of what a client has got: one message has all of them, or one each.
func (t *test) identifiers(from, to *client) []int {
	var all properties
	for _, m := range t.gather(from, to)[0] {
		all = append(all, m.props...)
	}
	return all.subscriptions()
}
