package mqttconformance

import "slices"

// flow are the tests of messages.
func flow() []entry {
	return slices.Concat(flowSessions(), flowLimits(), flowSubscriptions(), flowShared(), flowRetained(), flowMessages())
}

// flowSessions are the tests of messages that a cut interrupts.
func flowSessions() []entry {
	var list []entry
	for _, v := range []struct {
		name    string
		version byte
	}{{"3.1.1 ", 4}, {"", 5}} {
		with := func(name string, run func(*test, byte)) {
			list = append(list, entry{v.name + name, func(t *test) { run(t, v.version) }})
		}
		with("messages that were not acknowledged come again, in order, with DUP and their ids", redelivered)
		with("messages of a client that is away come in order", awayInOrder)
		with("QoS 2 to a client: cut before PUBREC", qos2ToBeforeRec)
		with("QoS 2 to a client: cut before PUBCOMP", qos2ToBeforeComp)
		with("QoS 2 from a client: cut before PUBREC is read", qos2FromBeforeRec)
		with("QoS 2 from a client: cut before PUBCOMP is read", qos2FromBeforeComp)
		with("QoS 2 from a client: a second PUBLISH is no second message", qos2FromTwice)
		with("QoS 2 is published once PUBREL or PUBLISH has come", qos2Order)
		with("acknowledged messages do not come again", acknowledgedOnce)
		with("subscriptions outlive a cut", subscriptionsLast)
		with("PUBACK comes in the order of PUBLISH", ackOrder)
		with("DUP of a client is not passed on", dupNotPassed)
		with("messages of one client keep their order", orderKept)
		with("a client gets its own messages", ownMessages)
		with("QoS is the lower one of message and subscription", lowerQoS)
		with("QoS 1 and 2 to $SYS are answered", sysAnswered)
		with("UNSUBSCRIBE of what was not subscribed is answered", unsubscribeUnknown)
		with("SUBSCRIBE of several filters has a code for each", severalFilters)
		with("SUBSCRIBE again replaces the subscription", subscribeAgain)
		with("wildcards match what they must", wildcards)
		with("message of 100 kB", largeMessage)
		with("message of no bytes", emptyMessage)
	}
	return list
}

// receiver returns a client with a session that lasts and a subscription with QoS 2, and a client that publishes.
func (t *test) receiver(version byte) (to, from *client) {
	to = t.lasting(version, "to")
	to.subscribe(t.topic("A"), 2)
	return to, t.client(version, "from")
}

func redelivered(t *test, version byte) {
	to, from := t.receiver(version)
	to.manual = true
	from.publishAll(t.topic("A"), 1, "1", "2")
	from.publishAll(t.topic("A"), 2, "3", "4")
	from.publishAll(t.topic("A"), 1, "5")
	before := to.payloads("1", "2", "3", "4", "5")
	to.cut()
	to = to.again()
	equal(t, "session present", to.ack.present, true)
	to.manual = true
	for i, m := range to.payloads("1", "2", "3", "4", "5") {
		equal(t, "DUP", m.dup, true)
		equal(t, "packet identifier", m.id, before[i].id)
		equal(t, "QoS", m.qos, before[i].qos)
		equal(t, "topic", m.topic, t.topic("A"))
	}
}

func awayInOrder(t *test, version byte) {
	to, from := t.receiver(version)
	to.disconnect()
	want := []string{"1", "2", "3", "4", "5", "6"}
	for i, payload := range want {
		from.publish(message{topic: t.topic("A"), payload: payload, qos: byte(i%2) + 1})
	}
	for _, m := range to.again().payloads(want...) {
		equal(t, "DUP of a message that was never sent", m.dup, false)
	}
}

func qos2ToBeforeRec(t *test, version byte) {
	to, from := t.receiver(version)
	to.manual = true
	from.publishAll(t.topic("A"), 2, "x")
	before := to.message()
	to.cut()
	to = to.again()
	to.manual = true
	m := to.message()
	equal(t, "DUP", m.dup, true)
	equal(t, "packet identifier", m.id, before.id)
	to.acknowledge(m)
	equal(t, "packet identifier of PUBREL", to.await(pubrel).id, m.id)
	to.complete(m.id)
	to.nothing()
}

