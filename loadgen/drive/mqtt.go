package drive

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/holter-iot/holter/loadgen/plan"
)

// mqttProtocol is MQTT 3.1.1 (OASIS Standard, sections 2 and 3), as much of it as devices need that
// never subscribe. Sessions are clean.
type mqttProtocol struct {
	plan           *plan.Plan
	keepAlive      uint16 // seconds
	user, password string
	willTopic      template
	will, birthday template // payloads
	topic          template // of heartbeats; without one they are PINGREQ
	qos            byte
}

// Packet types, in their place in the first byte.
const (
	packetConnect    = 0x10
	packetConnAck    = 0x20
	packetPublish    = 0x30
	packetPubAck     = 0x40
	packetPingReq    = 0xC0
	packetPingResp   = 0xD0
	packetDisconnect = 0xE0
)

// maxText is the longest text of MQTT, section 1.5.3.
const maxText = math.MaxUint16

func newMQTTProtocol(p *plan.Plan) (*mqttProtocol, error) {
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
	c := &mqttProtocol{
		plan: p, keepAlive: uint16(keepAlive), user: p.User, password: p.Token,
		willTopic: newTemplate(p.WillTopic), will: newTemplate(p.WillPayload), topic: newTemplate(p.Publish), qos: p.QoS,
	}
	if p.WillTopic != "" {
		c.birthday = newTemplate(p.BirthPayload)
	}
	return c, nil
}

// longest is the length of the longest text of a plan, with the longest id in its place.
func longest(p *plan.Plan) int {
	id := p.AppendID(nil, max(p.Devices-1, 0))
	length := max(len(id), len(p.User), len(p.Token))
	for _, text := range []string{p.WillTopic, p.WillPayload, p.BirthPayload, p.Publish} {
		length = max(length, newTemplate(text).length(id))
	}
	return length
}

func (c *mqttProtocol) hello(dst []byte, n int) []byte {
	const clean, hasWill, willQoS1, willRetain, hasPassword, hasUser = 1 << 1, 1 << 2, 1 << 3, 1 << 5, 1 << 6, 1 << 7
	var room [64]byte
	id := c.plan.AppendID(room[:0], n)
	flags := byte(clean)
	length := 10 + 2 + len(id)
	if !c.willTopic.empty() {
		flags |= hasWill | willQoS1 | willRetain
		length += 4 + c.willTopic.length(id) + c.will.length(id)
	}
	if c.user != "" {
		flags |= hasUser
		length += 2 + len(c.user)
	}
	if c.password != "" {
		flags |= hasPassword
		length += 2 + len(c.password)
	}
	dst = appendLength(append(dst, packetConnect), length)
	dst = append(appendText(dst, "MQTT"), 4, flags)
	dst = appendText(binary.BigEndian.AppendUint16(dst, c.keepAlive), id)
	if !c.willTopic.empty() {
		dst = c.will.appendText(c.willTopic.appendText(dst, id), id)
	}
	if c.user != "" {
		dst = appendText(dst, c.user)
	}
	if c.password != "" {
		dst = appendText(dst, c.password)
	}
	return dst
}

// birth is retained, like the will that takes it back.
func (c *mqttProtocol) birth(dst []byte, n int) []byte {
	if c.birthday.empty() {
		return dst
	}
	var room [64]byte
	id := c.plan.AppendID(room[:0], n)
	dst = appendLength(append(dst, packetPublish|1), 2+c.willTopic.length(id)+c.birthday.length(id))
	return c.birthday.append(c.willTopic.appendText(dst, id), id)
}

