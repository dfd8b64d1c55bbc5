package mqttconformance

// flowRetained are the tests of retained messages.
func flowRetained() []entry {
	return []entry{
		{"retain handling 0 of a subscription that is there", func(t *test) { retainHandling(t, 0, 1, 1) }},
		{"retain handling 1 of a subscription that is there", func(t *test) { retainHandling(t, retainIfNew, 1, 0) }},
		{"retain handling 2", func(t *test) { retainHandling(t, retainNever, 0, 0) }},
		{"retain handling 1 after UNSUBSCRIBE", retainHandlingNew},
		{"retained message is replaced", retainedReplaced},
		{"retained message is removed by an empty one", retainedRemoved},
		{"retained message comes with the lower QoS", retainedQoS},
		{"retained message outlives its publisher", retainedOutlives},
		{"retained messages of several filters", retainedSeveral},
		{"retained message comes to all filters that match, at each SUBSCRIBE", retainedOverlap},
		{"retained messages keep their properties", retainedProperties},
		{"retained messages of $ topics do not match a wildcard", retainedDollar},
	}
}

// kept publishes a retained message with QoS 1, and returns its client.
func (t *test) kept(name, payload string) *client {
	c := t.client(5, "keeper")
	c.publish(message{topic: t.topic(name), payload: payload, qos: 1, retain: true})
	return c
}

func retainHandling(t *test, options byte, first, second int) {
	t.kept("A", "x")
	a := t.client(5, "a")
	for _, n := range []int{first, second} {
		a.subscribe(t.topic("A"), 1|options)
		a.messages(n)
	}
}

func retainHandlingNew(t *test) {
	t.kept("A", "x")
	a := t.client(5, "a")
	a.subscribe(t.topic("A"), 1|retainIfNew)
	a.payloads("x")
	a.unsubscribe(t.topic("A"))
	a.subscribe(t.topic("A"), 1|retainIfNew)
	a.payloads("x")
}

func retainedReplaced(t *test) {
	t.kept("A", "old").disconnect()
	t.kept("A", "new")
	a := t.client(4, "a")
	a.subscribe(t.topic("A"), 1)
	equal(t, "retain", a.payloads("new")[0].retain, true)
}

func retainedRemoved(t *test) {
	c := t.kept("A", "x")
	a := t.client(5, "a")
	a.subscribe(t.topic("A"), 1|retainNever)
	for qos := range byte(3) {
		c.publish(message{topic: t.topic("A"), payload: "x", qos: 1, retain: true})
		c.publish(message{topic: t.topic("A"), qos: qos, retain: true})
		c.ping()
		for _, m := range a.payloads("x", "") { // those who listen get the empty one as any other
			equal(t, "retain", m.retain, false)
		}
		b := t.client(5, "b")
		b.subscribe(t.topic("A"), 1)
		b.nothing()
	}
}

func retainedQoS(t *test) {
	c := t.client(5, "c")
	for qos := range byte(3) {
		c.publish(message{topic: t.topic("A"), payload: "x", qos: qos, retain: true})
		c.ping()
		for granted := range byte(3) {
			a := t.client(5, "a")
			a.subscribe(t.topic("A"), granted)
			equal(t, "QoS", a.payloads("x")[0].qos, min(qos, granted))
			a.disconnect()
		}
	}
}

func retainedOutlives(t *test) {
	c := t.kept("A", "x")
	c.disconnect()
	a := t.client(4, "a")
	a.subscribe(t.topic("+"), 1)
	a.payloads("x")
}

func retainedSeveral(t *test) {
	t.kept("A", "a").disconnect()
	t.kept("B/c", "b")
	a := t.client(5, "a")
	a.subscribeAll(nil, filter{t.topic("A"), 1}, filter{t.topic("+/c"), 1}, filter{t.topic("none"), 1})
	same(t, "messages", payloads(t.gather(a, a)...), []string{"a", "b"})
}

func retainedOverlap(t *test) {
	t.kept("A", "x")
	a := t.client(5, "a")
	a.subscribe(t.topic("A"), 1)
	a.payloads("x")
	a.subscribe(t.topic("+"), 1)
	a.payloads("x")
}

func retainedProperties(t *test) {
	c := t.client(5, "c")
	c.publish(message{topic: t.topic("A"), payload: "x", qos: 1, retain: true, props: twoUsers()})
	for range 2 {
		a := t.client(5, "a")
		a.subscribe(t.topic("A"), 1)
		wantTwoUsers(t, a.payloads("x")[0])
	}
}

func retainedDollar(t *test) {
	c := t.client(5, "c")
	topic := t.dollar("A")
	if code := c.publish(message{topic: topic, payload: "x", qos: 1, retain: true}); code >= 0x80 {
		t.skipf("the broker takes no messages on %s", topic)
	}
	a := t.client(5, "a")
	a.subscribe("+/+/A", 1|retainIfNew)
	for _, m := range t.gather(c, a)[0] {
		if m.topic == topic {
			t.fatalf("%v for a subscription to +/+/A", m)
		}
	}
	c.publish(message{topic: topic, retain: true})
}
