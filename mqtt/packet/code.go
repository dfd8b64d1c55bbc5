package packet

import "strconv"

// A Code is a reason code of MQTT 5 (MQTT 5, 2.4). From UnspecifiedError on it is a failure.
type Code uint8

// The reason codes. Success is also the granted QoS 0, and the normal disconnection.
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

// String returns the words of the specification, or the number of a code that it does not have.
func (c Code) String() string {
	words := [...]string{
		Success:                 "Success",
		GrantedQoS1:             "Granted QoS 1",
		GrantedQoS2:             "Granted QoS 2",
		DisconnectWithWill:      "Disconnect with Will Message",
		NoMatchingSubscribers:   "No matching subscribers",
		NoSubscriptionExisted:   "No subscription existed",
		ContinueAuthentication:  "Continue authentication",
		Reauthenticate:          "Re-authenticate",
		PacketIDNotFound:        "Packet Identifier not found",
		ReceiveMaximumExceeded:  "Receive Maximum exceeded",
		InvalidAlias:            "Topic Alias invalid",
		PacketTooLarge:          "Packet too large",
		MessageRateTooHigh:      "Message rate too high",
		QuotaExceeded:           "Quota exceeded",
		AdministrativeAction:    "Administrative action",
		InvalidPayloadFormat:    "Payload format invalid",
		RetainNotSupported:      "Retain not supported",
		QoSNotSupported:         "QoS not supported",
		UseAnotherServer:        "Use another server",
		ServerMoved:             "Server moved",
		SharedNotSupported:      "Shared Subscriptions not supported",
		ConnectionRateExceeded:  "Connection rate exceeded",
		MaximumConnectTime:      "Maximum connect time",
		IdentifiersNotSupported: "Subscription Identifiers not supported",
		WildcardsNotSupported:   "Wildcard Subscriptions not supported",
		UnspecifiedError:        "Unspecified error",
		MalformedPacket:         "Malformed Packet",
		ProtocolError:           "Protocol Error",
		ImplementationError:     "Implementation specific error",
		UnsupportedVersion:      "Unsupported Protocol Version",
		InvalidClientID:         "Client Identifier not valid",
		BadUserOrPassword:       "Bad User Name or Password",
		NotAuthorized:           "Not authorized",
		ServerUnavailable:       "Server unavailable",
		ServerBusy:              "Server busy",
		Banned:                  "Banned",
		ServerShuttingDown:      "Server shutting down",
		BadAuthMethod:           "Bad authentication method",
		KeepAliveTimeout:        "Keep Alive timeout",
		SessionTakenOver:        "Session taken over",
		InvalidFilter:           "Topic Filter invalid",
		InvalidTopic:            "Topic Name invalid",
		PacketIDInUse:           "Packet Identifier in use",
	}
	if int(c) < len(words) && words[c] != "" {
		return words[c]
	}
	return "reason code 0x" + strconv.FormatUint(uint64(c), 16)
}

// An Error says why a packet is refused. Every error of this package is an *Error.
type Error struct {
	Code Code   // what MQTT 5 answers
	Text string // what is wrong, with the section
}

func (e *Error) Error() string { return "mqtt: " + e.Code.String() + ": " + e.Text }
