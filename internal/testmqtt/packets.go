package testmqtt

import "encoding/binary"

// The few packets of MQTT 3.1.1 that devices need (OASIS Standard, sections 2 and 3). They are encoded here so that 10,000 devices cost
// next to nothing, and so that a client can end without a word.

// connect is what is in a CONNECT packet. Sessions are clean.
type connect struct {
	id             string
	keepAlive      uint16 // seconds
	user, password string
	will           *will
}

type will struct {
	topic, payload string
	retain         bool
}

//nolint:gochecknoglobals // bytes that nobody changes
var (
	disconnect  = []byte{0xE0, 0}
	pingRequest = []byte{0xC0, 0}
)

// appendConnect appends a CONNECT packet (section 3.1). A will has QoS 1.
func appendConnect(b []byte, c connect) []byte {
	const clean, hasWill, willQoS1, willRetain, hasPassword, hasUser = 1 << 1, 1 << 2, 1 << 3, 1 << 5, 1 << 6, 1 << 7
	flags := byte(clean)
	fields := []string{c.id}
	if c.will != nil {
		flags |= hasWill | willQoS1
		if c.will.retain {
			flags |= willRetain
		}
		fields = append(fields, c.will.topic, c.will.payload)
	}
	if c.user != "" {
		flags |= hasUser | hasPassword
		fields = append(fields, c.user, c.password)
	}
	length := 10
	for _, f := range fields {
		length += 2 + len(f)
	}
	b = appendLength(append(b, 0x10), length)
	b = append(appendString(b, "MQTT"), 4, flags)
	b = binary.BigEndian.AppendUint16(b, c.keepAlive)
	for _, f := range fields {
		b = appendString(b, f)
	}
	return b
}

// appendPublish appends a PUBLISH packet with QoS 0 (section 3.3).
func appendPublish(b []byte, topic, payload string, retain bool) []byte {
	head := byte(0x30)
	if retain {
		head |= 1
	}
	b = appendLength(append(b, head), 2+len(topic)+len(payload))
	return append(appendString(b, topic), payload...)
}

// appendString appends a string with its length. One that is too long for that is a mistake of the test.
func appendString(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

// appendLength appends a remaining length (section 2.2.3).
func appendLength(b []byte, n int) []byte {
	for n >= 0x80 {
		b = append(b, byte(n)|0x80)
		n >>= 7
	}
	return append(b, byte(n))
}
