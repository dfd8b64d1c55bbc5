package packet

import (
	"bytes"
	"encoding/binary"
)

// A Subscribe is a SUBSCRIBE packet.
type Subscribe struct {
	ID         uint16
	Identifier uint32 // of the subscriptions; 0: none

	filters []byte // what Next has not read
	options byte   // those that the version has
}

// A Filter is a subscription in a SUBSCRIBE packet.
type Filter struct {
	Topic             []byte
	QoS               uint8
	NoLocal           bool  // MQTT 5
	RetainAsPublished bool  // MQTT 5
	RetainHandling    uint8 // MQTT 5; 0, 1 or 2
}

// The options of a subscription (MQTT 5, 3.8.3.1).
const (
	optionQoS               = 3 << 0
	optionNoLocal           = 1 << 2
	optionRetainAsPublished = 1 << 3
	optionRetainHandling    = 3 << 4
	optionsV5               = optionQoS | optionNoLocal | optionRetainAsPublished | optionRetainHandling
)

// Decode reads the body of a packet, with at least one filter. The filters are views into it. Their
// strings and options are checked. Whether they are filters is not, since that is answered for each
// of them: see ValidFilter.
func (p *Subscribe) Decode(v Version, body []byte) error {
	*p = Subscribe{options: optionQoS}
	r := reader{rest: body}
	p.ID = r.id()
	if v == V5 {
		p.options = optionsV5
		p.readProperties(&r)
	}
	p.filters = r.rest
	if len(r.rest) == 0 {
		r.fail(ProtocolError, "SUBSCRIBE without a filter (MQTT 5, 3.8.3)")
	}
	for len(r.rest) > 0 {
		topic, options := r.text(), r.byte()
		if v == V31 {
			options &= optionQoS
		}
		p.check(&r, topic, options)
	}
	return r.end()
}

// check looks at the options of a filter.
func (p *Subscribe) check(r *reader, topic []byte, options byte) {
	switch {
	case options&^p.options != 0:
		r.fail(MalformedPacket, "reserved options of a subscription are set (MQTT 5, 3.8.3.1)")
	case options&optionQoS == optionQoS:
		r.fail(ProtocolError, "a subscription with QoS 3 (MQTT 5, 3.8.3.1)")
	case options&optionRetainHandling == optionRetainHandling:
		r.fail(ProtocolError, "a subscription with retain handling 3 (MQTT 5, 3.8.3.1)")
	case options&optionNoLocal != 0 && isShared(topic):
		r.fail(ProtocolError, "a shared subscription with no local (MQTT 5, 3.8.3.1)")
	}
}

func (p *Subscribe) readProperties(r *reader) {
	ps := r.properties(1<<propIdentifier | 1<<propUser)
	for ps.next() {
		if ps.id == propIdentifier {
			p.Identifier = ps.number
		}
	}
	r.finish(&ps)
}

// Keep makes what Next has not returned independent of the body.
func (p *Subscribe) Keep() { p.filters = bytes.Clone(p.filters) }

// Next returns one filter after the other, in the order of the packet, and false behind the last
// one.
func (p *Subscribe) Next() (Filter, bool) {
	if len(p.filters) == 0 {
		return Filter{}, false
	}
	r := reader{rest: p.filters}
	topic := r.bytes()
	options := r.byte() & p.options
	p.filters = r.rest
	return Filter{
		Topic:             topic,
		QoS:               options & optionQoS,
		NoLocal:           options&optionNoLocal != 0,
		RetainAsPublished: options&optionRetainAsPublished != 0,
		RetainHandling:    options & optionRetainHandling >> 4,
	}, true
}

// AppendSubscribe appends a SUBSCRIBE packet. identifier is that of the subscriptions, 0 for none.
// Before MQTT 5 it is left out, and so is all of a filter but topic and QoS.
func AppendSubscribe(dst []byte, v Version, id uint16, identifier uint32, filters ...Filter) []byte {
	dst, at := open(dst, TypeSubscribe)
	dst = binary.BigEndian.AppendUint16(dst, id)
	if v == V5 {
		properties := len(dst)
		dst = append(dst, 0)
		if identifier != 0 {
			dst = appendVarint(append(dst, propIdentifier), int(identifier))
		}
		dst = seal(dst, properties)
	}
	for _, f := range filters {
		dst = append(appendText(dst, f.Topic), f.options(v))
	}
	return seal(dst, at)
}

func (f Filter) options(v Version) byte {
	options := f.QoS
	if v != V5 {
		return options
	}
	if f.NoLocal {
		options |= optionNoLocal
	}
	if f.RetainAsPublished {
		options |= optionRetainAsPublished
	}
	return options | f.RetainHandling<<4
}
