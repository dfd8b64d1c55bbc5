package drive

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/internal/loadgen/plan"
)

// mqttClient is a [codec.Client] of MQTT 3.1.1 or 5 (OASIS Standards, sections 2 and 3), as much of
// it as devices need that never subscribe. Sessions are clean, and end with their connections.
type mqttClient struct {
	plan      *plan.Plan
	keepAlive uint16 // seconds
	version   byte
	flags     byte   // of CONNECT
	body      []byte // of the packet that is being made
}

// The first bytes of packets, without flags.
const (
	packetConnect    = 1 << 4
	packetConnAck    = 2 << 4
	packetPublish    = 3 << 4
	packetPubAck     = 4 << 4
	packetPingReq    = 12 << 4
	packetPingResp   = 13 << 4
	packetDisconnect = 14 << 4
)

// The versions, as CONNECT has them (section 3.1.2.2).
const (
	version311 = 4
	version5   = 5
)

// Flags of CONNECT (section 3.1.2.3), and of PUBLISH (3.3.1).
const (
	withUser     = 1 << 7
	withPassword = 1 << 6
	withWill     = 1<<5 | 1<<3 | 1<<2 // retained, QoS 1
	cleanStart   = 1 << 1

	retained = 1
	qosShift = 1
)

// maxText is the longest text of MQTT, section 1.5.3.
const maxText = math.MaxUint16

// maxAnswer is the longest answer that is understood.
const maxAnswer = 4096

func newMQTT(p *plan.Plan) (*mqttClient, error) {
	// The gateway waits for one and a half keep alives (section 3.1.2.10).
	keepAlive := p.Timeout * 2 / 3 / time.Second
	switch {
	case p.Timeout > 0 && keepAlive < 1 || keepAlive > math.MaxUint16:
		return nil, fmt.Errorf("drive: a timeout of %v makes no keep alive; MQTT announces two thirds of it in whole seconds, 1 to 65535", p.Timeout)
	case p.QoS > 1:
		return nil, fmt.Errorf("drive: heartbeats have QoS 0 or 1, not %d", p.QoS)
	case longest(p) > maxText:
		return nil, fmt.Errorf("drive: a text of the plan is longer than the %d bytes that MQTT allows", maxText)
	case strings.ContainsAny(p.WillTopic+p.Publish, "+#"):
		return nil, errors.New("drive: a topic that is published to has no wildcard + or #")
	case p.Token != "" && p.User == "":
		return nil, errors.New("drive: MQTT has no password (token) without a user")
	}
	c := &mqttClient{plan: p, keepAlive: uint16(keepAlive), version: version311, flags: cleanStart}
	if p.Protocol == plan.MQTT5 {
		c.version = version5
	}
	if p.WillTopic != "" {
		c.flags |= withWill
	}
	if p.User != "" {
		c.flags |= withUser
	}
	if p.Token != "" {
		c.flags |= withPassword
	}
	return c, nil
}

// longest is the length of the longest text of a plan, with the longest id in its place.
func longest(p *plan.Plan) int {
	id := p.DeviceID(max(p.Devices-1, 0))
	length := 0
	for _, text := range []string{id, p.User, p.Token, p.WillTopic, p.WillPayload, p.BirthPayload, p.Publish} {
		length = max(length, len(fill(text, id)))
	}
	return length
}

// fill puts an id into a text of the plan.
func fill(text, id string) string { return strings.ReplaceAll(text, "{device}", id) }

// AppendHello implements [codec.Client].
func (c *mqttClient) AppendHello(dst []byte, id, token string, _ time.Duration) []byte {
	c.body = append(appendText(c.body[:0], "MQTT"), c.version, c.flags)
	c.body = binary.BigEndian.AppendUint16(c.body, c.keepAlive)
	c.noProperties()
	c.body = appendText(c.body, id)
	if c.flags&withWill != 0 {
		c.noProperties()
		c.body = appendText(appendText(c.body, fill(c.plan.WillTopic, id)), fill(c.plan.WillPayload, id))
	}
	if c.flags&withUser != 0 {
		c.body = appendText(c.body, c.plan.User)
	}
	if c.flags&withPassword != 0 {
		c.body = appendText(c.body, token)
	}
	return c.appendPacket(dst, packetConnect)
}

// appendBirth appends what follows the welcome. It is retained, like the will that takes it back.
func (c *mqttClient) appendBirth(dst []byte, id string) []byte {
	c.body = appendText(c.body[:0], fill(c.plan.WillTopic, id))
	c.noProperties()
	c.body = append(c.body, fill(c.plan.BirthPayload, id)...)
	return c.appendPacket(dst, packetPublish|retained)
}

