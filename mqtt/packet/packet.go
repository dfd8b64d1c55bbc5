// Package packet reads and writes the packets of MQTT 3.1, 3.1.1 and 5.
package packet

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

func (t Type) String() string { panic("later") }

// MaxSize is the size of the largest packet that the protocol can express, in bytes.
const MaxSize = 5 + 268_435_455

// A Code is a reason code of MQTT 5 (MQTT 5, 2.4).
type Code uint8

// The reason codes. Success is also granted QoS 0 and a normal disconnection.
const (
	Success                 Code = 0x00
	GrantedQoS1             Code = 0x01
	GrantedQoS2             Code = 0x02
	DisconnectWithWill      Code = 0x04
	NoMatchingSubscribers   Code = 0x10
	NoSubscriptionExisted   Code = 0x11
	ContinueAuthentication  Code = 0x18
	Reauthenticate          Code = 0x19
	UnspecifiedError        Code = 0x80
	MalformedPacket         Code = 0x81
	ProtocolError           Code = 0x82
	ImplementationError     Code = 0x83
	UnsupportedVersion      Code = 0x84
	InvalidClientID         Code = 0x85
	BadUserOrPassword       Code = 0x86
	NotAuthorized           Code = 0x87
	ServerUnavailable       Code = 0x88
	ServerBusy              Code = 0x89
	Banned                  Code = 0x8A
	ServerShuttingDown      Code = 0x8B
	BadAuthMethod           Code = 0x8C
	KeepAliveTimeout        Code = 0x8D
	SessionTakenOver        Code = 0x8E
	InvalidFilter           Code = 0x8F
	InvalidTopic            Code = 0x90
	PacketIDInUse           Code = 0x91
	PacketIDNotFound        Code = 0x92
	ReceiveMaximumExceeded  Code = 0x93
	InvalidAlias            Code = 0x94
	PacketTooLarge          Code = 0x95
	MessageRateTooHigh      Code = 0x96
	QuotaExceeded           Code = 0x97
	AdministrativeAction    Code = 0x98
	InvalidPayloadFormat    Code = 0x99
	RetainNotSupported      Code = 0x9A
	QoSNotSupported         Code = 0x9B
	UseAnotherServer        Code = 0x9C
	ServerMoved             Code = 0x9D
	SharedNotSupported      Code = 0x9E
	ConnectionRateExceeded  Code = 0x9F
	MaximumConnectTime      Code = 0xA0
	IdentifiersNotSupported Code = 0xA1
	WildcardsNotSupported   Code = 0xA2
)

// String returns the words of the specification.
func (c Code) String() string { panic("later") }

// An Error says why a packet is refused. Every error of this package is an *Error.
type Error struct {
	Code Code   // what MQTT 5 answers
	Text string // what is wrong, with the section
}

func (e *Error) Error() string { panic("later") }

// A Header is the first byte of a packet.
type Header struct {
	Type  Type
	Flags uint8 // the low four bits
}

// Split takes the first packet off input: n is its whole length, 0 if it is not complete. body is a
// view into input. v is the version of the connection, 0 before its CONNECT.
//
// It refuses type 0, reserved flags that are wrong for the type, a remaining length of more than
// four bytes, and with PacketTooLarge a packet of more than limit bytes, as soon as it is announced.
func Split(v Version, input []byte, limit int) (h Header, body []byte, n int, err error) {
	panic("later")
}

// A Connect is a CONNECT packet.
type Connect struct {
	Version                       Version
	Clean                         bool
	HasUser, HasPassword, HasWill bool
	KeepAlive                     uint16 // seconds; 0: none
	ClientID, User, Password      []byte
	Will                          Will // if HasWill

	// The properties of MQTT 5.
	SessionExpiry        uint32 // seconds
	ReceiveMaximum       uint16 // 65535 if absent
	MaximumPacketSize    uint32 // bytes; 0: no limit
	TopicAliasMaximum    uint16
	RequestResponse      bool
	RequestProblem       bool   // true if absent
	AuthMethod, AuthData []byte // nil if absent
}

