package mqttconformance

// presence are the tests of what a broker says of a client that is gone.
func presence() []entry {
	list := []entry{
		{"takeover of a session that goes on brings no delayed will", takeoverDelayed},
		{"takeover with a new session sends a delayed will", takeoverClean},
		{"takeover by another version", takeoverAcross},
		{"DISCONNECT with 0x04 sends the will", func(t *test) { disconnectWith(t, []byte{4}, true) }},
		{"DISCONNECT with 0x04 and properties sends the will", func(t *test) { disconnectWith(t, []byte{4, 0}, true) }},
		{"DISCONNECT with 0x00 sends no will", func(t *test) { disconnectWith(t, []byte{0}, false) }},
		{"DISCONNECT with 0x00 and properties sends no will", func(t *test) { disconnectWith(t, []byte{0, 0}, false) }},
		{"DISCONNECT that is malformed sends the will", malformedDisconnect},
		{"packet that is malformed sends the will", malformedPacket},
		{"will delay ends with the session", delayEndsWithSession},
		{"will delay: a client that is back in time has no will sent", delayReconnect},
		{"will delay: a clean start sends the will", delayCleanStart},
		{"will is sent with its properties", willProperties},
		{"will is retained", willRetained},
		{"will is sent to a client that was away", willQueued},
		{"keep alive that is kept", keepAliveKept},
		{"keep alive that passes gives 0x8D", keepAlivePasses},
		{"server keep alive is obeyed", serverKeepAliveObeyed},
		{"assigned client id is unique and can be used", assignedIDUsed},
		{"client id of 3.1.1 that is empty is for itself", emptyIDs3},
		{"session is not present where there is none", func(t *test) {
			equal(t, "session present", t.connect(hello{id: t.id("a"), resume: true}).ack.present, false)
			equal(t, "session present", t.connect(hello{version: 4, id: t.id("b"), resume: true}).ack.present, false)
		}},
		{"session of 3.1.1 that is clean ends the one before", cleanSession3},
		{"protocol of 3.1", protocol31},
	}
	for _, v := range []struct {
		name    string
		version byte
	}{{"3.1.1 ", 4}, {"", 5}} {
		list = append(list,
			entry{v.name + "takeover ends the older connection", func(t *test) { takeover(t, v.version) }},
			entry{v.name + "takeover sends the will", func(t *test) { takeoverWill(t, v.version) }},
			entry{v.name + "clean DISCONNECT sends no will", func(t *test) { cleanDisconnect(t, v.version) }},
			entry{v.name + "cut sends the will", func(t *test) { cutWill(t, v.version) }})
	}
	return list
}

// witness returns a client that sees the wills of a test, and will the will that it sees.
func (t *test) witness() (c *client, will *message) {
	c = t.client(5, "witness")
	c.subscribe(t.topic("will"), 1)
	return c, &message{topic: t.topic("will"), payload: "will", qos: 1}
}

// marks wants nothing before a marker: another client's will, which is sent after all that was to be sent before.
func (c *client) marks() {
	c.t.connect(hello{id: c.t.id("marker"), will: &message{topic: c.t.topic("will"), payload: "marker", qos: 1}}).cut()
	c.payloads("marker")
}

// delayed returns a will with a delay in seconds.
func (m message) delayed(seconds uint32) *message {
	m.props = props{}.four(propWillDelay, seconds)
	return &m
}

func takeover(t *test, version byte) {
	older := t.client(version, "a")
	newer := t.client(version, "a")
	older.ends(0x8e)
	newer.ping()
}

func takeoverAcross(t *test) {
	older := t.client(4, "a")
	middle := t.client(5, "a")
	older.ends()
	newer := t.client(4, "a")
	middle.ends(0x8e)
	newer.ping()
}

func takeoverWill(t *test, version byte) {
	w, will := t.witness()
	h := hello{version: version, id: t.id("a"), will: will}
	older := t.connect(h)
	h.will = nil
	newer := t.connect(h)
	older.ends(0x8e)
	w.payloads("will")
	newer.disconnect()
	w.marks()
}

func takeoverDelayed(t *test) {
	w, will := t.witness()
	h := hello{id: t.id("a"), will: will.delayed(1), props: long()}
	older := t.connect(h)
	h.will = nil
	newer := older.again()
	older.ends(0x8e)
	equal(t, "session present", newer.ack.present, true)
	t.pass(2)
	newer.disconnect()
	w.marks()
}

