package packet

// MaxSize is the size in bytes of the largest packet that the protocol can express.
const MaxSize = 1 + 4 + maxVarint

// Split takes the first packet off input: h is its first byte, body all behind its length, n its
// whole length. If it is not complete, n is 0. body is a view into input, without room to append.
// v is the version of the connection, 0 before its CONNECT.
//
// The errors: MalformedPacket for a type that the version does not have, for flags that are wrong
// for the type, and for a remaining length of more than four bytes, or in MQTT 5 of more than it
// needs; PacketTooLarge, as soon as it is announced, for a packet of more than limit bytes. Flags
// that MQTT 3.1 does not use are ignored once v is V31: its clients repeat a SUBSCRIBE with DUP.
func Split(v Version, input []byte, limit int) (h Header, body []byte, n int, err error) {
	if len(input) == 0 {
		return Header{}, nil, 0, nil
	}
	h = Header{Type: Type(input[0] >> 4), Flags: input[0] & 0x0F}
	if text := h.fault(v); text != "" {
		return Header{}, nil, 0, &Error{Code: MalformedPacket, Text: text}
	}
	size, k := varint(input[1:])
	switch {
	case k == 0:
		return Header{}, nil, 0, nil
	case k < 0:
		return Header{}, nil, 0, &Error{Code: MalformedPacket, Text: "the remaining length has more than four bytes (MQTT 5, 1.5.5)"}
	case v == V5 && k > varintSize(size):
		return Header{}, nil, 0, &Error{Code: MalformedPacket, Text: "the remaining length has more bytes than it needs (MQTT 5, 1.5.5)"}
	case size > 0 && (h.Type == TypePingreq || h.Type == TypePingresp):
		return Header{}, nil, 0, &Error{Code: MalformedPacket, Text: "a ping has a body (MQTT 5, 3.12 and 3.13)"}
	}
	begin := 1 + k
	n = begin + size
	if n > limit {
		return Header{}, nil, 0, &Error{Code: PacketTooLarge, Text: "a packet is larger than the limit (MQTT 5, 3.1.2.11.4)"}
	}
	if len(input) < n {
		return Header{}, nil, 0, nil
	}
	return h, input[begin:n:n], n, nil
}

// fault says what is wrong with the first byte of a packet, or "".
func (h Header) fault(v Version) string {
	switch {
	case h.Type == 0:
		return "packet type 0 (MQTT 5, 2.1.2)"
	case h.Type == TypePublish:
		return h.publishFault(v)
	case h.Type == TypeAuth && (v == V31 || v == V311):
		return "packet type 15 before MQTT 5 (MQTT 3.1.1, 2.2.1)"
	case v != V31 && h.Flags != h.Type.flags():
		return "reserved flags are wrong (MQTT 5, 2.1.3)"
	default:
		return ""
	}
}

func (h Header) publishFault(v Version) string {
	switch {
	case h.Flags&flagQoS == flagQoS:
		return "PUBLISH with QoS 3 (MQTT 5, 3.3.1.2)"
	case v != V31 && h.Flags&(flagDup|flagQoS) == flagDup:
		return "PUBLISH with DUP and QoS 0 (MQTT 5, 3.3.1.1)"
	default:
		return ""
	}
}

// flags returns what the flags of a packet must be that is not PUBLISH (MQTT 5, 2.1.3).
func (t Type) flags() uint8 {
	switch t {
	case TypePubrel, TypeSubscribe, TypeUnsubscribe:
		return flagsIDed
	default:
		return 0
	}
}