func (c *mqttProtocol) beat(dst []byte, n int, seq uint32) []byte {
	if c.topic.empty() {
		return append(dst, packetPingReq, 0)
	}
	var room [64]byte
	id := c.plan.AppendID(room[:0], n)
	var digits [10]byte
	text := strconv.AppendUint(digits[:0], uint64(seq), 10)
	dst = appendLength(append(dst, packetPublish|c.qos<<1), 2+c.topic.length(id)+2*int(c.qos)+len(text))
	dst = c.topic.appendText(dst, id)
	if c.qos > 0 {
		dst = binary.BigEndian.AppendUint16(dst, packetID(seq))
	}
	return append(dst, text...)
}

// template is a text with {device} in it.
type template struct {
	pieces []string // between which the id goes
	size   int
}

func newTemplate(text string) template {
	t := template{pieces: strings.Split(text, "{device}")}
	for _, s := range t.pieces {
		t.size += len(s)
	}
	return t
}

func (t template) empty() bool { return len(t.pieces) < 2 && t.size == 0 }

func (t template) length(id []byte) int { return t.size + max(len(t.pieces)-1, 0)*len(id) }

func (t template) append(dst, id []byte) []byte {
	for i, s := range t.pieces {
		if i > 0 {
			dst = append(dst, id...)
		}
		dst = append(dst, s...)
	}
	return dst
}

// appendText appends the text with its length before it.
func (t template) appendText(dst, id []byte) []byte {
	return t.append(binary.BigEndian.AppendUint16(dst, uint16(t.length(id))), id)
}

// packetID is never 0 (section 2.3.1).
func packetID(seq uint32) uint16 { return uint16(seq%math.MaxUint16) + 1 }

func (c *mqttProtocol) answered() bool { return c.topic.empty() || c.qos > 0 }

func (c *mqttProtocol) bye(dst []byte, _ int) []byte { return append(dst, packetDisconnect, 0) }

func (c *mqttProtocol) sleep(dst []byte, _ int, _ time.Duration) []byte { return dst }

func (c *mqttProtocol) matches(a answer, seq uint32) bool {
	return c.topic.empty() || a.seq == uint32(packetID(seq))
}

// next accepts only packets for a client that never subscribes. All of them are short.
func (c *mqttProtocol) next(data []byte) (answer, []byte) {
	if len(data) == 0 {
		return answer{}, data
	}
	length := 2
	switch data[0] {
	case packetPingResp:
		length = 0
	case packetConnAck, packetPubAck:
	default:
		return answer{kind: garbage}, nil
	}
	if len(data) > 1 && int(data[1]) != length {
		return answer{kind: garbage}, nil
	}
	if len(data) < 2+length {
		return answer{}, data
	}
	body, rest := data[2:2+length], data[2+length:]
	switch data[0] {
	case packetConnAck:
		switch {
		case body[0] > 1:
			return answer{kind: garbage}, rest
		case body[1] != 0:
			return answer{kind: rejected, code: connAckCode(body[1])}, rest
		}
		return answer{kind: welcome}, rest
	case packetPubAck:
		if c.topic.empty() || c.qos == 0 {
			return answer{kind: garbage}, rest
		}
		return answer{kind: pong, seq: uint32(binary.BigEndian.Uint16(body))}, rest
	}
	if !c.topic.empty() {
		return answer{kind: garbage}, rest
	}
	return answer{kind: pong}, rest
}

// connAckCode names a return code (section 3.2.2.3).
func connAckCode(code byte) string {
	names := [...]string{
		"", "unacceptable protocol version", "identifier rejected", "server unavailable", "bad user name or password", "not authorized",
	}
	if int(code) < len(names) {
		return names[code]
	}
	return "unknown return code"
}

// appendText appends a text with its length; all texts are checked to be short.
func appendText[T string | []byte](dst []byte, s T) []byte {
	return append(binary.BigEndian.AppendUint16(dst, uint16(len(s))), s...)
}

// appendLength appends a remaining length (section 2.2.3).
func appendLength(dst []byte, n int) []byte {
	for n >= 0x80 {
		dst = append(dst, byte(n)|0x80)
		n >>= 7
	}
	return append(dst, byte(n))
}
