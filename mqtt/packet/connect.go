package packet

import "encoding/binary"

// A Connect is a CONNECT packet.
type Connect struct {
	Version                       Version
	Clean                         bool // Clean Start, before MQTT 5 Clean Session
	HasUser, HasPassword, HasWill bool
	KeepAlive                     uint16 // seconds; 0: none
	ClientID, User, Password      []byte // User if HasUser, Password if HasPassword
	Will                          Will   // if HasWill

	// The properties of MQTT 5.
	SessionExpiry        uint32 // seconds
	ReceiveMaximum       uint16 // 65535 if absent
	TopicAliasMaximum    uint16
	MaximumPacketSize    uint32 // bytes; 0: no limit
	RequestResponse      bool
	RequestProblem       bool   // true if absent
	AuthMethod, AuthData []byte // nil if absent
}

// A Will is the last will in a CONNECT packet.
type Will struct {
	Topic, Payload []byte
	QoS            uint8
	Retain         bool

	// The properties of MQTT 5.
	HasExpiry  bool
	Delay      uint32 // seconds
	Expiry     uint32 // seconds, if HasExpiry
	Properties []byte // all of them, raw; see AppendForwarded
}

// The flags of CONNECT (MQTT 5, 3.1.2.3).
const (
	connectReserved   = 1 << 0
	connectClean      = 1 << 1
	connectWill       = 1 << 2
	connectWillQoS    = 3 << 3
	connectWillRetain = 1 << 5
	connectPassword   = 1 << 6
	connectUser       = 1 << 7
)

// The properties that CONNECT and a will may have (MQTT 5, 3.1.2.11 and 3.1.3.2).
const (
	connectProps propSet = 1<<propSessionExpiry | 1<<propReceiveMaximum | 1<<propMaximumPacketSize |
		1<<propAliasMaximum | 1<<propRequestResponse | 1<<propRequestProblem | 1<<propUser |
		1<<propAuthMethod | 1<<propAuthData
	willProps = forwarded | 1<<propWillDelay | 1<<propExpiry
)

// Decode reads the body of a packet. The slices of p are views into it.
//
// With the code UnsupportedVersion, Version says how to write the CONNACK so that the client
// understands it: V5 for a version above 5. It is 0 if the protocol is not MQTT, and then there is
// no answer. With any other error Version is the client's, or 0 if the packet ends before it.
//
// A client id of more than 23 bytes is accepted in MQTT 3.1 too. An empty one is InvalidClientID in
// MQTT 3.1, and in 3.1.1 unless Clean.
func (p *Connect) Decode(body []byte) error {
	*p = Connect{ReceiveMaximum: 65_535, RequestProblem: true}
	r := reader{rest: body}
	p.readProtocol(&r)
	flags := r.byte()
	p.checkFlags(&r, flags)
	p.Clean = flags&connectClean != 0
	p.KeepAlive = r.uint16()
	if p.Version == V5 {
		p.readProperties(&r)
	}
	p.ClientID = r.text()
	if flags&connectWill != 0 {
		p.readWill(&r, flags)
	}
	p.readUser(&r, flags)
	if err := r.end(); err != nil {
		return err
	}
	if len(p.ClientID) == 0 && (p.Version == V31 || p.Version == V311 && !p.Clean) {
		return &Error{Code: InvalidClientID, Text: "the client id is empty (MQTT 3.1.1, 3.1.3.1)"}
	}
	return nil
}

// readProtocol reads name and level of the protocol (MQTT 5, 3.1.2.1 and 3.1.2.2).
func (p *Connect) readProtocol(r *reader) {
	name, level := r.bytes(), r.byte()
	if r.err != nil {
		return
	}
	known := false
	switch string(name) {
	case "MQTT":
		p.Version, known = V5, level == byte(V5)
		// Bridges of mosquitto set the highest bit, and try again without it after a CONNACK in
		// their own version.
		if level&0x7F <= byte(V311) {
			p.Version, known = V311, level == byte(V311)
		}
	case "MQIsdp":
		p.Version, known = V31, level == byte(V31)
	}
	if !known {
		r.fail(UnsupportedVersion, "the protocol is not MQTT 3.1, 3.1.1 or 5 (MQTT 5, 3.1.2.2)")
	}
}

// checkFlags looks for combinations of flags that are forbidden (MQTT 5, 3.1.2.3).
func (p *Connect) checkFlags(r *reader, flags byte) {
	const willFlags = connectWillQoS | connectWillRetain
	switch {
	case p.Version != V31 && flags&connectReserved != 0:
		r.fail(MalformedPacket, "the reserved flag is set (MQTT 5, 3.1.2.3)")
	case flags&connectWillQoS == connectWillQoS:
		r.fail(MalformedPacket, "a will with QoS 3 (MQTT 5, 3.1.2.6)")
	case p.Version != V31 && flags&connectWill == 0 && flags&willFlags != 0:
		r.fail(MalformedPacket, "QoS or retain of a will that is not there (MQTT 5, 3.1.2.6 and 3.1.2.7)")
	case p.Version != V5 && flags&(connectUser|connectPassword) == connectPassword:
		r.fail(MalformedPacket, "a password without a user name (MQTT 3.1.1, 3.1.2.9)")
	}
}

