package mqttconformance

import "slices"

// flowSubscriptions are the tests of the options of subscriptions.
func flowSubscriptions() []entry {
	return []entry{
		{"subscription identifiers: all of those that match", identifiersOverlap},
		{"subscription identifier: SUBSCRIBE again changes it", identifierChanged},
		{"subscription identifier: of a retained message", identifierRetained},
		{"subscription identifier: kept over a cut", identifierKept},
		{"subscription identifier: the largest one", identifierLargest},
		{"no local", noLocalKept},
		{"no local of one of two subscriptions", noLocalOne},
		{"retain as published", retainAsPublishedKept},
	}
}

func identified(id int) props { return props{}.subscription(id) }

func identifiersOverlap(t *test) {
	a := t.client(5, "a")
	a.subscribe(t.topic("A/b"), 0, identified(1))
	a.subscribe(t.topic("A/+"), 1, identified(200))
	a.subscribe(t.topic("#"), 2, identified(30000))
	a.subscribe(t.topic("+/b"), 0)
	a.subscribe(t.topic("B"), 1, identified(4))
	a.publishAll(t.topic("A/b"), 1, "x")
	same(t, "identifiers", t.identifiers(a, a), []int{1, 200, 30000})
	a.publishAll(t.topic("A/c"), 1, "x")
	same(t, "identifiers", t.identifiers(a, a), []int{200, 30000})
}

func identifierChanged(t *test) {
	a := t.client(5, "a")
	a.subscribe(t.topic("A"), 1, identified(1))
	a.subscribe(t.topic("A"), 1, identified(2))
	a.publishAll(t.topic("A"), 1, "x")
	same(t, "identifiers", a.messages(1)[0].props.subscriptions(), []int{2})
	a.subscribe(t.topic("A"), 1)
	a.publishAll(t.topic("A"), 1, "x")
	same(t, "identifiers", a.messages(1)[0].props.subscriptions(), nil)
}

func identifierRetained(t *test) {
	a := t.client(5, "a")
	a.publish(message{topic: t.topic("A"), payload: "x", qos: 1, retain: true})
	a.subscribe(t.topic("#"), 1, identified(7))
	same(t, "identifiers", a.payloads("x")[0].props.subscriptions(), []int{7})
}

func identifierKept(t *test) {
	to := t.lasting(5, "to")
	to.subscribe(t.topic("A"), 1, identified(7))
	to.disconnect()
	t.client(5, "from").publishAll(t.topic("A"), 1, "x")
	same(t, "identifiers", to.again().payloads("x")[0].props.subscriptions(), []int{7})
}

func identifierLargest(t *test) {
	a := t.client(5, "a")
	a.subscribe(t.topic("A"), 1, identified(268_435_455))
	a.publishAll(t.topic("A"), 1, "x")
	same(t, "identifiers", a.messages(1)[0].props.subscriptions(), []int{268_435_455})
}

func noLocalKept(t *test) {
	a, b := t.lasting(5, "a"), t.client(5, "b")
	a.subscribe(t.topic("A"), 1|noLocal)
	a.publishAll(t.topic("A"), 1, "own")
	b.publishAll(t.topic("A"), 1, "other")
	a.payloads("other")
	a.cut()
	a = a.again()
	a.publishAll(t.topic("A"), 1, "own")
	b.publishAll(t.topic("A"), 1, "other")
	a.payloads("other")
}

// noLocalOne has two subscriptions that match, of which one has no local: the other one brings the message.
func noLocalOne(t *test) {
	a := t.client(5, "a")
	a.subscribe(t.topic("A"), 1|noLocal, identified(1))
	a.subscribe(t.topic("+"), 1, identified(2))
	a.publishAll(t.topic("A"), 1, "own")
	same(t, "identifiers", a.messages(1)[0].props.subscriptions(), []int{2})
}

func retainAsPublishedKept(t *test) {
	a, b := t.client(5, "a"), t.client(5, "b")
	a.subscribe(t.topic("A"), 1|retainAsPublished)
	b.subscribe(t.topic("A"), 1)
	from := t.client(4, "from")
	for _, retain := range []bool{true, false} {
		from.publish(message{topic: t.topic("A"), payload: "x", qos: 1, retain: retain})
		equal(t, "retain as published", a.payloads("x")[0].retain, retain)
		equal(t, "retain without the option", b.payloads("x")[0].retain, false)
	}
	c := t.client(5, "c")
	c.subscribe(t.topic("A"), 1)
	equal(t, "retain of a retained message", c.payloads("x")[0].retain, true)
}

