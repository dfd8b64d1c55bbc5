package packet

// A Connack is a CONNACK packet. Properties that are zero are left out.
type Connack struct {
	SessionPresent bool // only with Success
	Code           Code

	// The properties of MQTT 5.
	HasSessionExpiry    bool
	HasMaximumQoS       bool
	HasServerKeepAlive  bool
	MaximumQoS          uint8  // 0 or 1, if HasMaximumQoS
	ReceiveMaximum      uint16 // 0: absent, which means 65535
	TopicAliasMaximum   uint16
	ServerKeepAlive     uint16 // seconds, if HasServerKeepAlive
	SessionExpiry       uint32 // seconds, if HasSessionExpiry
	MaximumPacketSize   uint32 // bytes; 0: no limit
	AssignedClientID    string
	ResponseInformation string
	Reason              string
}

// connackProps are the properties that CONNACK may have (MQTT 5, 3.2.2.3).
const connackProps = 1<<propSessionExpiry | 1<<propReceiveMaximum | 1<<propMaximumQoS |
	1<<propRetainAvailable | 1<<propMaximumPacketSize | 1<<propAssignedClientID |
	1<<propAliasMaximum | 1<<propReason | 1<<propUser | 1<<propWildcards | 1<<propIdentifiers |
	1<<propShared | 1<<propServerKeepAlive | 1<<propResponseInfo | 1<<propServerReference |
	1<<propAuthMethod | 1<<propAuthData

// The return codes before MQTT 5 (MQTT 3.1.1, 3.2.2.3).
const (
	returnBadVersion  = 1
	returnBadClientID = 2
	returnUnavailable = 3
	returnBadUser     = 4
	returnForbidden   = 5
)

// Append appends the packet.
//
// Before MQTT 5 the properties are left out, and the code is translated to the return code that
// comes nearest. For a code that has none, such as MalformedPacket, nothing is appended: there a
// server just closes the connection (MQTT 3.1.1, 3.2.2.3). MQTT 3.1 does not have SessionPresent.
func (p *Connack) Append(dst []byte, v Version) []byte {
	code := byte(p.Code)
	if v != V5 {
		var ok bool
		if code, ok = p.Code.returnCode(); !ok {
			return dst
		}
	}
	dst, at := open(dst, TypeConnack)
	var flags byte
	if p.SessionPresent && v != V31 {
		flags = 1
	}
	dst = append(dst, flags, code)
	if v == V5 {
		dst = p.appendProperties(dst)
	}
	return seal(dst, at)
}

func (p *Connack) appendProperties(dst []byte) []byte {
	at := len(dst)
	dst = append(dst, 0)
	if p.HasSessionExpiry {
		dst = appendUint32(dst, propSessionExpiry, p.SessionExpiry)
	}
	if p.ReceiveMaximum != 0 {
		dst = appendUint16(dst, propReceiveMaximum, p.ReceiveMaximum)
	}
	if p.HasMaximumQoS {
		dst = append(dst, propMaximumQoS, p.MaximumQoS)
	}
	if p.MaximumPacketSize != 0 {
		dst = appendUint32(dst, propMaximumPacketSize, p.MaximumPacketSize)
	}
	dst = appendString(dst, propAssignedClientID, p.AssignedClientID)
	if p.TopicAliasMaximum != 0 {
		dst = appendUint16(dst, propAliasMaximum, p.TopicAliasMaximum)
	}
	dst = appendString(dst, propReason, p.Reason)
	if p.HasServerKeepAlive {
		dst = appendUint16(dst, propServerKeepAlive, p.ServerKeepAlive)
	}
	dst = appendString(dst, propResponseInfo, p.ResponseInformation)
	return seal(dst, at)
}

// returnCode translates a code to that of MQTT 3.1 and 3.1.1.
func (c Code) returnCode() (byte, bool) {
	switch c {
	case Success:
		return 0, true
	case UnsupportedVersion:
		return returnBadVersion, true
	case InvalidClientID:
		return returnBadClientID, true
	case ServerUnavailable, ServerBusy, ServerShuttingDown, UseAnotherServer, ServerMoved,
		QuotaExceeded, ConnectionRateExceeded:
		return returnUnavailable, true
	case BadUserOrPassword:
		return returnBadUser, true
	case NotAuthorized, Banned, BadAuthMethod:
		return returnForbidden, true
	default:
		return 0, false
	}
}

// codeOf translates a return code of MQTT 3.1 and 3.1.1.
func codeOf(returned byte) (Code, bool) {
	switch returned {
	case 0:
		return Success, true
	case returnBadVersion:
		return UnsupportedVersion, true
	case returnBadClientID:
		return InvalidClientID, true
	case returnUnavailable:
		return ServerUnavailable, true
	case returnBadUser:
		return BadUserOrPassword, true
	case returnForbidden:
		return NotAuthorized, true
	default:
		return 0, false
	}
}

// Decode reads the body of a packet. It copies the strings. Properties that Connack does not have
// are read over.
func (p *Connack) Decode(v Version, body []byte) error {
	*p = Connack{}
	r := reader{rest: body}
	flags, code := r.byte(), r.byte()
	if flags > 1 && v != V31 {
		r.fail(MalformedPacket, "reserved flags of a CONNACK are set (MQTT 5, 3.2.2.1)")
	}
	known := Code(code).ofConnack()
	p.SessionPresent, p.Code = flags == 1 && v != V31, Code(code)
	if v != V5 {
		p.Code, known = codeOf(code)
	}
	switch {
	case !known:
		r.fail(ProtocolError, "a reason code that CONNACK does not have (MQTT 5, 3.2.2.2)")
	case p.SessionPresent && p.Code != Success:
		r.fail(ProtocolError, "a session is present although the connection is refused (MQTT 5, 3.2.2.1.1)")
	}
	if v == V5 {
		p.readProperties(&r)
	}
	return r.end()
}

// ofConnack reports whether a CONNACK may have the code (MQTT 5, 3.2.2.2).
func (c Code) ofConnack() bool {
	switch c {
	case Success, UnspecifiedError, MalformedPacket, ProtocolError, ImplementationError,
		UnsupportedVersion, InvalidClientID, BadUserOrPassword, NotAuthorized, ServerUnavailable,
		ServerBusy, Banned, BadAuthMethod, InvalidTopic, PacketTooLarge, QuotaExceeded,
		InvalidPayloadFormat, RetainNotSupported, QoSNotSupported, UseAnotherServer, ServerMoved,
		ConnectionRateExceeded:
		return true
	default:
		return false
	}
}

func (p *Connack) readProperties(r *reader) {
	ps := r.properties(connackProps)
	for ps.next() {
		switch ps.id {
		case propSessionExpiry:
			p.SessionExpiry, p.HasSessionExpiry = ps.number, true
		case propReceiveMaximum:
			p.ReceiveMaximum = uint16(ps.number)
		case propMaximumQoS:
			p.MaximumQoS, p.HasMaximumQoS = uint8(ps.number), true
		case propMaximumPacketSize:
			p.MaximumPacketSize = ps.number
		case propAssignedClientID:
			p.AssignedClientID = string(ps.value)
		case propAliasMaximum:
			p.TopicAliasMaximum = uint16(ps.number)
		case propReason:
			p.Reason = string(ps.value)
		case propServerKeepAlive:
			p.ServerKeepAlive, p.HasServerKeepAlive = uint16(ps.number), true
		case propResponseInfo:
			p.ResponseInformation = string(ps.value)
		}
	}
	r.finish(&ps)
}
