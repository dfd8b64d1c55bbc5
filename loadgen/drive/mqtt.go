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

	"github.com/holter-iot/holter/gateway/codec"
	"github.com/holter-iot/holter/loadgen/plan"
)

// mqttClient is a [codec.Client] of MQTT 3.1.1 (OASIS Standard, sections 2 and 3), as much of it as
// devices need that never subscribe. Sessions are clean.
type mqttClient struct {
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
	return &mqttClient{plan: p, keepAlive: uint16(keepAlive)}, nil
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
	p := packets.NewControlPacket(packets.Connect).(*packets.ConnectPacket)
	p.ProtocolName, p.ProtocolVersion, p.CleanSession, p.Keepalive, p.ClientIdentifier = "MQTT", 4, true, c.keepAlive, id
	if c.plan.WillTopic != "" {
		p.WillFlag, p.WillRetain, p.WillQos = true, true, 1
		p.WillTopic, p.WillMessage = fill(c.plan.WillTopic, id), []byte(fill(c.plan.WillPayload, id))
	}
	p.Username, p.UsernameFlag = c.plan.User, c.plan.User != ""
	p.Password, p.PasswordFlag = []byte(token), token != ""
	return appendPacket(dst, p)
}

// appendBirth appends what follows the welcome. It is retained, like the will that takes it back.
func (c *mqttClient) appendBirth(dst []byte, id string) []byte {
	p := publish(fill(c.plan.WillTopic, id), fill(c.plan.BirthPayload, id))
	p.Retain = true
	return appendPacket(dst, p)
}

// AppendBeat implements [codec.Client].
func (c *mqttClient) AppendBeat(dst []byte, id string, seq uint32) []byte {
	if c.plan.Publish == "" {
		return append(dst, packetPingReq, 0)
	}
	p := publish(fill(c.plan.Publish, id), strconv.FormatUint(uint64(seq), 10))
	p.Qos, p.MessageID = c.plan.QoS, uint16(seq%math.MaxUint16)+1 // never 0 (section 2.3.1)
	return appendPacket(dst, p)
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

// Next implements [codec.Client]. It accepts only packets for a client that never subscribes. All of
// them are short.
func (c *mqttClient) Next(data []byte) (codec.Answer, int) {
	if len(data) == 0 {
		return codec.Answer{}, 0
	}
	length, pings := 2, c.plan.Publish == ""
	switch data[0] {
	case packetConnAck:
	case packetPingResp:
		if length = 0; !pings {
			return codec.Answer{}, 1
		}
	case packetPubAck:
		if pings || c.plan.QoS == 0 {
			return codec.Answer{}, 1
		}
	default:
		return codec.Answer{}, 1
	}
	if len(data) > 1 && int(data[1]) != length {
		return codec.Answer{}, 1
	}
	if len(data) < 2+length {
		return codec.Answer{}, 0
	}
	body, n := data[2:2+length], 2+length
	switch {
	case length == 0:
		return codec.Answer{Kind: codec.Heard}, n
	case data[0] == packetPubAck:
		return codec.Answer{Kind: codec.Heard, Seq: uint32(binary.BigEndian.Uint16(body)) - 1}, n
	case body[0] > 1:
		return codec.Answer{}, n
	case body[1] != 0:
		return codec.Answer{Kind: codec.Refused, Code: connAckCode(body[1])}, n
	}
	return codec.Answer{Kind: codec.Welcome}, n
}

// connAckCode names a return code (section 3.2.2.3).
func connAckCode(code byte) codec.Code {
	names := [...]codec.Code{
		"", "unacceptable protocol version", "identifier rejected", "server unavailable", "bad user name or password", "not authorized",
	}
	if int(code) < len(names) {
		return names[code]
	}
	return "unknown return code"
}
