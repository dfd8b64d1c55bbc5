package packet

import (
	"encoding/binary"
	"slices"
)

// An Out is a PUBLISH packet as it goes out.
type Out struct {
	Topic       string // "" with an Alias that the receiver knows
	Payload     []byte
	ID          uint16 // left out with QoS 0
	QoS         uint8
	Retain, Dup bool

	// The properties of MQTT 5, which are left out before it.
	HasExpiry   bool
	Alias       uint16   // 0: none
	Expiry      uint32   // seconds, if HasExpiry
	Identifiers []uint32 // of the subscriptions, each from 1 to 268,435,455
	Properties  []byte   // as AppendForwarded wrote them
}

// Size returns the number of bytes that Append appends. A packet of more than MaxSize cannot be sent.
func (o *Out) Size(v Version) int {
	size := o.remaining(v)
	return 1 + varintSize(size) + size
}

// Append appends the packet.
func (o *Out) Append(dst []byte, v Version) []byte {
	size := o.remaining(v)
	dst = slices.Grow(dst, 1+varintSize(size)+size)
	dst = append(dst, byte(TypePublish)<<4|o.flags())
	dst = appendVarint(dst, size)
	dst = appendText(dst, o.Topic)
	if o.QoS > 0 {
		dst = binary.BigEndian.AppendUint16(dst, o.ID)
	}
	if v == V5 {
		dst = o.appendProperties(dst)
	}
	return append(dst, o.Payload...)
}

func (o *Out) flags() byte {
	flags := o.QoS << 1
	if o.Retain {
		flags |= flagRetain
	}
	if o.Dup {
		flags |= flagDup
	}
	return flags
}

// remaining returns the remaining length.
func (o *Out) remaining(v Version) int {
	size := 2 + len(o.Topic) + len(o.Payload)
	if o.QoS > 0 {
		size += 2
	}
	if v == V5 {
		properties := o.propertiesSize()
		size += varintSize(properties) + properties
	}
	return size
}

func (o *Out) propertiesSize() int {
	size := len(o.Properties)
	if o.HasExpiry {
		size += 1 + 4
	}
	if o.Alias != 0 {
		size += 1 + 2
	}
	for _, id := range o.Identifiers {
		size += 1 + varintSize(int(id))
	}
	return size
}

func (o *Out) appendProperties(dst []byte) []byte {
	dst = appendVarint(dst, o.propertiesSize())
	if o.HasExpiry {
		dst = appendUint32(dst, propExpiry, o.Expiry)
	}
	if o.Alias != 0 {
		dst = appendUint16(dst, propAlias, o.Alias)
	}
	for _, id := range o.Identifiers {
		dst = appendVarint(append(dst, propIdentifier), int(id))
	}
	return append(dst, o.Properties...)
}
