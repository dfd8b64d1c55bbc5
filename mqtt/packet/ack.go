package packet

import "encoding/binary"

// An Ack is a PUBACK, PUBREC, PUBREL or PUBCOMP packet.
type Ack struct {
	ID     uint16
	Code   Code   // Success before MQTT 5
	Reason []byte // nil if absent
}

// Decode reads the body of a packet. Reason is a view into it.
func (p *Ack) Decode(v Version, h Header, body []byte) error {
	*p = Ack{}
	r := reader{rest: body}
	p.ID = r.id()
	if v != V5 || len(r.rest) == 0 {
		return r.end()
	}
	p.Code = Code(r.byte())
	if !h.Type.acknowledges(p.Code) {
		r.fail(ProtocolError, "a reason code that this acknowledgement does not have (MQTT 5, 3.4.2.1, 3.5.2.1, 3.6.2.1 and 3.7.2.1)")
	}
	if len(r.rest) > 0 {
		p.Reason = r.reason()
	}
	return r.end()
}

// acknowledges reports whether a packet of this type may have the code.
func (t Type) acknowledges(c Code) bool {
	switch c {
	case Success:
		return true
	case PacketIDNotFound:
		return t == TypePubrel || t == TypePubcomp
	case NoMatchingSubscribers, UnspecifiedError, ImplementationError, NotAuthorized, InvalidTopic,
		PacketIDInUse, QuotaExceeded, InvalidPayloadFormat:
		return t == TypePuback || t == TypePubrec
	default:
		return false
	}
}

// reason reads properties that are a reason string and user properties. The result is nil without a
// reason string.
func (r *reader) reason() []byte {
	var reason []byte
	ps := r.properties(1<<propReason | 1<<propUser)
	for ps.next() {
		if ps.id == propReason {
			reason = ps.value
		}
	}
	r.finish(&ps)
	return reason
}

// AppendAck appends a PUBACK, PUBREC, PUBREL or PUBCOMP packet, in the shortest form. Before MQTT 5
// the code is left out.
func AppendAck(dst []byte, v Version, t Type, id uint16, c Code) []byte {
	size := byte(2)
	if v == V5 && c != Success {
		size = 3
	}
	dst = append(dst, byte(t)<<4|t.flags(), size)
	dst = binary.BigEndian.AppendUint16(dst, id)
	if size == 3 {
		dst = append(dst, byte(c))
	}
	return dst
}
