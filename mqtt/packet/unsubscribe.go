package packet

import "encoding/binary"

// An Unsubscribe is an UNSUBSCRIBE packet.
type Unsubscribe struct {
	ID uint16

	filters []byte // what Next has not read
}

// Decode reads the body of a packet, with at least one filter. The filters are views into it. Their
// strings are checked; whether they are filters is not: see ValidFilter.
func (p *Unsubscribe) Decode(v Version, body []byte) error {
	*p = Unsubscribe{}
	r := reader{rest: body}
	p.ID = r.id()
	if v == V5 {
		r.skip(1 << propUser)
	}
	p.filters = r.rest
	if len(r.rest) == 0 {
		r.fail(ProtocolError, "UNSUBSCRIBE without a filter (MQTT 5, 3.10.3)")
	}
	for len(r.rest) > 0 {
		r.text()
	}
	return r.end()
}

// Next returns one filter after the other, in the order of the packet, and false behind the last
// one.
func (p *Unsubscribe) Next() ([]byte, bool) {
	if len(p.filters) == 0 {
		return nil, false
	}
	r := reader{rest: p.filters}
	filter := r.bytes()
	p.filters = r.rest
	return filter, true
}

// AppendUnsubscribe appends an UNSUBSCRIBE packet.
func AppendUnsubscribe(dst []byte, v Version, id uint16, filters ...[]byte) []byte {
	dst, at := open(dst, TypeUnsubscribe)
	dst = binary.BigEndian.AppendUint16(dst, id)
	if v == V5 {
		dst = append(dst, 0)
	}
	for _, f := range filters {
		dst = appendText(dst, f)
	}
	return seal(dst, at)
}