// A Will is the last will in a CONNECT packet.
type Will struct {
	Topic, Payload []byte
	QoS            uint8
	Retain         bool
	HasExpiry      bool
	Delay          uint32 // seconds
	Expiry         uint32 // seconds, if HasExpiry
	Properties     []byte // raw, all of them; see AppendForwarded
}

// Decode reads the body of a packet. The slices of p are views into it.
//
// If the error has the code UnsupportedVersion, Version says how to write the answer, or is 0 if
// no answer can be understood.
func (p *Connect) Decode(body []byte) error { panic("later") }

// Append writes the packet.
func (p *Connect) Append(dst []byte) []byte { panic("later") }

// A Publish is a PUBLISH packet as it comes in.
type Publish struct {
	Topic, Payload []byte // Topic is empty only with an Alias
	ID             uint16 // 0 with QoS 0
	QoS            uint8
	Retain, Dup    bool
	HasExpiry      bool
	Alias          uint16 // 0: none
	Expiry         uint32 // seconds, if HasExpiry
	Properties     []byte // raw, all of them; see AppendForwarded

	identifiers []byte
}

// Decode reads the body of a packet from a client. The slices of p are views into it.
func (p *Publish) Decode(v Version, h Header, body []byte) error { panic("later") }

// DecodeFromServer reads the body of a packet from a server, which may have subscription identifiers.
func (p *Publish) DecodeFromServer(v Version, h Header, body []byte) error { panic("later") }

// NextIdentifier returns one subscription identifier after the other, of a packet from a server.
func (p *Publish) NextIdentifier() (uint32, bool) { panic("later") }

// AppendForwarded appends those of a PUBLISH packet's or a will's raw properties that a server
// passes on unchanged and in order.
func AppendForwarded(dst, properties []byte) []byte { panic("later") }

// UTF8Payload reports whether properties say that the payload is UTF-8 text.
func UTF8Payload(properties []byte) bool { panic("later") }

// An Out is a PUBLISH packet as it goes out.
type Out struct {
	Topic       string // "" with an Alias that the receiver knows
	Payload     []byte
	ID          uint16 // not written with QoS 0
	QoS         uint8
	Retain, Dup bool
	HasExpiry   bool
	Alias       uint16   // 0: none
	Expiry      uint32   // seconds, if HasExpiry
	Identifiers []uint32 // of the subscriptions, each from 1 to 268,435,455
	Properties  []byte   // as AppendForwarded wrote them
}

// Append writes the packet.
func (o *Out) Append(dst []byte, v Version) []byte { panic("later") }

// Size returns the number of bytes that Append writes.
func (o *Out) Size(v Version) int { panic("later") }

// An Ack is a PUBACK, PUBREC, PUBREL or PUBCOMP packet.
type Ack struct {
	ID     uint16
	Code   Code
	Reason []byte // nil if absent
}

// Decode reads the body of a packet. The slices of p are views into it.
func (p *Ack) Decode(v Version, h Header, body []byte) error { panic("later") }

// AppendAck writes a PUBACK, PUBREC, PUBREL or PUBCOMP packet, in the shortest form.
func AppendAck(dst []byte, v Version, t Type, id uint16, c Code) []byte { panic("later") }

// A Subscribe is a SUBSCRIBE packet.
type Subscribe struct {
	ID         uint16
	Identifier uint32 // 0: none

	filters []byte
	version Version
}

// A Filter is a subscription in a SUBSCRIBE packet.
type Filter struct {
	Topic                      []byte
	QoS                        uint8
	NoLocal, RetainAsPublished bool
	RetainHandling             uint8
}

// Decode reads the body of a packet. The filters are views into it. It does not look at whether they are valid.
func (p *Subscribe) Decode(v Version, body []byte) error { panic("later") }

// Next returns one filter after the other.
func (p *Subscribe) Next() (Filter, bool) { panic("later") }

// AppendSubscribe writes a SUBSCRIBE packet. identifier 0 is left out.
func AppendSubscribe(dst []byte, v Version, id uint16, identifier uint32, filters ...Filter) []byte {
	panic("later")
}

// A Suback is a SUBACK packet.
type Suback struct {
	ID uint16

	codes []byte
}

// Decode reads the body of a packet.
func (p *Suback) Decode(v Version, body []byte) error { panic("later") }

