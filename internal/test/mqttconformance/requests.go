package mqttconformance

// nextID returns the next packet identifier.
func (c *client) nextID() uint16 {
	c.last++
	return c.last
}

// subscribe subscribes and wants the broker to grant it.
func (c *client) subscribe(name string, options byte, p ...props) {
	if code := c.subscribeCode(name, options, p...); code != options&3 {
		c.t.fatalf("SUBACK with %#x for %q, want %#x", code, name, options&3)
	}
}

// subscribeCode subscribes and returns the code of the answer.
func (c *client) subscribeCode(name string, options byte, p ...props) byte {
	var all props
	for _, x := range p {
		all = append(all, x...)
	}
	return c.subscribeAll(all, filter{name, options})[0]
}

// subscribeAll subscribes to several filters and returns the codes of the answer.
func (c *client) subscribeAll(p props, filters ...filter) []byte {
	id := c.nextID()
	c.send(encodeSubscribe(c.version, id, p, filters...))
	answer := c.await(suback)
	if answer.id != id || len(answer.codes) != len(filters) {
		c.t.fatalf("%v, want id %d and %d codes", answer, id, len(filters))
	}
	return answer.codes
}

// unsubscribe unsubscribes and returns the codes of the answer, none before MQTT 5.
func (c *client) unsubscribe(filters ...string) []byte {
	id := c.nextID()
	c.send(encodeUnsubscribe(c.version, id, filters...))
	answer := c.await(unsuback)
	if answer.id != id || c.version == 5 && len(answer.codes) != len(filters) {
		c.t.fatalf("%v, want id %d and %d codes", answer, id, len(filters))
	}
	return answer.codes
}

// publish publishes a message, waits until the broker has it, and returns the code of its first answer.
func (c *client) publish(m message) byte {
	if m.qos > 0 && m.id == 0 {
		m.id = c.nextID()
	}
	c.send(m.encode(c.version))
	switch m.qos {
	case 1:
		return c.answer(puback, m.id).code
	case 2:
		rec := c.answer(pubrec, m.id)
		if rec.code < 0x80 {
			c.send(encodeAck(pubrel, m.id, 0))
			c.answer(pubcomp, m.id)
		}
		return rec.code
	}
	return 0
}

// publishAll publishes messages with these payloads.
func (c *client) publishAll(topic string, qos byte, payloads ...string) {
	for _, payload := range payloads {
		c.publish(message{topic: topic, payload: payload, qos: qos})
	}
}

// answer reads the acknowledgement of a packet of the client.
func (c *client) answer(kind byte, id uint16) packet {
	p := c.await(kind)
	if p.id != id {
		c.t.fatalf("%v, want id %d", p, id)
	}
	return p
}
