package mqttconformance

import "strings"

// badTexts are texts that MQTT forbids, by their names (MQTT 5, section 1.5.4).
func badTexts() map[string]string {
	return map[string]string{
		"invalid UTF-8": "a\xff", "an overlong code": "a\xc0\xaf", "a surrogate": "a\xed\xa0\x80", "a null character": "a\x00b", "a code that is cut": "a\xe2\x82",
	}
}

// raw returns a CONNECT from its parts. It has a client identifier, unless payload has one.
func raw(version, flags byte, properties []byte, payload ...[]byte) []byte {
	if version < 5 {
		properties = nil
	}
	if len(payload) == 0 {
		payload = [][]byte{text(place)}
	}
	return frame(connect<<4, append([][]byte{text("MQTT"), {version, flags, 0, 30}, properties}, payload...)...)
}

// badConnects are wrong in both versions, but for those at the end.
func badConnects(version byte) []bad {
	none := []byte{0}
	id := text(place)
	var will []byte
	if version == 5 {
		will = none
	}
	good := raw(version, 2, none)
	list := []bad{
		badPacket("flags of the header", append([]byte{connect<<4 | 1}, good[1:]...)),
		badPacket("reserved flag", raw(version, 3, none)),
		badPacket("will QoS 3", raw(version, 0x1e, none, id, will, text("w"), text(""))),
		badEither("will QoS without a will", raw(version, 0x0a, none)),
		badEither("retained will without a will", raw(version, 0x22, none)),
		badPacket("user name that is missing", raw(version, 0x82, none)),
		badPacket("password that is missing", raw(version, 0xc2, none, id, text("user"))),
		badPacket("will that is missing", raw(version, 0x06, none)),
		badPacket("bytes behind the end", raw(version, 2, none, id, []byte("x"))),
		badPacket("no client identifier", frame(connect<<4, good[2:len(good)-len(id)])),
		badPacket("end within the flags", frame(connect<<4, good[2:9])),
		badPacket("empty", frame(connect<<4)),
		badPacket("length of 5 bytes", append([]byte{connect << 4, 0xff, 0xff, 0xff, 0xff, 0x01}, good[2:]...)),
		{"will topic with a wildcard", raw(version, 0x06, none, id, will, text("a/#"), text("")), []byte{0x81, 0x82, 0x90}},
		{"empty will topic", raw(version, 0x06, none, id, will, text(""), text("")), []byte{0x81, 0x82, 0x90}},
	}
	for name, s := range sorted(badTexts()) {
		list = append(list,
			bad{"client identifier with " + name, raw(version, 2, none, text(s)), []byte{0x81, 0x85}},
			badPacket("will topic with "+name, raw(version, 0x06, none, id, will, text(s), text(""))),
			badPacket("user name with "+name, raw(version, 0x82, none, id, text(s))))
	}
	if version == 5 {
		return append(list, badConnectProperties()...)
	}
	return append(list, badPacket("password without a user name", raw(version, 0x42, none, id, text("secret"))))
}

