package packet

import "encoding/binary"

// A Suback is a SUBACK packet.
type Suback struct {
	ID uint16

	codes []byte // what Next has not read
}

// Decode reads the body of a packet, with at least one code.
func (p *Suback) Decode(v Version, body []byte) error {
	*p = Suback{}
	r := reader{rest: body}
	p.ID = r.id()
	if v == V5 {
		r.reason()
	}
	p.codes = r.rest
	if len(r.rest) == 0 {
		r.fail(ProtocolError, "SUBACK without a code (MQTT 5, 3.9.3)")
	}
	for len(r.rest) > 0 {
		if c := Code(r.byte()); !c.ofSuback(v) {
			r.fail(ProtocolError, "a reason code that SUBACK does not have (MQTT 5, 3.9.3)")
		}
	}
	return r.end()
}

// ofSuback reports whether a SUBACK may have the code.
func (c Code) ofSuback(v Version) bool {
	switch c {
	case Success, GrantedQoS1, GrantedQoS2, UnspecifiedError:
		return true
	case ImplementationError, NotAuthorized, InvalidFilter, PacketIDInUse, QuotaExceeded,
		SharedNotSupported, IdentifiersNotSupported, WildcardsNotSupported:
		return v == V5
	default:
		return false
	}
}

// Next returns one code after the other, in the order of the filters, and false behind the last one.
func (p *Suback) Next() (Code, bool) { return nextCode(&p.codes) }

func nextCode(codes *[]byte) (Code, bool) {
	if len(*codes) == 0 {
		return 0, false
	}
	c := Code((*codes)[0])
	*codes = (*codes)[1:]
	return c, true
}

// AppendSuback appends a SUBACK packet. Before MQTT 5 every failure is UnspecifiedError.
func AppendSuback(dst []byte, v Version, id uint16, codes []Code) []byte {
	dst, at := open(dst, TypeSuback)
	dst = binary.BigEndian.AppendUint16(dst, id)
	if v == V5 {
		dst = append(dst, 0)
	}
	for _, c := range codes {
		if v != V5 && c > GrantedQoS2 {
			c = UnspecifiedError
		}
		dst = append(dst, byte(c))
	}
	return seal(dst, at)
}

// An Unsuback is an UNSUBACK packet.
type Unsuback struct {
	ID uint16

	codes []byte // what Next has not read
}

// Decode reads the body of a packet, in MQTT 5 with at least one code.
func (p *Unsuback) Decode(v Version, body []byte) error {
	*p = Unsuback{}
	r := reader{rest: body}
	p.ID = r.id()
	if v != V5 {
		return r.end()
	}
	r.reason()
	p.codes = r.rest
	if len(r.rest) == 0 {
		r.fail(ProtocolError, "UNSUBACK without a code (MQTT 5, 3.11.3)")
	}
	for len(r.rest) > 0 {
		if c := Code(r.byte()); !c.ofUnsuback() {
			r.fail(ProtocolError, "a reason code that UNSUBACK does not have (MQTT 5, 3.11.3)")
		}
	}
	return r.end()
}

// ofUnsuback reports whether an UNSUBACK may have the code.
func (c Code) ofUnsuback() bool {
	switch c {
	case Success, NoSubscriptionExisted, UnspecifiedError, ImplementationError, NotAuthorized,
		InvalidFilter, PacketIDInUse:
		return true
	default:
		return false
	}
}

// Next returns one code after the other, in the order of the filters, and false behind the last one.
// Before MQTT 5 there are none.
func (p *Unsuback) Next() (Code, bool) { return nextCode(&p.codes) }

// AppendUnsuback appends an UNSUBACK packet. Before MQTT 5 the codes are left out.
func AppendUnsuback(dst []byte, v Version, id uint16, codes []Code) []byte {
	dst, at := open(dst, TypeUnsuback)
	dst = binary.BigEndian.AppendUint16(dst, id)
	if v == V5 {
		dst = append(dst, 0)
		for _, c := range codes {
			dst = append(dst, byte(c))
		}
	}
	return seal(dst, at)
}