// flowShared are the tests of shared subscriptions.
func flowShared() []entry {
	return []entry{
		{"$share: each message goes to one member", shareOnce},
		{"$share: groups do not share with each other", shareGroups},
		{"$share: with a subscription beside it", shareBeside},
		{"$share: QoS 1 of a member that goes is given to another", shareGone},
		{"$share: QoS 2 of a member that goes is given to nobody", shareGone2},
		{"$share: what a member rejects is given to nobody", shareRejected},
		{"$share: a member that has left gets nothing", shareLeft},
		{"$share: no retained messages", shareRetained},
		{"$share: messages wait for the only member", shareAway},
		{"$share: subscription identifier", shareIdentifier},
	}
}

// members returns members of a group, and a client that publishes.
func (t *test) members(names ...string) (list []*client, from *client) {
	for _, name := range names {
		c := t.client(5, name)
		c.subscribe(t.shared("g"), 2)
		list = append(list, c)
	}
	return list, t.client(5, "from")
}

// shared returns the filter of a group. Groups of other tests have other topics.
func (t *test) shared(group string) string { return "$share/" + group + "/" + t.topic("S") }

func shareOnce(t *test) {
	list, from := t.members("a", "b", "c")
	want := []string{"0", "1", "2", "3", "4", "5", "6", "7", "8"}
	for i, payload := range want {
		from.publish(message{topic: t.topic("S"), payload: payload, qos: byte(i % 3)})
	}
	same(t, "messages", payloads(t.gather(from, list...)...), want)
}

func shareGroups(t *test) {
	list, from := t.members("a", "b")
	other := t.client(5, "other")
	other.subscribe(t.shared("h"), 1)
	from.publishAll(t.topic("S"), 1, "1", "2", "3")
	same(t, "messages of the first group", payloads(t.gather(from, list...)...), []string{"1", "2", "3"})
	same(t, "messages of the second group", payloads(t.gather(from, other)...), []string{"1", "2", "3"})
}

func shareBeside(t *test) {
	list, from := t.members("a")
	list[0].subscribe(t.topic("S"), 1)
	from.publishAll(t.topic("S"), 1, "x")
	same(t, "messages", payloads(t.gather(from, list...)...), []string{"x", "x"})
}

// shareGone ends the session of the member that has a message and did not acknowledge it.
func shareGone(t *test) {
	a, rest := t.holder(1)
	a.disconnect()
	rest.payloads("x")
}

func shareGone2(t *test) {
	a, rest := t.holder(2)
	a.disconnect()
	rest.nothing()
}

func shareRejected(t *test) {
	a, rest := t.holder(1)
	for id := range a.inflight {
		a.send(encodeAck(puback, id, 0x97))
	}
	a.ping()
	rest.nothing()
}

// holder publishes a message to a group of two, and returns the member that has got it and the other one.
func (t *test) holder(qos byte) (holder, other *client) {
	list, from := t.members("a", "b")
	for _, c := range list {
		c.manual = true
	}
	from.publishAll(t.topic("S"), qos, "x")
	got := t.gather(from, list...)
	equal(t, "number of messages", len(got[0])+len(got[1]), 1)
	if len(got[0]) == 0 {
		slices.Reverse(list)
	}
	list[1].manual = false
	return list[0], list[1]
}

func shareLeft(t *test) {
	list, from := t.members("a", "b", "c")
	list[0].unsubscribe(t.shared("g"))
	list[1].disconnect()
	from.publishAll(t.topic("S"), 1, "1", "2", "3", "4")
	list[0].nothing()
	list[2].payloads("1", "2", "3", "4")
}

func shareRetained(t *test) {
	from := t.client(5, "from")
	from.publish(message{topic: t.topic("S"), payload: "x", qos: 1, retain: true})
	a := t.client(5, "a")
	a.subscribe(t.shared("g"), 1)
	a.nothing()
	from.publish(message{topic: t.topic("S"), retain: true})
}

func shareAway(t *test) {
	a := t.lasting(5, "a")
	a.subscribe(t.shared("g"), 1)
	a.disconnect()
	t.client(5, "from").publishAll(t.topic("S"), 1, "1", "2")
	a.again().payloads("1", "2")
}

func shareIdentifier(t *test) {
	a := t.client(5, "a")
	a.subscribe(t.shared("g"), 1, identified(5))
	a.publishAll(t.topic("S"), 1, "x")
	same(t, "identifiers", a.messages(1)[0].props.subscriptions(), []int{5})
}

// payloads returns the payloads of messages, sorted.
func payloads(all ...[]packet) []string {
	var list []string
	for _, m := range slices.Concat(all...) {
		list = append(list, m.payload)
	}
	slices.Sort(list)
	return list
}
