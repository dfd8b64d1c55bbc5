package mqttconformance

func badPublishes() []bad {
	with := func(p props) []byte { return message{topic: place, props: p}.encode(5) }
	list := []bad{
		badPacket("PUBLISH: QoS 3", message{topic: place, qos: 3, id: 1}.encode(5)),
		badEither("PUBLISH: DUP with QoS 0", message{topic: place, dup: true}.encode(5)),
		badEither("PUBLISH: packet id 0 with QoS 1", message{topic: place, qos: 1}.encode(5)),
		badEither("PUBLISH: packet id 0 with QoS 2", message{topic: place, qos: 2}.encode(5)),
		badEither("PUBLISH: topic with +", message{topic: "a/+/b"}.encode(5), 0x90),
		badEither("PUBLISH: topic with #", message{topic: "a/#"}.encode(5), 0x90),
		badUse("PUBLISH: no topic and no alias", message{}.encode(5)),
		badEither("PUBLISH: topic alias 0", with(props{}.two(propTopicAlias, 0)), 0x94),
		badEither("PUBLISH: subscription identifier", with(props{}.subscription(1))),
		badEither("PUBLISH: response topic with a wildcard", with(props{}.text(propResponseTopic, "a/#")), 0x90),
		badPacket("PUBLISH: property that is not for it", with(props{}.two(propReceiveMaximum, 1))),
		badPacket("PUBLISH: property of a will", with(props{}.four(propWillDelay, 1))),
		badPacket("PUBLISH: unknown property", with(props{}.byte(0x00, 1))),
		badPacket("PUBLISH: property that is cut", with(props{propMessageExpiry, 1})),
		badPacket("PUBLISH: properties longer than the packet", frame(publish<<4, text(place), []byte{5, 1, 1})),
		badPacket("PUBLISH: topic longer than the packet", frame(publish<<4, []byte{0, 9, 'a'})),
		badPacket("PUBLISH: end before the packet id", frame(publish<<4|2, text(place), []byte{1})),
		badPacket("PUBLISH: end before the properties", frame(publish<<4, text(place))),
		badPacket("PUBLISH: empty", frame(publish<<4)),
		badPacket("PUBLISH: length of 5 bytes", []byte{publish << 4, 0xff, 0xff, 0xff, 0xff, 0x01}),
		badPacket("PUBLISH: length of properties in 5 bytes", frame(publish<<4, text(place), []byte{0x80, 0x80, 0x80, 0x80, 0})),
		badPacket("PUBLISH: length of properties in more bytes than it needs", frame(publish<<4, text(place), []byte{0x80, 0})),
		badPacket("PUBLISH: response topic with invalid UTF-8", with(props{}.text(propResponseTopic, "\xff"))),
		badPacket("PUBLISH: content type with invalid UTF-8", with(props{}.text(propContentType, "\xff"))),
		badPacket("PUBLISH: user property with invalid UTF-8", with(props{}.pair("\xff", ""))),
	}
	for name, s := range sorted(badTexts()) {
		list = append(list, badPacket("PUBLISH: topic with "+name, message{topic: s}.encode(5)))
	}
	for name, p := range sorted(messageProperties()) {
		list = append(list, badUse("PUBLISH: "+name+" twice", with(append(p, p...))))
	}
	p := props{}.two(propTopicAlias, 1)
	return append(list, bad{"PUBLISH: topic alias twice", with(append(p, p...)), []byte{0x82, 0x94}})
}

func badAcks() []bad {
	var list []bad
	reason := props{}.text(propReasonString, "x")
	for _, kind := range []byte{puback, pubrec, pubrel, pubcomp} {
		flags := byte(0)
		if kind == pubrel {
			flags = 2
		}
		full := func(code byte, p props) []byte { return frame(kind<<4|flags, two(1), []byte{code}, p.section()) }
		name := kindName(kind)
		list = append(list,
			badPacket(name+": flags", frame(kind<<4|flags^2, two(1))),
			badEither(name+": packet id 0", encodeAck(kind, 0, 0)),
			badPacket(name+": 1 byte", frame(kind<<4|flags, []byte{0})),
			badPacket(name+": empty", frame(kind<<4|flags)),
			badEither(name+": reason code that is not for it", full(0x04, nil)),
			badPacket(name+": property that is not for it", full(0, props{}.two(propTopicAlias, 1))),
			badUse(name+": reason string twice", full(0, append(reason, reason...))),
			badPacket(name+": bytes behind the end", frame(kind<<4|flags, two(1), []byte{0, 0, 0})),
			badPacket(name+": reason string with invalid UTF-8", full(0, props{}.text(propReasonString, "\xff"))))
	}
	return list
}