func (p *Connect) readProperties(r *reader) {
	ps := r.properties(connectProps)
	for ps.next() {
		switch ps.id {
		case propSessionExpiry:
			p.SessionExpiry = ps.number
		case propReceiveMaximum:
			p.ReceiveMaximum = uint16(ps.number)
		case propMaximumPacketSize:
			p.MaximumPacketSize = ps.number
		case propAliasMaximum:
			p.TopicAliasMaximum = uint16(ps.number)
		case propRequestResponse:
			p.RequestResponse = ps.number == 1
		case propRequestProblem:
			p.RequestProblem = ps.number == 1
		case propAuthMethod:
			p.AuthMethod = ps.value
		case propAuthData:
			p.AuthData = ps.value
		}
	}
	r.finish(&ps)
	if p.AuthData != nil && p.AuthMethod == nil {
		r.fail(ProtocolError, "authentication data without a method (MQTT 5, 3.1.2.11.10)")
	}
}

func (p *Connect) readWill(r *reader, flags byte) {
	p.HasWill = true
	p.Will.QoS = flags & connectWillQoS >> 3
	p.Will.Retain = flags&connectWillRetain != 0
	if p.Version == V5 {
		p.Will.readProperties(r)
	}
	p.Will.Topic = r.text()
	p.Will.Payload = r.bytes()
	if !ValidTopic(p.Will.Topic) {
		r.fail(InvalidTopic, "the topic of the will is empty or has a wildcard (MQTT 5, 3.1.3.3)")
	}
}

func (w *Will) readProperties(r *reader) {
	ps := r.properties(willProps)
	w.Properties = ps.rest
	for ps.next() {
		switch ps.id {
		case propWillDelay:
			w.Delay = ps.number
		case propExpiry:
			w.Expiry, w.HasExpiry = ps.number, true
		}
	}
	r.finish(&ps)
}

// readUser reads user name and password. In MQTT 3.1 the packet may end before them, whatever the
// flags say (MQTT 3.1, 3.1).
func (p *Connect) readUser(r *reader, flags byte) {
	missing := func() bool { return p.Version == V31 && len(r.rest) == 0 }
	if flags&connectUser != 0 && !missing() {
		p.HasUser = true
		p.User = r.text()
	}
	if flags&connectPassword != 0 && !missing() {
		p.HasPassword = true
		p.Password = r.bytes()
	}
}

// Append appends the packet. Of the properties, those that are absent or have their default are
// left out: SessionExpiry, MaximumPacketSize and TopicAliasMaximum 0, ReceiveMaximum 0 and 65535,
// RequestProblem true. Of the Properties of the will, those go out that AppendForwarded passes on.
func (p *Connect) Append(dst []byte) []byte {
	dst, at := open(dst, TypeConnect)
	name := "MQTT"
	if p.Version == V31 {
		name = "MQIsdp"
	}
	dst = appendText(dst, name)
	dst = append(dst, byte(p.Version), p.flags())
	dst = binary.BigEndian.AppendUint16(dst, p.KeepAlive)
	if p.Version == V5 {
		dst = p.appendProperties(dst)
	}
	dst = appendText(dst, p.ClientID)
	if p.HasWill {
		dst = p.Will.append(dst, p.Version)
	}
	if p.HasUser {
		dst = appendText(dst, p.User)
	}
	if p.HasPassword {
		dst = appendText(dst, p.Password)
	}
	return seal(dst, at)
}

func (p *Connect) flags() byte {
	var flags byte
	if p.Clean {
		flags |= connectClean
	}
	if p.HasUser {
		flags |= connectUser
	}
	if p.HasPassword {
		flags |= connectPassword
	}
	if !p.HasWill {
		return flags
	}
	flags |= connectWill | p.Will.QoS<<3
	if p.Will.Retain {
		flags |= connectWillRetain
	}
	return flags
}

func (p *Connect) appendProperties(dst []byte) []byte {
	at := len(dst)
	dst = append(dst, 0)
	if p.SessionExpiry != 0 {
		dst = appendUint32(dst, propSessionExpiry, p.SessionExpiry)
	}
	if p.ReceiveMaximum != 0 && p.ReceiveMaximum != 65_535 {
		dst = appendUint16(dst, propReceiveMaximum, p.ReceiveMaximum)
	}
	if p.MaximumPacketSize != 0 {
		dst = appendUint32(dst, propMaximumPacketSize, p.MaximumPacketSize)
	}
	if p.TopicAliasMaximum != 0 {
		dst = appendUint16(dst, propAliasMaximum, p.TopicAliasMaximum)
	}
	if p.RequestResponse {
		dst = append(dst, propRequestResponse, 1)
	}
	if !p.RequestProblem {
		dst = append(dst, propRequestProblem, 0)
	}
	if p.AuthMethod != nil {
		dst = appendText(append(dst, propAuthMethod), p.AuthMethod)
	}
	if p.AuthData != nil {
		dst = appendText(append(dst, propAuthData), p.AuthData)
	}
	return seal(dst, at)
}

func (w *Will) append(dst []byte, v Version) []byte {
	if v == V5 {
		at := len(dst)
		dst = append(dst, 0)
		if w.Delay != 0 {
			dst = appendUint32(dst, propWillDelay, w.Delay)
		}
		if w.HasExpiry {
			dst = appendUint32(dst, propExpiry, w.Expiry)
		}
		dst = seal(AppendForwarded(dst, w.Properties), at)
	}
	dst = appendText(dst, w.Topic)
	return appendText(dst, w.Payload)
}
