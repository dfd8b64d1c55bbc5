package drive

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"github.com/holter-iot/holter/loadgen/plan"
)

// mqttProtocol is MQTT 3.1.1 (OASIS Standard, sections 2 and 3), as much of it as devices need that
// never subscribe. Sessions are clean.
type mqttProtocol struct {
	plan      *plan.Plan
	keepAlive uint16 // seconds
}

// The first bytes of the packets that are not made of texts.
const (
	packetConnAck    = packets.Connack << 4
	packetPubAck     = packets.Puback << 4
	packetPingReq    = packets.Pingreq << 4
	packetPingResp   = packets.Pingresp << 4
	packetDisconnect = packets.Disconnect << 4
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
	return &mqttProtocol{plan: p, keepAlive: uint16(keepAlive)}, nil
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

func (c *mqttProtocol) hello(dst []byte, n int) []byte {
	id := c.plan.DeviceID(n)
	p := packets.NewControlPacket(packets.Connect).(*packets.ConnectPacket)
	p.ProtocolName, p.ProtocolVersion, p.CleanSession, p.Keepalive, p.ClientIdentifier = "MQTT", 4, true, c.keepAlive, id
	if c.plan.WillTopic != "" {
		p.WillFlag, p.WillRetain, p.WillQos = true, true, 1
		p.WillTopic, p.WillMessage = fill(c.plan.WillTopic, id), []byte(fill(c.plan.WillPayload, id))
	}
	p.Username, p.UsernameFlag = c.plan.User, c.plan.User != ""
	p.Password, p.PasswordFlag = []byte(c.plan.Token), c.plan.Token != ""
	return appendPacket(dst, p)
}

// birth is retained, like the will that takes it back.
func (c *mqttProtocol) birth(dst []byte, n int) []byte {
	if c.plan.WillTopic == "" || c.plan.BirthPayload == "" {
		return dst
	}
	id := c.plan.DeviceID(n)
	p := publish(fill(c.plan.WillTopic, id), fill(c.plan.BirthPayload, id))
	p.Retain = true
	return appendPacket(dst, p)
}

func (c *mqttProtocol) beat(dst []byte, n int, seq uint32) []byte {
	if c.plan.Publish == "" {
		return append(dst, packetPingReq, 0)
	}
	p := publish(fill(c.plan.Publish, c.plan.DeviceID(n)), strconv.FormatUint(uint64(seq), 10))
	p.Qos, p.MessageID = c.plan.QoS, packetID(seq)
	return appendPacket(dst, p)
}

func publish(topic, payload string) *packets.PublishPacket {
	p := packets.NewControlPacket(packets.Publish).(*packets.PublishPacket)
	p.TopicName, p.Payload = topic, []byte(payload)
	return p
}

func appendPacket(dst []byte, p packets.ControlPacket) []byte {
	b := bytes.NewBuffer(dst)
	_ = p.Write(b) // a buffer takes all
	return b.Bytes()
}

// packetID is never 0 (section 2.3.1).
func packetID(seq uint32) uint16 { return uint16(seq%math.MaxUint16) + 1 }

func (c *mqttProtocol) answered() bool { return c.plan.Publish == "" || c.plan.QoS > 0 }

func (c *mqttProtocol) bye(dst []byte, _ int) []byte { return append(dst, packetDisconnect, 0) }

func (c *mqttProtocol) sleep(dst []byte, _ int, _ time.Duration) []byte { return dst }

func (c *mqttProtocol) matches(a answer, seq uint32) bool {
	return c.plan.Publish == "" || a.seq == uint32(packetID(seq))
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
		if c.plan.Publish == "" || c.plan.QoS == 0 {
			return answer{kind: garbage}, rest
		}
		return answer{kind: pong, seq: uint32(binary.BigEndian.Uint16(body))}, rest
	}
	if c.plan.Publish != "" {
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