func takeoverClean(t *test) {
	w, will := t.witness()
	older := t.connect(hello{id: t.id("a"), will: will.delayed(600), props: long()})
	t.connect(hello{id: t.id("a")})
	older.ends(0x8e)
	w.payloads("will")
}

// disconnectWith sends a DISCONNECT with this body.
func disconnectWith(t *test, body []byte, sent bool) {
	w, will := t.witness()
	t.connect(hello{id: t.id("a"), will: will}).bye(frame(disconnect<<4, body))
	if sent {
		w.payloads("will")
	}
	w.marks()
}

func cleanDisconnect(t *test, version byte) {
	w, will := t.witness()
	t.connect(hello{version: version, id: t.id("a"), will: will}).disconnect()
	w.marks()
}

func cutWill(t *test, version byte) {
	w, will := t.witness()
	t.connect(hello{version: version, id: t.id("a"), will: will}).cut()
	w.payloads("will")
}

func malformedDisconnect(t *test) {
	w, will := t.witness()
	for _, version := range []byte{4, 5} {
		c := t.connect(hello{version: version, id: t.id("a"), will: will})
		c.send(frame(disconnect<<4 | 1))
		c.ends(0x81)
		w.payloads("will")
	}
}

func malformedPacket(t *test) {
	w, will := t.witness()
	for _, version := range []byte{4, 5} {
		c := t.connect(hello{version: version, id: t.id("a"), will: will})
		c.send(message{topic: t.topic("x"), qos: 3, id: 1}.encode(version))
		c.ends(0x81)
		w.payloads("will")
	}
}

func delayEndsWithSession(t *test) {
	w, will := t.witness()
	t.connect(hello{id: t.id("a"), will: will.delayed(600), props: props{}.four(propSessionExpiry, 1)}).cut()
	w.payloads("will")
	c := t.connect(hello{id: t.id("a"), will: will.delayed(600), props: long()})
	c.bye(frame(disconnect<<4, []byte{4}, props{}.four(propSessionExpiry, 0).section()))
	w.payloads("will")
}

func delayReconnect(t *test) {
	w, will := t.witness()
	a := t.connect(hello{id: t.id("a"), will: will.delayed(2), props: long()})
	a.cut()
	a = a.again()
	equal(t, "session present", a.ack.present, true)
	t.pass(3)
	a.disconnect()
	w.marks()
}

func delayCleanStart(t *test) {
	w, will := t.witness()
	t.connect(hello{id: t.id("a"), will: will.delayed(600), props: long()}).cut()
	t.connect(hello{id: t.id("a")})
	w.payloads("will")
}

func willProperties(t *test) {
	w, will := t.witness()
	will.props = twoUsers().byte(propPayloadFormat, 1).text(propContentType, "x/y").text(propResponseTopic, "back").
		text(propCorrelationData, "\x00\x01").four(propMessageExpiry, 600)
	t.connect(hello{id: t.id("a"), will: will}).cut()
	m := w.payloads("will")[0]
	wantTwoUsers(t, m)
	for id, want := range map[byte]string{propContentType: "x/y", propResponseTopic: "back", propCorrelationData: "\x00\x01"} {
		if got, _ := m.props.text(id); got != want {
			t.fatalf("%v, want %q as property %#x", m, want, id)
		}
	}
	if _, ok := m.props.number(propWillDelay); ok {
		t.fatalf("%v has a will delay", m)
	}
	left, _ := m.props.number(propMessageExpiry)
	if format, _ := m.props.number(propPayloadFormat); format != 1 || left == 0 || left > 600 {
		t.fatalf("%v, want the payload format 1 and an expiry up to 600 s", m)
	}
	equal(t, "QoS", m.qos, 1)
}

func willRetained(t *test) {
	w, will := t.witness()
	will.retain = true
	t.connect(hello{id: t.id("a"), will: will}).cut()
	equal(t, "retain for a subscription that was there", w.payloads("will")[0].retain, false)
	b := t.client(4, "b")
	b.subscribe(t.topic("will"), 1)
	equal(t, "retain for a new subscription", b.payloads("will")[0].retain, true)
	b.publish(message{topic: t.topic("will"), retain: true})
}

func willQueued(t *test) {
	w, will := t.witness()
	b := t.lasting(4, "b")
	b.subscribe(t.topic("will"), 1)
	b.disconnect()
	t.connect(hello{id: t.id("a"), will: will}).cut()
	w.payloads("will")
	b.again().payloads("will")
}