func badSubscribes() []bad {
	one := func(options byte) []byte { return encodeSubscribe(5, 1, nil, filter{place, options}) }
	with := func(p props) []byte { return encodeSubscribe(5, 1, p, filter{place, 1}) }
	id := props{}.subscription(1)
	list := []bad{
		badPacket("SUBSCRIBE: flags", append([]byte{subscribe << 4}, one(0)[1:]...)),
		badEither("SUBSCRIBE: packet id 0", encodeSubscribe(5, 0, nil, filter{place, 0})),
		badUse("SUBSCRIBE: no filter", encodeSubscribe(5, 1, nil)),
		badUse("SUBSCRIBE: QoS 3", one(3)),
		badUse("SUBSCRIBE: retain handling 3", one(0x30)),
		badPacket("SUBSCRIBE: reserved bit 6", one(0x40)),
		badPacket("SUBSCRIBE: reserved bit 7", one(0x80)),
		badPacket("SUBSCRIBE: filter without options", frame(subscribe<<4|2, two(1), []byte{0}, text(place))),
		badPacket("SUBSCRIBE: filter longer than the packet", frame(subscribe<<4|2, two(1), []byte{0, 0, 99, 'a', 0})),
		badPacket("SUBSCRIBE: empty", frame(subscribe<<4|2)),
		badUse("SUBSCRIBE: subscription id 0", with(props{}.subscription(0))),
		badUse("SUBSCRIBE: subscription id twice", with(append(id, id...))),
		badPacket("SUBSCRIBE: subscription id of 5 bytes", with(props{propSubscriptionID, 0x80, 0x80, 0x80, 0x80, 1})),
		badPacket("SUBSCRIBE: property that is not for it", with(props{}.two(propTopicAlias, 1))),
		badPacket("SUBSCRIBE: user property with invalid UTF-8", with(props{}.pair("\xff", ""))),
		badUse("SUBSCRIBE: shared with no local", encodeSubscribe(5, 1, nil, filter{"$share/g/" + place, 1 | noLocal})),
	}
	for name, s := range sorted(badTexts()) {
		list = append(list, badPacket("SUBSCRIBE: filter with "+name, encodeSubscribe(5, 1, nil, filter{s, 0})))
	}
	return list
}

// badFilters are topic filters, those of shared subscriptions for MQTT 5 only. A broker may refuse one in SUBACK
// instead of ending the connection.
func badFilters(version byte) []bad {
	filters := []string{"", "a/#/b", "a#", "#/a", "a+/b", "a/+b", "+a", "##"}
	if version == 5 {
		filters = append(filters, "$share/g", "$share/g/", "$share//a", "$share/g+/a", "$share/g#/a", "$share/#", "$share/g/a#")
	}
	var list []bad
	for _, f := range filters {
		list = append(list, badEither(`"`+f+`"`, []byte(f), 0x8f))
	}
	return list
}

func badUnsubscribes() []bad {
	good := encodeUnsubscribe(5, 1, place)
	list := []bad{
		badPacket("UNSUBSCRIBE: flags", append([]byte{unsubscribe << 4}, good[1:]...)),
		badEither("UNSUBSCRIBE: packet id 0", encodeUnsubscribe(5, 0, place)),
		badUse("UNSUBSCRIBE: no filter", encodeUnsubscribe(5, 1)),
		badEither("UNSUBSCRIBE: empty filter", encodeUnsubscribe(5, 1, ""), 0x8f),
		badPacket("UNSUBSCRIBE: empty", frame(unsubscribe<<4|2)),
		badPacket("UNSUBSCRIBE: property that is not for it", frame(unsubscribe<<4|2, two(1), props{}.subscription(1).section(), text(place))),
	}
	for name, s := range sorted(badTexts()) {
		list = append(list, badPacket("UNSUBSCRIBE: filter with "+name, encodeUnsubscribe(5, 1, s)))
	}
	return list
}

