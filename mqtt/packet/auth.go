package packet

// An Auth is an AUTH packet, which only MQTT 5 has.
type Auth struct {
	Code         Code
	Method, Data []byte // nil if absent
}

// authProps are the properties that AUTH may have (MQTT 5, 3.15.2.2).
const authProps = 1<<propAuthMethod | 1<<propAuthData | 1<<propReason | 1<<propUser

// Decode reads the body of a packet. The slices of p are views into it. Method is nil only if the
// body is empty.
func (p *Auth) Decode(body []byte) error {
	*p = Auth{}
	r := reader{rest: body}
	if len(body) == 0 {
		return nil
	}
	p.Code = Code(r.byte())
	if p.Code != Success && p.Code != ContinueAuthentication && p.Code != Reauthenticate {
		r.fail(ProtocolError, "a reason code that AUTH does not have (MQTT 5, 3.15.2.1)")
	}
	ps := r.properties(authProps)
	for ps.next() {
		switch ps.id {
		case propAuthMethod:
			p.Method = ps.value
		case propAuthData:
			p.Data = ps.value
		}
	}
	r.finish(&ps)
	if p.Method == nil {
		r.fail(ProtocolError, "AUTH without a method (MQTT 5, 3.15.2.2.2)")
	}
	return r.end()
}
