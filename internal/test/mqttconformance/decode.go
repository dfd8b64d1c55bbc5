package mqttconformance

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// packet is a packet of the broker.
type packet struct {
	kind        byte
	qos         byte
	dup, retain bool
	present     bool   // Session Present
	id          uint16 // packet identifier
	code        byte   // reason or return code
	codes       []byte // of SUBACK and UNSUBACK
	topic       string
	payload     string
	aliased     bool // an alias stood for the topic
	props       properties
	size        int // in bytes, all of it
}

func (p packet) String() string {
	switch p.kind {
	case publish:
		return fmt.Sprintf("PUBLISH %q on %q with QoS %d, id %d, dup %t, retain %t, properties %v", p.payload, p.topic, p.qos, p.id, p.dup, p.retain, p.props)
	case suback, unsuback:
		return fmt.Sprintf("%s with id %d, codes %#x", kindName(p.kind), p.id, p.codes)
	}
	return fmt.Sprintf("%s with id %d, code %#x, properties %v", kindName(p.kind), p.id, p.code, p.props)
}

func kindName(kind byte) string {
	return [16]string{
		"type 0", "CONNECT", "CONNACK", "PUBLISH", "PUBACK", "PUBREC", "PUBREL", "PUBCOMP",
		"SUBSCRIBE", "SUBACK", "UNSUBSCRIBE", "UNSUBACK", "PINGREQ", "PINGRESP", "DISCONNECT", "AUTH",
	}[kind]
}

// decode reads a packet of the broker strictly: first is its first byte, body what follows its remaining length.
func decode(version, first byte, body []byte) (packet, error) {
	p := packet{kind: first >> 4}
	r := &reader{rest: body, version: version}
	flags := first & 0x0f
	if p.kind != publish && flags != 0 && (p.kind != pubrel || flags != 2) || p.kind == pubrel && flags != 2 {
		return p, fmt.Errorf("%s with flags %#x", kindName(p.kind), flags)
	}
	switch p.kind {
	case connack:
		r.connack(&p)
	case publish:
		r.publish(&p, flags)
	case puback, pubrec, pubrel, pubcomp:
		r.ack(&p)
	case suback, unsuback:
		r.codes(&p)
	case pingresp:
	case disconnect, auth:
		r.end(&p)
	default:
		return p, fmt.Errorf("%s is not for a client", kindName(p.kind))
	}
	if r.err == nil && len(r.rest) > 0 {
		r.fail("%d bytes behind the end", len(r.rest))
	}
	if r.err != nil {
		return p, fmt.Errorf("%s % x: %w", kindName(p.kind), body, r.err)
	}
	return p, nil
}

// reader reads a packet. After an error all methods return zero values.
type reader struct {
	rest    []byte
	version byte
	err     error // the first one
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
		r.rest = nil
	}
}

func (r *reader) take(n int) []byte {
	if n > len(r.rest) {
		r.fail("it is too short")
		return make([]byte, min(n, 4))
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) byte() byte { return r.take(1)[0] }

func (r *reader) two() uint16 { return binary.BigEndian.Uint16(r.take(2)) }

func (r *reader) four() uint32 { return binary.BigEndian.Uint32(r.take(4)) }

func (r *reader) binary() string { return string(r.take(int(r.two()))) }

func (r *reader) text() string {
	s := r.binary()
	if !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
		r.fail("%q is no text of MQTT", s)
	}
	return s
}

func (r *reader) number() int {
	n := 0
	for i := range 4 {
		b := r.byte()
		n |= int(b&0x7f) << (7 * i)
		if b < 0x80 {
			if b == 0 && i > 0 {
				r.fail("%d is encoded in more bytes than it needs", n)
			}
			return n
		}
	}
	r.fail("a variable byte integer of more than 4 bytes")
	return 0
}

// packetID reads a packet identifier.
func (r *reader) packetID() uint16 {
	id := r.two()
	if id == 0 {
		r.fail("the packet identifier is 0")
	}
	return id
}

// allowed wants a code to be one that the specification lists.
func (r *reader) allowed(code byte, list ...byte) {
	if !slices.Contains(list, code) {
		r.fail("code %#x", code)
	}
}

