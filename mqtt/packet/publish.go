package packet

// A Publish is a PUBLISH packet as it comes in.
type Publish struct {
	Topic       []byte // empty only with an Alias
	Payload     []byte
	ID          uint16 // 0 with QoS 0
	QoS         uint8
	Retain, Dup bool

	// The properties of MQTT 5.
	HasExpiry  bool
	Alias      uint16 // 0: none
	Expiry     uint32 // seconds, if HasExpiry
	Properties []byte // all of them, raw; see AppendForwarded

	identifiers []byte // what NextIdentifier has not read of Properties
}

// publishProps are the properties that PUBLISH may have (MQTT 5, 3.3.2.3).
const publishProps = forwarded | 1<<propExpiry | 1<<propAlias | 1<<propIdentifier

// Decode reads the body of a packet that a client sent. The slices of p are views into it.
//
// A topic with a wildcard is InvalidTopic, alias 0 is InvalidAlias, a subscription identifier is a
// ProtocolError. Whether a payload is the UTF-8 text that UTF8Payload promises is not looked at.
func (p *Publish) Decode(v Version, h Header, body []byte) error {
	r := reader{rest: body}
	p.read(&r, v, h)
	if p.identifiers != nil {
		r.fail(ProtocolError, "a client sent a subscription identifier (MQTT 5, 3.3.4)")
	}
	return r.end()
}

// DecodeFromServer reads the body of a packet that a server sent, as Decode does. It may have
// subscription identifiers, which NextIdentifier returns.
func (p *Publish) DecodeFromServer(v Version, h Header, body []byte) error {
	r := reader{rest: body}
	p.read(&r, v, h)
	return r.end()
}

// NextIdentifier returns one subscription identifier after the other, in the order of the packet,
// and false behind the last one.
func (p *Publish) NextIdentifier() (uint32, bool) {
	for len(p.identifiers) > 0 {
		property := p.identifiers
		p.identifiers = property[propertySize(property):]
		if property[0] == propIdentifier {
			id, _ := varint(property[1:])
			return uint32(id), true
		}
	}
	return 0, false
}

func (p *Publish) read(r *reader, v Version, h Header) {
	*p = Publish{
		QoS:    h.Flags & flagQoS >> 1,
		Retain: h.Flags&flagRetain != 0,
		Dup:    h.Flags&flagDup != 0,
	}
	p.Topic = r.text()
	if p.QoS > 0 {
		p.ID = r.id()
	}
	if v == V5 {
		p.readProperties(r)
	}
	p.Payload, r.rest = r.rest, nil
	switch {
	case len(p.Topic) == 0 && p.Alias == 0:
		r.fail(ProtocolError, "PUBLISH without a topic (MQTT 5, 3.3.2.1)")
	case hasWildcard(p.Topic):
		r.fail(InvalidTopic, "the topic of a PUBLISH has a wildcard (MQTT 5, 3.3.2.1)")
	}
}

func (p *Publish) readProperties(r *reader) {
	ps := r.properties(publishProps)
	ps.repeat |= 1 << propIdentifier
	p.Properties = ps.rest
	for ps.next() {
		switch ps.id {
		case propExpiry:
			p.Expiry, p.HasExpiry = ps.number, true
		case propAlias:
			p.Alias = uint16(ps.number)
		}
	}
	r.finish(&ps)
	if ps.err == nil && ps.seen.has(propIdentifier) {
		p.identifiers = p.Properties
	}
}
