package testmqtt

import (
	"encoding/binary"
	"time"
)

// The few packets of MQTT 3.1.1 that devices need (OASIS Standard, sections 2 and 3). They are encoded
// here so that 10,000 devices cost next to nothing, and so that a client can end without a DISCONNECT.

//nolint:gochecknoglobals // never changes
var (
	disconnect  = []byte{0xE0, 0}
	pingRequest = []byte{0xC0, 0}
)

// appendConnect appends a CONNECT packet (section 3.1) for a clean session. Unless status is empty, the
// packet has the retained last will "offline" with QoS 1 on that topic.
func appendConnect(b []byte, id, status string) []byte {
	const clean, hasWill, willQoS1, willRetain = 1 << 1, 1 << 2, 1 << 3, 1 << 5
	flags := byte(clean)
	fields := []string{id}
	if status != "" {
		flags |= hasWill | willQoS1 | willRetain
		fields = append(fields, status, "offline")
	}
	length := 10
	for _, f := range fields {
		length += 2 + len(f)
	}
	b = appendLength(append(b, 0x10), length)
	b = append(appendString(b, "MQTT"), 4, flags)
	b = binary.BigEndian.AppendUint16(b, uint16(keepAlive/time.Second))
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
