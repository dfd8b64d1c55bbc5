package mqttconformance

import (
	"slices"
	"time"
)

// want reads the next packet, which must be of a kind.
func (c *client) want(kind byte) packet {
	p, err := c.read(c.t.patience)
	if err != nil {
		c.t.fatalf("%v, want %s", err, kindName(kind))
	}
	if p.kind != kind {
		c.t.fatalf("%v, want %s", p, kindName(kind))
	}
	return p
}

// await reads until a packet of a kind comes. Messages that come before go to the inbox.
func (c *client) await(kind byte) packet {
	for {
		p, err := c.read(c.t.patience)
		if err != nil {
			c.t.fatalf("%v, want %s", err, kindName(kind))
		}
		if p.kind == kind {
			return p
		}
		c.take(p)
	}
}

// take keeps a message, and acknowledges it unless the test does so itself.
func (c *client) take(p packet) {
	switch {
	case p.kind == publish:
		c.inbox = append(c.inbox, p)
		if !c.manual {
			c.acknowledge(p)
		}
	case p.kind == pubrel && !c.manual:
		c.complete(p.id)
	default:
		c.t.fatalf("unexpected %v", p)
	}
}

// acknowledge sends PUBACK or PUBREC.
func (c *client) acknowledge(p packet) {
	switch p.qos {
	case 1:
		delete(c.inflight, p.id)
		c.send(encodeAck(puback, p.id, 0))
	case 2:
		c.send(encodeAck(pubrec, p.id, 0))
	}
}

// complete sends PUBCOMP.
func (c *client) complete(id uint16) {
	delete(c.inflight, id)
	c.send(encodeAck(pubcomp, id, 0))
}

// ping returns after a round trip.
func (c *client) ping() {
	c.send(frame(pingreq << 4))
	c.await(pingresp)
}

// message returns the next message.
func (c *client) message() packet {
	for len(c.inbox) == 0 {
		p, err := c.read(c.t.patience)
		if err != nil {
			c.t.fatalf("%v, want a message", err)
		}
		c.take(p)
	}
	p := c.inbox[0]
	c.inbox = c.inbox[1:]
	return p
}

// messages returns the next n messages, and wants a round trip to bring no more.
func (c *client) messages(n int) []packet {
	var list []packet
	for range n {
		list = append(list, c.message())
	}
	c.nothing()
	return list
}

// payloads wants the next messages to have these payloads, and a round trip to bring no more.
func (c *client) payloads(want ...string) []packet {
	list := c.messages(len(want))
	for i, p := range list {
		if p.payload != want[i] {
			c.t.fatalf("message %d is %v, want the payload %q", i, p, want[i])
		}
	}
	return list
}

// nothing wants a round trip to bring no message.
func (c *client) nothing() {
	c.ping()
	if len(c.inbox) > 0 {
		c.t.fatalf("unexpected %v", c.inbox[0])
	}
}

// ends wants the broker to end the connection: from MQTT 5 on, if there are codes, with a DISCONNECT that has one of
// them.
func (c *client) ends(codes ...byte) {
	for {
		p, err := c.read(c.t.patience)
		switch {
		case err != nil && c.version == 5 && len(codes) > 0:
			c.t.fatalf("%v, want DISCONNECT with % #x", err, codes)
		case err != nil:
			c.closed(err)
			return
		case p.kind == disconnect:
			if len(codes) > 0 && !slices.Contains(codes, p.code) {
				c.t.fatalf("%v, want % #x", p, codes)
			}
			_, err := c.read(c.t.patience)
			c.closed(err)
			return
		default:
			c.take(p)
		}
	}
}

// refused wants a CONNECT to be answered by a CONNACK with one of the codes, or by nothing, and then by the end of the
// connection.
func (c *client) refused(codes ...byte) {
	p, err := c.read(c.t.patience)
	if err != nil {
		c.closed(err)
		return
	}
	if p.kind != connack {
		c.t.fatalf("%v, want CONNACK or the end of the connection", p)
	}
	if !slices.Contains(codes, p.code) {
		c.t.fatalf("%v, want % #x", p, codes)
	}
	_, err = c.read(c.t.patience)
	c.closed(err)
}

// unknownProtocol wants a protocol to be refused in the form of either version.
func (t *test) unknownProtocol(name string, level byte) {
	check := t.bystander()
	c := t.dial(4)
	properties := []byte{0}
	if level == 4 {
		properties = nil
	}
	c.send(frame(connect<<4, text(name), []byte{level, 2, 0, 30}, properties, text(t.id("bad"))))
	c.conn.SetReadDeadline(time.Now().Add(t.patience))
	if header, err := c.in.Peek(2); err == nil && header[1] > 2 {
		c.version = 5
	}
	c.refused(1, 0x81, 0x82, 0x84)
	check()
}