func (r *reader) connack(p *packet) {
	flags := r.byte()
	p.present = flags == 1
	if flags > 1 {
		r.fail("flags %#x", flags)
	}
	if p.code = r.byte(); p.code != 0 && p.present {
		r.fail("session present with code %#x", p.code)
	}
	if r.version < 5 {
		r.allowed(p.code, 0, 1, 2, 3, 4, 5)
		return
	}
	r.allowed(p.code, 0, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x8c, 0x90, 0x95, 0x97, 0x99, 0x9a, 0x9b, 0x9c, 0x9d, 0x9f)
	p.props = r.properties(
		propSessionExpiry, propAssignedClientID, propServerKeepAlive, propAuthMethod, propAuthData, propResponseInformation,
		propServerReference, propReasonString, propReceiveMaximum, propTopicAliasMaximum, propMaximumQoS, propRetainAvailable,
		propUser, propMaximumPacketSize, propWildcardAvailable, propSubIDAvailable, propSharedAvailable,
	)
}

func (r *reader) publish(p *packet, flags byte) {
	p.dup, p.qos, p.retain = flags&8 != 0, flags>>1&3, flags&1 != 0
	if p.qos == 3 {
		r.fail("QoS 3")
	}
	if p.dup && p.qos == 0 {
		r.fail("DUP with QoS 0")
	}
	if p.topic = r.text(); strings.ContainsAny(p.topic, "+#") {
		r.fail("topic %q", p.topic)
	}
	if p.qos > 0 {
		p.id = r.packetID()
	}
	if r.version == 5 {
		p.props = r.properties(
			propPayloadFormat, propMessageExpiry, propContentType, propResponseTopic, propCorrelationData, propSubscriptionID, propTopicAlias, propUser,
		)
	}
	if _, ok := p.props.number(propTopicAlias); p.topic == "" && !ok {
		r.fail("no topic")
	}
	p.payload, r.rest = string(r.rest), nil
}

func (r *reader) ack(p *packet) {
	p.id = r.packetID()
	if r.version < 5 || len(r.rest) == 0 {
		return
	}
	p.code = r.byte()
	if p.kind == puback || p.kind == pubrec {
		r.allowed(p.code, 0, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99)
	} else {
		r.allowed(p.code, 0, 0x92)
	}
	if len(r.rest) > 0 {
		p.props = r.properties(propReasonString, propUser)
	}
}

func (r *reader) codes(p *packet) {
	p.id = r.packetID()
	if r.version < 5 {
		if p.codes, r.rest = r.rest, nil; p.kind == unsuback && len(p.codes) > 0 {
			r.fail("UNSUBACK with codes")
		}
		for _, code := range p.codes {
			r.allowed(code, 0, 1, 2, 0x80)
		}
		return
	}
	p.props = r.properties(propReasonString, propUser)
	p.codes, r.rest = r.rest, nil
	for _, code := range p.codes {
		if p.kind == suback {
			r.allowed(code, 0, 1, 2, 0x80, 0x83, 0x87, 0x8f, 0x91, 0x97, 0x9e, 0xa1, 0xa2)
		} else {
			r.allowed(code, 0, 0x11, 0x80, 0x83, 0x87, 0x8f, 0x91)
		}
	}
}

// end reads the rest of a DISCONNECT or AUTH.
func (r *reader) end(p *packet) {
	if r.version < 5 {
		r.err = errors.New("a broker does not send it before MQTT 5")
		return
	}
	if len(r.rest) == 0 {
		return
	}
	p.code = r.byte()
	list := []byte{
		0, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8b, 0x8d, 0x8e, 0x8f, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99,
		0x9a, 0x9b, 0x9c, 0x9d, 0x9e, 0x9f, 0xa0, 0xa1, 0xa2,
	}
	properties := []byte{propServerReference, propReasonString, propUser}
	if p.kind == auth {
		list, properties = []byte{0, 0x18, 0x19}, []byte{propAuthMethod, propAuthData, propReasonString, propUser}
	}
	r.allowed(p.code, list...)
	if len(r.rest) > 0 {
		p.props = r.properties(properties...)
	}
}
