package mqttconformance_test

const mosquittoVersion = "2.0.11"

// mosquittoFails returns why mosquitto of that version does not pass a test, by the name of the test.
func mosquittoFails() map[string]string {
	reasons := map[string]string{}
	for _, list := range []struct {
		reason string
		tests  []string
	}{
		{"it sends one message with the QoS of the first subscription, not with the highest", []string{
			"v3.1.1/test_overlapping_subscriptions",
		}},
		{"it uses no topic aliases, and need not", []string{
			"v5/test_server_topic_alias",
		}},
		{"it answers PUBREC with 0x97 and goes on", []string{
			"v5/test_flow_control2",
			"Malformed/more messages than the broker allows",
		}},
		{"it forgets a delayed will if the session ends with the connection", []string{
			"v5/test_will_delay",
			"Presence/will delay ends with the session",
		}},
		{"it answers without the reason code 0x92", []string{
			"Malformed/PUBREL with an unknown id is answered",
			"Malformed/PUBREC with an unknown id is answered",
		}},
		{"it accepts it", []string{
			"Malformed/CONNECT: authentication data without a method",
			"Malformed/CONNECT: will with a response topic with a wildcard",
			"Malformed/PUBLISH: DUP with QoS 0",
			"Malformed/PUBLISH: subscription identifier",
			"Malformed/PUBLISH: response topic with a wildcard",
			"Malformed/PUBACK: flags",
			"Malformed/PUBACK: reason code that is not for it",
			"Malformed/PUBACK: bytes behind the end",
			"Malformed/PUBREC: flags",
			"Malformed/PUBREC: reason code that is not for it",
			"Malformed/PUBREC: bytes behind the end",
			"Malformed/PUBREL: reason code that is not for it",
			"Malformed/PUBREL: bytes behind the end",
			"Malformed/PUBCOMP: flags",
			"Malformed/PUBCOMP: reason code that is not for it",
			"Malformed/PUBCOMP: bytes behind the end",
			"Malformed/SUBSCRIBE: shared with no local",
			"Malformed/PINGREQ: flags",
			"Malformed/PINGREQ: a byte",
			"Malformed/SUBACK: from a client",
			"Malformed/UNSUBACK: from a client",
			"Malformed/PINGRESP: from a client",
			"Malformed/3.1.1 PUBLISH: DUP with QoS 0",
			"Malformed/3.1.1 PUBACK: flags",
			"Malformed/3.1.1 PUBACK: 3 bytes",
			"Malformed/3.1.1 PINGREQ: flags",
			"Malformed/3.1.1 PINGREQ: a byte",
			"Malformed/3.1.1 PINGRESP: from a client",
			`Malformed/SUBSCRIBE: filter "$share/g"`,
			`Malformed/SUBSCRIBE: filter "$share/g/"`,
			`Malformed/SUBSCRIBE: filter "$share//a"`,
			`Malformed/SUBSCRIBE: filter "$share/#"`,
		}},
		{"it closes without a DISCONNECT", []string{
			"Malformed/PUBLISH: length of 5 bytes",
			"Malformed/PUBLISH: response topic with invalid UTF-8",
			"Malformed/PUBLISH: content type with invalid UTF-8",
			"Malformed/PUBLISH: user property with invalid UTF-8",
			"Malformed/PUBLISH: content type twice",
			"Malformed/PUBLISH: correlation data twice",
			"Malformed/PUBLISH: message expiry twice",
			"Malformed/PUBLISH: payload format twice",
			"Malformed/PUBLISH: response topic twice",
			"Malformed/PUBLISH: topic alias twice",
			"Malformed/PUBACK: packet id 0",
			"Malformed/PUBACK: 1 byte",
			"Malformed/PUBACK: empty",
			"Malformed/PUBACK: property that is not for it",
			"Malformed/PUBACK: reason string twice",
			"Malformed/PUBACK: reason string with invalid UTF-8",
			"Malformed/PUBREC: packet id 0",
			"Malformed/PUBREC: 1 byte",
			"Malformed/PUBREC: empty",
			"Malformed/PUBREC: property that is not for it",
			"Malformed/PUBREC: reason string twice",
			"Malformed/PUBREC: reason string with invalid UTF-8",
			"Malformed/PUBREL: flags",
			"Malformed/PUBREL: packet id 0",
			"Malformed/PUBREL: 1 byte",
			"Malformed/PUBREL: empty",
			"Malformed/PUBREL: property that is not for it",
			"Malformed/PUBREL: reason string twice",
			"Malformed/PUBREL: reason string with invalid UTF-8",
			"Malformed/PUBCOMP: packet id 0",
			"Malformed/PUBCOMP: 1 byte",
			"Malformed/PUBCOMP: empty",
			"Malformed/PUBCOMP: property that is not for it",
			"Malformed/PUBCOMP: reason string twice",
			"Malformed/PUBCOMP: reason string with invalid UTF-8",
			"Malformed/SUBSCRIBE: subscription id twice",
			"Malformed/SUBSCRIBE: user property with invalid UTF-8",
			"Malformed/CONNECT: a second one",
			"Malformed/DISCONNECT: flags",
			"Malformed/DISCONNECT: reason code that is not for it",
			"Malformed/DISCONNECT: property that is not for it",
			"Malformed/DISCONNECT: reason string twice",
			"Malformed/DISCONNECT: reason string with invalid UTF-8",
			"Malformed/DISCONNECT: bytes behind the end",
			"Malformed/AUTH: no method in CONNECT",
			"Malformed/AUTH: no method",
			"Malformed/AUTH: empty",
			"Malformed/AUTH: flags",
			"Malformed/CONNACK: from a client",
			"Presence/takeover of a session that goes on brings no delayed will",
			"Presence/takeover with a new session sends a delayed will",
			"Presence/takeover by another version",
			"Presence/DISCONNECT that is malformed sends the will",
			"Presence/keep alive that passes gives 0x8D",
			"Presence/server keep alive is obeyed",
			"Presence/takeover ends the older connection",
			"Presence/takeover sends the will",
		}},
		{"it says 0x81, not 0x82", []string{
			"Malformed/SUBSCRIBE: no filter",
			"Malformed/SUBSCRIBE: QoS 3",
			"Malformed/SUBSCRIBE: retain handling 3",
			"Malformed/SUBSCRIBE: subscription id 0",
			"Malformed/UNSUBSCRIBE: no filter",
		}},
		{"it forgets a delayed will if the session ends by a clean start", []string{
			"Presence/will delay: a clean start sends the will",
		}},
		{"it ends the connection at the third PUBLISH with an id", []string{
			"Flow/3.1.1 QoS 2 from a client: a second PUBLISH is no second message",
			"Flow/QoS 2 from a client: a second PUBLISH is no second message",
		}},
		{"it fills the window anew with each acknowledgement", []string{
			"Flow/Receive Maximum with QoS 1",
			"Flow/Receive Maximum with QoS 2",
		}},
		{"it sends again what the connection before had room for", []string{
			"Flow/Receive Maximum of the next connection holds",
		}},
		{"it counts one byte too few, so that packets are larger by one", []string{
			"Flow/Maximum Packet Size: a message of that size comes",
			"Flow/Maximum Packet Size: one that is larger does not hold up others",
			"Flow/Maximum Packet Size holds for retained messages and wills",
			"Flow/Maximum Packet Size holds for a client that was away",
		}},
		{"it drops the message, which it should not", []string{
			"Flow/$share: QoS 1 of a member that goes is given to another",
		}},
		{"it sends retained messages to members of a group", []string{
			"Flow/$share: no retained messages",
		}},
	} {
		for _, test := range list.tests {
			reasons[test] = list.reason
		}
	}
	return reasons
}