// AppendBeat implements [codec.Client].
func (c *mqttClient) AppendBeat(dst []byte, id string, seq uint32) []byte {
	if c.plan.Publish == "" {
		return append(dst, packetPingReq, 0)
	}
	c.body = appendText(c.body[:0], fill(c.plan.Publish, id))
	if c.plan.QoS > 0 {
		c.body = binary.BigEndian.AppendUint16(c.body, uint16(seq%math.MaxUint16)+1) // never 0 (section 2.2.1)
	}
	c.noProperties()
	c.body = strconv.AppendUint(c.body, uint64(seq), 10)
	return c.appendPacket(dst, packetPublish|c.plan.QoS<<qosShift)
}

// noProperties appends to the body that there are none, where MQTT 5 may have some.
func (c *mqttClient) noProperties() {
	if c.version == version5 {
		c.body = append(c.body, 0)
	}
}

// appendPacket appends the packet that has the body.
func (c *mqttClient) appendPacket(dst []byte, first byte) []byte {
	dst = binary.AppendUvarint(append(dst, first), uint64(len(c.body)))
	return append(dst, c.body...)
}

func appendText(dst []byte, text string) []byte {
	return append(binary.BigEndian.AppendUint16(dst, uint16(len(text))), text...)
}

// AppendBye implements [codec.Client].
func (*mqttClient) AppendBye(dst []byte, _ string) []byte { return append(dst, packetDisconnect, 0) }

// AppendSleep implements [codec.Client].
func (*mqttClient) AppendSleep(dst []byte, _ string, _ time.Duration) []byte { return dst }

// Window implements [codec.Client]: answers to pings have no numbers.
func (c *mqttClient) Window() uint64 {
	switch {
	case c.plan.Publish == "":
		return 1
	case c.plan.QoS == 0:
		return 0
	}
	return math.MaxUint16
}

// Next implements [codec.Client]. It accepts only packets for a client that never subscribes.
func (c *mqttClient) Next(data []byte) (codec.Answer, int) {
	if len(data) == 0 {
		return codec.Answer{}, 0
	}
	if !c.expected(data[0]) {
		return codec.Answer{}, 1
	}
	length, size := binary.Uvarint(data[1:])
	switch {
	case size < 0 || size == 0 && len(data) > binary.MaxVarintLen32 || size > 0 && !c.fits(data[0], length):
		return codec.Answer{}, 1
	case size == 0 || uint64(len(data)-1-size) < length:
		return codec.Answer{}, 0
	}
	n := 1 + size + int(length)
	return c.meant(data[0], data[1+size:n]), n
}

// expected reports whether a packet with this first byte may come.
func (c *mqttClient) expected(first byte) bool {
	switch first {
	case packetConnAck:
		return true
	case packetPingResp:
		return c.plan.Publish == ""
	case packetPubAck:
		return c.plan.Publish != "" && c.plan.QoS > 0
	case packetDisconnect:
		return c.version == version5
	}
	return false
}

// fits reports whether a packet may have a body so long. In MQTT 5 reasons and properties may follow.
func (c *mqttClient) fits(first byte, length uint64) bool {
	least := uint64(2)
	if first == packetPingResp || first == packetDisconnect {
		least = 0
	}
	if c.version == version5 && first != packetPingResp {
		return length >= least && length <= maxAnswer
	}
	return length == least
}

// firstFailure is the least reason code of MQTT 5 that is none of success (section 2.4).
const firstFailure = 0x80

// meant returns what a packet means.
func (c *mqttClient) meant(first byte, body []byte) codec.Answer {
	switch first {
	case packetPingResp:
		return codec.Answer{Kind: codec.Heard}
	case packetDisconnect:
		return codec.Answer{Kind: codec.Farewell}
	case packetPubAck:
		if len(body) > 2 && body[2] >= firstFailure {
			return codec.Answer{Kind: codec.Refused, Code: reasonCode(body[2])}
		}
		return codec.Answer{Kind: codec.Heard, Seq: uint32(binary.BigEndian.Uint16(body)) - 1}
	}
	switch {
	case body[0] > 1:
		return codec.Answer{}
	case body[1] == 0:
		return codec.Answer{Kind: codec.Welcome}
	case c.version == version5:
		return codec.Answer{Kind: codec.Refused, Code: reasonCode(body[1])}
	}
	return codec.Answer{Kind: codec.Refused, Code: returnCode(body[1])}
}

// returnCode names a return code of MQTT 3.1.1 (section 3.2.2.3). A server that is unavailable is one
// that may have heard the hello, and asks to try again.
func returnCode(code byte) codec.Code {
	names := [...]codec.Code{
		"", "unacceptable protocol version", "identifier rejected", codec.Busy, "bad user name or password", "not authorized",
	}
	if int(code) < len(names) {
		return names[code]
	}
	return "unknown return code"
}

// reasonCode names a reason code of MQTT 5 (section 2.4).
func reasonCode(code byte) codec.Code {
	switch code {
	case 0x85:
		return "identifier rejected"
	case 0x86:
		return "bad user name or password"
	case 0x87:
		return "not authorized"
	case 0x88, 0x89:
		return codec.Busy
	}
	return codec.Code(fmt.Sprintf("reason code 0x%02x", code))
}
