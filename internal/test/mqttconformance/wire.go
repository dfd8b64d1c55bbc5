package mqttconformance

import "encoding/binary"

// The kinds of packets (MQTT 5, section 2.1.2).
const (
	connect     byte = 1
	connack     byte = 2
	publish     byte = 3
	puback      byte = 4
	pubrec      byte = 5
	pubrel      byte = 6
	pubcomp     byte = 7
	subscribe   byte = 8
	suback      byte = 9
	unsubscribe byte = 10
	unsuback    byte = 11
	pingreq     byte = 12
	pingresp    byte = 13
	disconnect  byte = 14
	auth        byte = 15
)

// The properties (MQTT 5, section 2.2.2.2).
const (
	propPayloadFormat       byte = 0x01
	propMessageExpiry       byte = 0x02
	propContentType         byte = 0x03
	propResponseTopic       byte = 0x08
	propCorrelationData     byte = 0x09
	propSubscriptionID      byte = 0x0b
	propSessionExpiry       byte = 0x11
	propAssignedClientID    byte = 0x12
	propServerKeepAlive     byte = 0x13
	propAuthMethod          byte = 0x15
	propAuthData            byte = 0x16
	propRequestProblemInfo  byte = 0x17
	propWillDelay           byte = 0x18
	propRequestResponseInfo byte = 0x19
	propResponseInformation byte = 0x1a
	propServerReference     byte = 0x1c
	propReasonString        byte = 0x1f
	propReceiveMaximum      byte = 0x21
	propTopicAliasMaximum   byte = 0x22
	propTopicAlias          byte = 0x23
	propMaximumQoS          byte = 0x24
	propRetainAvailable     byte = 0x25
	propUser                byte = 0x26
	propMaximumPacketSize   byte = 0x27
	propWildcardAvailable   byte = 0x28
	propSubIDAvailable      byte = 0x29
	propSharedAvailable     byte = 0x2a
)

// props are encoded properties, without their length.
type props []byte

func (p props) byte(id, v byte) props { return append(p, id, v) }

func (p props) two(id byte, v uint16) props {
	return binary.BigEndian.AppendUint16(append(p, id), v)
}

func (p props) four(id byte, v uint32) props {
	return binary.BigEndian.AppendUint32(append(p, id), v)
}

func (p props) text(id byte, s string) props { return appendString(append(p, id), s) }

func (p props) pair(key, value string) props {
	return appendString(appendString(append(p, propUser), key), value)
}

// subscription appends a subscription identifier.
func (p props) subscription(id int) props { return appendNumber(append(p, propSubscriptionID), id) }

// section returns the properties behind their length.
func (p props) section() []byte { return append(appendNumber(nil, len(p)), p...) }

func appendString(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

// appendNumber appends a variable byte integer.
func appendNumber(b []byte, n int) []byte {
	for ; n > 0x7f; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}

// frame returns a packet: its first byte, its remaining length, and its parts.
func frame(first byte, parts ...[]byte) []byte {
	var body []byte
	for _, p := range parts {
		body = append(body, p...)
	}
	return append(appendNumber([]byte{first}, len(body)), body...)
}

func two(v uint16) []byte { return binary.BigEndian.AppendUint16(nil, v) }

func text(s string) []byte { return appendString(nil, s) }

// message is what a client publishes, or its will. props are left out before MQTT 5.
type message struct {
	topic, payload string
	qos            byte
	retain, dup    bool
	id             uint16 // with a QoS above 0; 0: the client chooses
	props          props
}

func (m message) encode(version byte) []byte {
	first := publish<<4 | m.qos<<1
	if m.retain {
		first |= 1
	}
	if m.dup {
		first |= 8
	}
	parts := [][]byte{text(m.topic)}
	if m.qos > 0 {
		parts = append(parts, two(m.id))
	}
	if version == 5 {
		parts = append(parts, m.props.section())
	}
	return frame(first, append(parts, []byte(m.payload))...)
}

// hello is a CONNECT. The zero value asks for a new session of MQTT 5 with an identifier that the broker chooses.
type hello struct {
	version        byte // 3, 4 or 5; 0: 5
	id             string
	resume         bool   // the opposite of Clean Start
	keepAlive      uint16 // in seconds; 0: 30 s
	props          props
	will           *message
	user, password string
}

func (h hello) encode() []byte {
	parts := [][]byte{text("MQTT"), {h.version, h.flags()}, two(h.keepAlive)}
	if h.version == 3 {
		parts[0] = text("MQIsdp")
	}
	if h.version == 5 {
		parts = append(parts, h.props.section())
	}
	parts = append(parts, text(h.id))
	if h.will != nil {
		if h.version == 5 {
			parts = append(parts, h.will.props.section())
		}
		parts = append(parts, text(h.will.topic), text(h.will.payload))
	}
	if h.user != "" {
		parts = append(parts, text(h.user))
	}
	if h.password != "" {
		parts = append(parts, text(h.password))
	}
	return frame(connect<<4, parts...)
}

// limits returns the properties of a CONNECT that is well-formed.
func (h hello) limits() properties {
	r := reader{rest: h.props.section(), version: 5}
	return r.properties(
		propSessionExpiry, propReceiveMaximum, propMaximumPacketSize, propTopicAliasMaximum, propRequestResponseInfo,
		propRequestProblemInfo, propUser, propAuthMethod, propAuthData,
	)
}

func (h hello) flags() byte {
	var flags byte
	if !h.resume {
		flags |= 0x02
	}
	if h.will != nil {
		flags |= 0x04 | h.will.qos<<3
		if h.will.retain {
			flags |= 0x20
		}
	}
	if h.password != "" {
		flags |= 0x40
	}
	if h.user != "" {
		flags |= 0x80
	}
	return flags
}

// Options of a subscription (MQTT 5, section 3.8.3.1), beside its QoS.
const (
	noLocal           byte = 0x04
	retainAsPublished byte = 0x08
	retainIfNew       byte = 0x10 // retained messages only if the subscription is new
	retainNever       byte = 0x20
)

// filter is a part of a SUBSCRIBE.
type filter struct {
	name    string
	options byte // QoS, and from MQTT 5 on the others
}

func encodeSubscribe(version byte, id uint16, p props, filters ...filter) []byte {
	parts := [][]byte{two(id)}
	if version == 5 {
		parts = append(parts, p.section())
	}
	for _, f := range filters {
		parts = append(parts, text(f.name), []byte{f.options})
	}
	return frame(subscribe<<4|2, parts...)
}

func encodeUnsubscribe(version byte, id uint16, filters ...string) []byte {
	parts := [][]byte{two(id)}
	if version == 5 {
		parts = append(parts, []byte{0})
	}
	for _, f := range filters {
		parts = append(parts, text(f))
	}
	return frame(unsubscribe<<4|2, parts...)
}

// encodeAck returns a PUBACK, PUBREC, PUBREL or PUBCOMP. A code other than 0 is for MQTT 5 only.
func encodeAck(kind byte, id uint16, code byte) []byte {
	first := kind << 4
	if kind == pubrel {
		first |= 2
	}
	if code == 0 {
		return frame(first, two(id))
	}
	return frame(first, two(id), []byte{code})
}
