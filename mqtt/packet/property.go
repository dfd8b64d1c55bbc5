package packet

// The identifiers of the properties (MQTT 5, 2.2.2.2).
const (
	propPayloadFormat     = 1
	propExpiry            = 2
	propContentType       = 3
	propResponseTopic     = 8
	propCorrelation       = 9
	propIdentifier        = 11
	propSessionExpiry     = 17
	propAssignedClientID  = 18
	propServerKeepAlive   = 19
	propAuthMethod        = 21
	propAuthData          = 22
	propRequestProblem    = 23
	propWillDelay         = 24
	propRequestResponse   = 25
	propResponseInfo      = 26
	propServerReference   = 28
	propReason            = 31
	propReceiveMaximum    = 33
	propAliasMaximum      = 34
	propAlias             = 35
	propMaximumQoS        = 36
	propRetainAvailable   = 37
	propUser              = 38
	propMaximumPacketSize = 39
	propWildcards         = 40
	propIdentifiers       = 41
	propShared            = 42
)

// A propSet is a set of properties, with the bit 1<<p for property p.
type propSet uint64

func (s propSet) has(p byte) bool { return s>>p&1 != 0 }

// forwarded are the properties of a PUBLISH packet, or of a will, that the subscribers get unchanged
// (MQTT 5, 3.3.2.3).
const forwarded propSet = 1<<propPayloadFormat | 1<<propContentType | 1<<propResponseTopic |
	1<<propCorrelation | 1<<propUser

// properties walks through the properties of a packet.
type properties struct {
	reader

	allowed propSet // in this packet
	repeat  propSet // those of them that may occur more than once
	seen    propSet // so far

	// The one that next found.
	id     byte
	number uint32 // its value, if it is a number
	value  []byte // its value, if it is a string or binary data
}

// properties begins to read the properties of a packet. The caller walks through all of them, and
// then calls finish.
func (r *reader) properties(allowed propSet) properties {
	return properties{reader: reader{rest: r.takeBytes(r.varint())}, allowed: allowed, repeat: 1 << propUser}
}

// finish takes over the error of the properties.
func (r *reader) finish(ps *properties) {
	if ps.err != nil {
		r.fail(ps.err.Code, ps.err.Text)
	}
}

// skip reads properties of which only their correctness counts.
func (r *reader) skip(allowed propSet) {
	ps := r.properties(allowed)
	for ps.next() {
	}
	r.finish(&ps)
}

// next reads one property, and reports whether there was one.
func (ps *properties) next() bool {
	if len(ps.rest) == 0 {
		return false
	}
	ps.id = ps.byte()
	switch {
	case !ps.allowed.has(ps.id):
		ps.fail(MalformedPacket, "a property that this packet does not have (MQTT 5, 2.2.2.2)")
		return false
	case ps.seen.has(ps.id) && !ps.repeat.has(ps.id):
		ps.fail(ProtocolError, "a property occurs twice (MQTT 5, 2.2.2.2)")
		return false
	}
	ps.seen |= 1 << ps.id
	ps.read()
	return ps.err == nil
}

// read reads the value of a property.
func (ps *properties) read() {
	switch kindOf(ps.id) {
	case kindNone: // is not allowed anywhere: next has refused it
	case kindByte:
		ps.number = uint32(ps.byte())
	case kindUint16:
		ps.number = uint32(ps.uint16())
	case kindUint32:
		ps.number = ps.uint32()
	case kindVarint:
		ps.number = uint32(ps.varint())
	case kindText:
		ps.value = ps.text()
	case kindBinary:
		ps.value = ps.bytes()
	case kindPair:
		ps.text()
		ps.text()
	}
	ps.check()
}

// check looks at values that the specification forbids for a property in any packet.
func (ps *properties) check() {
	if ps.err != nil {
		return
	}
	switch ps.id {
	case propReceiveMaximum, propMaximumPacketSize, propIdentifier:
		if ps.number == 0 {
			ps.fail(ProtocolError, "a property is 0 (MQTT 5, 3.1.2.11.3, 3.1.2.11.4 and 3.8.2.1.2)")
		}
	case propAlias:
		if ps.number == 0 {
			ps.fail(InvalidAlias, "topic alias 0 (MQTT 5, 3.3.2.3.4)")
		}
	case propResponseTopic:
		if !ValidTopic(ps.value) {
			ps.fail(ProtocolError, "the response topic is no topic name (MQTT 5, 3.3.2.3.5)")
		}
	default:
		if kindOf(ps.id) == kindByte && ps.number > 1 {
			ps.fail(ProtocolError, "a property is neither 0 nor 1 (MQTT 5, 2.2.2.2)")
		}
	}
}

// A kind is the data type of a property.
type kind uint8

const (
	kindNone kind = iota // there is no such property
	kindByte
	kindUint16
	kindUint32
	kindVarint
	kindText
	kindBinary
	kindPair
)

// kindOf returns the kind of a property (MQTT 5, 2.2.2.2).
func kindOf(id byte) kind {
	switch id {
	case propPayloadFormat, propRequestProblem, propRequestResponse, propMaximumQoS,
		propRetainAvailable, propWildcards, propIdentifiers, propShared:
		return kindByte
	case propServerKeepAlive, propReceiveMaximum, propAliasMaximum, propAlias:
		return kindUint16
	case propExpiry, propSessionExpiry, propWillDelay, propMaximumPacketSize:
		return kindUint32
	case propIdentifier:
		return kindVarint
	case propContentType, propResponseTopic, propAssignedClientID, propAuthMethod,
		propResponseInfo, propServerReference, propReason:
		return kindText
	case propCorrelation, propAuthData:
		return kindBinary
	case propUser:
		return kindPair
	default:
		return kindNone
	}
}