func badRest() []bad {
	end := func(code byte, p props) []byte { return frame(disconnect<<4, []byte{code}, p.section()) }
	reason := props{}.text(propReasonString, "x")
	return []bad{
		badUse("CONNECT: a second one", raw(5, 2, []byte{0})),
		badPacket("PINGREQ: flags", frame(pingreq<<4|1)),
		badPacket("PINGREQ: a byte", frame(pingreq<<4, []byte{0})),
		badPacket("DISCONNECT: flags", frame(disconnect<<4|1)),
		badEither("DISCONNECT: reason code that is not for it", end(0x01, nil)),
		badPacket("DISCONNECT: property that is not for it", end(0, props{}.two(propTopicAlias, 1))),
		badUse("DISCONNECT: reason string twice", end(0, append(reason, reason...))),
		badPacket("DISCONNECT: reason string with invalid UTF-8", end(0, props{}.text(propReasonString, "\xff"))),
		badPacket("DISCONNECT: bytes behind the end", frame(disconnect<<4, []byte{0, 0, 0})),
		badUse("AUTH: no method in CONNECT", frame(auth<<4, []byte{0x18}, props{}.text(propAuthMethod, "x").section())),
		badUse("AUTH: no method", frame(auth<<4, []byte{0x18, 0})),
		badEither("AUTH: empty", frame(auth<<4)),
		badPacket("AUTH: flags", frame(auth<<4|1, []byte{0x18}, props{}.text(propAuthMethod, "x").section())),
		badEither("type 0", frame(0)),
		badEither("CONNACK: from a client", frame(connack<<4, []byte{0, 0, 0})),
		badEither("SUBACK: from a client", frame(suback<<4, two(1), []byte{0, 0})),
		badEither("UNSUBACK: from a client", frame(unsuback<<4, two(1), []byte{0, 0})),
		badEither("PINGRESP: from a client", frame(pingresp<<4)),
	}
}

// bad3 are packets of MQTT 3.1.1, which has no reason codes.
func bad3() []bad {
	silent := func(name string, bytes []byte) bad { return bad{name, bytes, nil} }
	list := []bad{
		silent("CONNECT: a second one", raw(4, 2, nil)),
		silent("PUBLISH: QoS 3", message{topic: place, qos: 3, id: 1}.encode(4)),
		silent("PUBLISH: DUP with QoS 0", message{topic: place, dup: true}.encode(4)),
		silent("PUBLISH: packet id 0", message{topic: place, qos: 1}.encode(4)),
		silent("PUBLISH: topic with +", message{topic: "a/+"}.encode(4)),
		silent("PUBLISH: topic with #", message{topic: "#"}.encode(4)),
		silent("PUBLISH: empty topic", message{}.encode(4)),
		silent("PUBLISH: topic longer than the packet", frame(publish<<4, []byte{0, 9, 'a'})),
		silent("PUBLISH: end before the packet id", frame(publish<<4|2, text(place), []byte{1})),
		silent("PUBLISH: length of 5 bytes", []byte{publish << 4, 0xff, 0xff, 0xff, 0xff, 0x01}),
		silent("PUBACK: flags", frame(puback<<4|2, two(1))),
		silent("PUBACK: 3 bytes", frame(puback<<4, two(1), []byte{0})),
		silent("PUBREL: flags", frame(pubrel<<4, two(1))),
		silent("PUBREL: packet id 0", encodeAck(pubrel, 0, 0)),
		silent("SUBSCRIBE: flags", frame(subscribe<<4, two(1), text(place), []byte{0})),
		silent("SUBSCRIBE: packet id 0", encodeSubscribe(4, 0, nil, filter{place, 0})),
		silent("SUBSCRIBE: no filter", encodeSubscribe(4, 1, nil)),
		silent("SUBSCRIBE: QoS 3", encodeSubscribe(4, 1, nil, filter{place, 3})),
		silent("SUBSCRIBE: reserved bits", encodeSubscribe(4, 1, nil, filter{place, noLocal})),
		silent("UNSUBSCRIBE: flags", frame(unsubscribe<<4, two(1), text(place))),
		silent("UNSUBSCRIBE: packet id 0", encodeUnsubscribe(4, 0, place)),
		silent("UNSUBSCRIBE: no filter", encodeUnsubscribe(4, 1)),
		silent("PINGREQ: flags", frame(pingreq<<4|1)),
		silent("PINGREQ: a byte", frame(pingreq<<4, []byte{0})),
		silent("DISCONNECT: flags", frame(disconnect<<4|1)),
		silent("AUTH", frame(auth<<4)),
		silent("type 0", frame(0)),
		silent("CONNACK: from a client", frame(connack<<4, []byte{0, 0})),
		silent("PINGRESP: from a client", frame(pingresp<<4)),
	}
	for name, s := range sorted(badTexts()) {
		list = append(list,
			silent("PUBLISH: topic with "+name, message{topic: s}.encode(4)),
			silent("SUBSCRIBE: filter with "+name, encodeSubscribe(4, 1, nil, filter{s, 0})))
	}
	return list
}
