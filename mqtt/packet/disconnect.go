package packet

// A Disconnect is a DISCONNECT packet.
type Disconnect struct {
	Code             Code // Success before MQTT 5
	HasSessionExpiry bool
	SessionExpiry    uint32 // seconds, if HasSessionExpiry
	Reason           []byte // nil if absent
}

// disconnectProps are the properties that DISCONNECT may have (MQTT 5, 3.14.2.2).
const disconnectProps = 1<<propSessionExpiry | 1<<propReason | 1<<propUser | 1<<propServerReference

// Decode reads the body of a packet, of a client or of a server. Reason is a view into it. A server
// reference is read over.
func (p *Disconnect) Decode(v Version, body []byte) error {
	*p = Disconnect{}
	r := reader{rest: body}
	if v != V5 || len(body) == 0 {
		return r.end()
	}
	p.Code = Code(r.byte())
	if !p.Code.ofDisconnect() {
		r.fail(ProtocolError, "a reason code that DISCONNECT does not have (MQTT 5, 3.14.2.1)")
	}
	if len(r.rest) > 0 {
		p.readProperties(&r)
	}
	return r.end()
}

func (p *Disconnect) readProperties(r *reader) {
	ps := r.properties(disconnectProps)
	for ps.next() {
		switch ps.id {
		case propSessionExpiry:
			p.SessionExpiry, p.HasSessionExpiry = ps.number, true
		case propReason:
			p.Reason = ps.value
		}
	}
	r.finish(&ps)
}

// ofDisconnect reports whether a DISCONNECT may have the code (MQTT 5, 2.4 and 3.14.2.1).
func (c Code) ofDisconnect() bool {
	switch c {
	case UnsupportedVersion, InvalidClientID, BadUserOrPassword, ServerUnavailable, Banned,
		PacketIDInUse, PacketIDNotFound:
		return false
	default:
		return c == Success || c == DisconnectWithWill || c >= UnspecifiedError && c <= WildcardsNotSupported
	}
}

// Append appends the packet as a client sends it, in the shortest form. Before MQTT 5 it has no
// body.
func (p *Disconnect) Append(dst []byte, v Version) []byte {
	if v != V5 {
		return append(dst, byte(TypeDisconnect)<<4, 0)
	}
	return appendDisconnect(dst, *p, p.Reason)
}

// AppendDisconnect appends a DISCONNECT packet as a server sends it, in the shortest form; the
// reason "" is left out. Before MQTT 5 it appends nothing: there a server just closes the
// connection.
func AppendDisconnect(dst []byte, v Version, c Code, reason string) []byte {
	if v != V5 {
		return dst
	}
	return appendDisconnect(dst, Disconnect{Code: c}, reason)
}

func appendDisconnect[T []byte | string](dst []byte, p Disconnect, reason T) []byte {
	dst, at := open(dst, TypeDisconnect)
	properties := p.HasSessionExpiry || len(reason) > 0
	if p.Code != Success || properties {
		dst = append(dst, byte(p.Code))
	}
	if properties {
		begin := len(dst)
		dst = append(dst, 0)
		if p.HasSessionExpiry {
			dst = appendUint32(dst, propSessionExpiry, p.SessionExpiry)
		}
		dst = seal(appendString(dst, propReason, reason), begin)
	}
	return seal(dst, at)
}