func qos2ToBeforeComp(t *test, version byte) {
	to, from := t.receiver(version)
	to.manual = true
	from.publishAll(t.topic("A"), 2, "x")
	m := to.message()
	to.acknowledge(m)
	to.await(pubrel)
	to.cut()
	to = to.again()
	to.manual = true
	equal(t, "packet identifier of the second PUBREL", to.await(pubrel).id, m.id)
	to.complete(m.id)
	to.nothing()
	to.cut()
	to = to.again()
	to.manual = true
	to.nothing()
}

func qos2FromBeforeRec(t *test, version byte) {
	to, _ := t.receiver(version)
	from := t.lasting(version, "from")
	m := message{topic: t.topic("A"), payload: "x", qos: 2, id: 7}
	from.send(m.encode(version))
	from.answer(pubrec, 7)
	from.cut()
	from = from.again()
	m.dup = true
	from.publish(m)
	from.publishAll(t.topic("A"), 2, "end")
	to.payloads("x", "end")
}

func qos2FromBeforeComp(t *test, version byte) {
	to, _ := t.receiver(version)
	from := t.lasting(version, "from")
	from.send(message{topic: t.topic("A"), payload: "x", qos: 2, id: 7}.encode(version))
	from.answer(pubrec, 7)
	from.send(encodeAck(pubrel, 7, 0))
	from.answer(pubcomp, 7)
	from.cut()
	from = from.again()
	from.send(encodeAck(pubrel, 7, 0))
	from.answer(pubcomp, 7) // with 0x92 in MQTT 5, for it is not known any more
	from.publishAll(t.topic("A"), 2, "end")
	to.payloads("x", "end")
}

func qos2FromTwice(t *test, version byte) {
	to, from := t.receiver(version)
	m := message{topic: t.topic("A"), payload: "x", qos: 2, id: 7}
	for range 3 {
		from.send(m.encode(version))
		from.answer(pubrec, 7)
		m.dup = true
	}
	from.send(encodeAck(pubrel, 7, 0))
	from.answer(pubcomp, 7)
	m.dup, m.payload = false, "a new message with the same id"
	from.publish(m)
	to.payloads("x", "a new message with the same id")
}

// qos2Order allows both methods of MQTT (section 4.3.3).
func qos2Order(t *test, version byte) {
	to, from := t.receiver(version)
	from.send(message{topic: t.topic("A"), payload: "x", qos: 2, id: 7}.encode(version))
	from.answer(pubrec, 7)
	to.ping()
	early := len(to.inbox)
	from.send(encodeAck(pubrel, 7, 0))
	from.answer(pubcomp, 7)
	m := to.payloads("x")[0]
	equal(t, "QoS", m.qos, 2)
	if early > 1 {
		t.fatalf("%d messages before PUBREL", early)
	}
}

func acknowledgedOnce(t *test, version byte) {
	to, from := t.receiver(version)
	from.publishAll(t.topic("A"), 1, "1")
	from.publishAll(t.topic("A"), 2, "2")
	to.payloads("1", "2")
	to.ping() // PUBREL has come and was answered
	to.ping()
	to.cut()
	to = to.again()
	equal(t, "session present", to.ack.present, true)
	to.nothing()
}

func subscriptionsLast(t *test, version byte) {
	to, from := t.receiver(version)
	to.cut()
	to = to.again()
	from.publishAll(t.topic("A"), 0, "x")
	from.ping()
	to.payloads("x")
	to.unsubscribe(t.topic("A"))
	to.cut()
	to = to.again()
	from.publishAll(t.topic("A"), 1, "y")
	to.nothing()
}

func ackOrder(t *test, version byte) {
	c := t.client(version, "a")
	var all []byte
	for id := uint16(1); id <= 9; id++ {
		all = append(all, message{topic: t.topic("A"), qos: 1, id: id}.encode(version)...)
	}
	c.send(all)
	for id := uint16(1); id <= 9; id++ {
		c.answer(puback, id)
	}
}

func dupNotPassed(t *test, version byte) {
	to, from := t.receiver(version)
	for qos := byte(1); qos <= 2; qos++ {
		from.publish(message{topic: t.topic("A"), payload: "x", qos: qos, dup: true})
		equal(t, "DUP", to.payloads("x")[0].dup, false)
	}
}