// Next returns the code of one filter after the other.
func (p *Suback) Next() (Code, bool) { panic("later") }

// AppendSuback writes a SUBACK packet. Before MQTT 5 every failure is UnspecifiedError.
func AppendSuback(dst []byte, v Version, id uint16, codes []Code) []byte { panic("later") }

// An Unsubscribe is an UNSUBSCRIBE packet.
type Unsubscribe struct {
	ID uint16

	filters []byte
}

// Decode reads the body of a packet. The filters are views into it. It does not look at whether they are valid.
func (p *Unsubscribe) Decode(v Version, body []byte) error { panic("later") }

// Next returns one filter after the other.
func (p *Unsubscribe) Next() ([]byte, bool) { panic("later") }

// AppendUnsubscribe writes an UNSUBSCRIBE packet.
func AppendUnsubscribe(dst []byte, v Version, id uint16, filters ...[]byte) []byte { panic("later") }

// An Unsuback is an UNSUBACK packet.
type Unsuback struct {
	ID uint16

	codes []byte
}

// Decode reads the body of a packet.
func (p *Unsuback) Decode(v Version, body []byte) error { panic("later") }

// Next returns the code of one filter after the other. Before MQTT 5 there are none.
func (p *Unsuback) Next() (Code, bool) { panic("later") }

// AppendUnsuback writes an UNSUBACK packet. Before MQTT 5 it has no codes.
func AppendUnsuback(dst []byte, v Version, id uint16, codes []Code) []byte { panic("later") }

// A Disconnect is a DISCONNECT packet.
type Disconnect struct {
	Code             Code
	HasSessionExpiry bool
	SessionExpiry    uint32 // seconds, if HasSessionExpiry
	Reason           []byte // nil if absent
}

// Decode reads the body of a packet. The slices of p are views into it.
func (p *Disconnect) Decode(v Version, body []byte) error { panic("later") }

// Append writes the packet as a client sends it.
func (p *Disconnect) Append(dst []byte, v Version) []byte { panic("later") }

// AppendDisconnect writes a DISCONNECT packet as a server sends it: before MQTT 5 nothing. A reason of "" is left out.
func AppendDisconnect(dst []byte, v Version, c Code, reason string) []byte { panic("later") }

// An Auth is an AUTH packet.
type Auth struct {
	Code         Code
	Method, Data []byte // nil if absent
}

// Decode reads the body of a packet. The slices of p are views into it.
func (p *Auth) Decode(body []byte) error { panic("later") }

// A Connack is a CONNACK packet. Properties that are zero are left out.
type Connack struct {
	SessionPresent bool
	Code           Code

	// The properties of MQTT 5.
	HasSessionExpiry, HasMaximumQoS, HasServerKeepAlive bool
	MaximumQoS                                          uint8  // 0 or 1, if HasMaximumQoS
	SessionExpiry                                       uint32 // seconds, if HasSessionExpiry
	ReceiveMaximum                                      uint16 // 0: absent, which means 65535
	MaximumPacketSize                                   uint32 // bytes; 0: no limit
	TopicAliasMaximum                                   uint16
	ServerKeepAlive                                     uint16 // seconds, if HasServerKeepAlive
	AssignedClientID, ResponseInformation, Reason       string
}

// Append writes the packet. Before MQTT 5 the code is translated; if there is none, nothing is written.
func (p *Connack) Append(dst []byte, v Version) []byte { panic("later") }

// Decode reads the body of a packet. It copies the strings.
func (p *Connack) Decode(v Version, body []byte) error { panic("later") }

// AppendPingreq writes a PINGREQ packet.
func AppendPingreq(dst []byte) []byte { panic("later") }

// AppendPingresp writes a PINGRESP packet.
func AppendPingresp(dst []byte) []byte { panic("later") }

// ValidTopic reports whether topic is a topic name: 1 to 65,535 bytes of UTF-8 without NUL and wildcards.
func ValidTopic(topic []byte) bool { panic("later") }

// ValidFilter reports whether filter is a topic filter, shared or not.
func ValidFilter(filter []byte) bool { panic("later") }

// SplitShare splits the filter of a shared subscription, $share/group/rest.
func SplitShare(filter []byte) (group, rest []byte, ok bool) { panic("later") }
