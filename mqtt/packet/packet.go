package packet

import "strconv"

// A Version is a version of the protocol, with the number that CONNECT gives it.
type Version uint8

// The versions.
const (
	V31  Version = 3
	V311 Version = 4
	V5   Version = 5
)

// A Type says what a packet is for (MQTT 5, 2.1.2).
type Type uint8

// The types.
const (
	TypeConnect Type = iota + 1
	TypeConnack
	TypePublish
	TypePuback
	TypePubrec
	TypePubrel
	TypePubcomp
	TypeSubscribe
	TypeSuback
	TypeUnsubscribe
	TypeUnsuback
	TypePingreq
	TypePingresp
	TypeDisconnect
	TypeAuth
)

// String returns the name in capitals, such as PUBLISH, or the number of what is no type.
func (t Type) String() string {
	names := [...]string{
		TypeConnect:     "CONNECT",
		TypeConnack:     "CONNACK",
		TypePublish:     "PUBLISH",
		TypePuback:      "PUBACK",
		TypePubrec:      "PUBREC",
		TypePubrel:      "PUBREL",
		TypePubcomp:     "PUBCOMP",
		TypeSubscribe:   "SUBSCRIBE",
		TypeSuback:      "SUBACK",
		TypeUnsubscribe: "UNSUBSCRIBE",
		TypeUnsuback:    "UNSUBACK",
		TypePingreq:     "PINGREQ",
		TypePingresp:    "PINGRESP",
		TypeDisconnect:  "DISCONNECT",
		TypeAuth:        "AUTH",
	}
	if int(t) < len(names) && names[t] != "" {
		return names[t]
	}
	return "packet type " + strconv.Itoa(int(t))
}

// A Header is the first byte of a packet.
type Header struct {
	Type  Type
	Flags uint8 // the low four bits
}

// The flags of PUBLISH (MQTT 5, 3.3.1).
const (
	flagRetain = 1 << 0
	flagQoS    = 3 << 1
	flagDup    = 1 << 3
)

// flagsIDed are the flags of PUBREL, SUBSCRIBE and UNSUBSCRIBE. In MQTT 3.1 they meant QoS 1.
const flagsIDed = 1 << 1

// AppendPingreq appends a PINGREQ packet, in any version.
func AppendPingreq(dst []byte) []byte { return append(dst, byte(TypePingreq)<<4, 0) }

// AppendPingresp appends a PINGRESP packet, in any version.
func AppendPingresp(dst []byte) []byte { return append(dst, byte(TypePingresp)<<4, 0) }
