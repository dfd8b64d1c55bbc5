package conformance_test

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
		}},
		{"it forgets a delayed will if the session ends with the connection", []string{
			"v5/test_will_delay",
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