func badConnectProperties() []bad {
	with := func(p props) []byte { return raw(5, 2, p.section()) }
	long := func(b ...byte) []byte { return raw(5, 2, b) }
	list := []bad{
		badUse("Receive Maximum 0", with(props{}.two(propReceiveMaximum, 0))),
		badUse("Maximum Packet Size 0", with(props{}.four(propMaximumPacketSize, 0))),
		badUse("Request Response Information 2", with(props{}.byte(propRequestResponseInfo, 2))),
		badUse("Request Problem Information 2", with(props{}.byte(propRequestProblemInfo, 2))),
		badUse("authentication data without a method", with(props{}.text(propAuthData, "x"))),
		badPacket("property that is not for it", with(props{}.two(propTopicAlias, 1))),
		badPacket("property of a will", with(props{}.four(propWillDelay, 1))),
		badPacket("property of a broker", with(props{}.byte(propMaximumQoS, 1))),
		badPacket("unknown property", with(props{}.byte(0x7f, 1))),
		badPacket("property that is cut", with(props{}.byte(propSessionExpiry, 1))),
		badPacket("properties longer than the packet", frame(connect<<4, text("MQTT"), []byte{5, 2, 0, 30, 100})),
		badPacket("length of properties in 5 bytes", long(0x80, 0x80, 0x80, 0x80, 0)),
		badPacket("length of properties in more bytes than it needs", long(0x80, 0)),
		badPacket("user property with invalid UTF-8", with(props{}.pair("k", "\xff"))),
		badPacket("method with invalid UTF-8", with(props{}.text(propAuthMethod, "\xff"))),
	}
	for name, p := range sorted(map[string]props{
		"Session Expiry Interval":      props{}.four(propSessionExpiry, 1),
		"Receive Maximum":              props{}.two(propReceiveMaximum, 1),
		"Maximum Packet Size":          props{}.four(propMaximumPacketSize, 100),
		"Topic Alias Maximum":          props{}.two(propTopicAliasMaximum, 1),
		"Request Response Information": props{}.byte(propRequestResponseInfo, 1),
		"Request Problem Information":  props{}.byte(propRequestProblemInfo, 1),
		"authentication method":        props{}.text(propAuthMethod, "x"),
	}) {
		list = append(list, badUse(name+" twice", with(append(p, p...))))
	}
	return list
}

// badWills are properties of a will.
func badWills() []bad {
	with := func(p props) []byte { return raw(5, 0x06, []byte{0}, text(place), p.section(), text("w"), text("")) }
	list := []bad{
		badPacket("will with a property of CONNECT", with(props{}.four(propSessionExpiry, 1))),
		badPacket("will with a topic alias", with(props{}.two(propTopicAlias, 1))),
		badPacket("will with a content type of invalid UTF-8", with(props{}.text(propContentType, "\xff"))),
		badEither("will with a response topic with a wildcard", with(props{}.text(propResponseTopic, "a/+")), 0x90),
	}
	for name, p := range sorted(messageProperties()) {
		list = append(list, badUse("will with "+name+" twice", with(append(p, p...))))
	}
	p := props{}.four(propWillDelay, 1)
	return append(list, badUse("will with a delay twice", with(append(p, p...))))
}

// messageProperties are those of messages and wills that may come once.
func messageProperties() map[string]props {
	return map[string]props{
		"payload format":   props{}.byte(propPayloadFormat, 1),
		"message expiry":   props{}.four(propMessageExpiry, 100),
		"content type":     props{}.text(propContentType, "x"),
		"response topic":   props{}.text(propResponseTopic, "x"),
		"correlation data": props{}.text(propCorrelationData, "x"),
	}
}

// first are packets before CONNECT. A broker does not know the version yet, so it may close without a word.
func first() []bad {
	return []bad{
		badEither("PUBLISH", message{topic: place}.encode(4)),
		badEither("SUBSCRIBE", encodeSubscribe(4, 1, nil, filter{place, 1})),
		badEither("UNSUBSCRIBE", encodeUnsubscribe(4, 1, place)),
		badEither("PUBACK", encodeAck(puback, 1, 0)),
		badEither("PUBREL", encodeAck(pubrel, 1, 0)),
		badEither("PINGREQ", frame(pingreq<<4)),
		badEither("DISCONNECT", frame(disconnect<<4)),
		badEither("AUTH", frame(auth<<4)),
		badEither("CONNACK", frame(connack<<4, []byte{0, 0, 0})),
		badEither("HTTP", []byte("GET / HTTP/1.1\r\nHost: x\r\nUser-Agent: "+strings.Repeat("x", 80)+"\r\n\r\n")),
		badEither("a handshake of TLS", append([]byte{0x16, 3, 1, 0, 50, 1, 0, 0, 46, 3, 3}, make([]byte, 44)...)),
	}
}
