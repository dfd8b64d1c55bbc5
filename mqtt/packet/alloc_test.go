package packet_test

import (
	"bytes"
	"testing"

	"github.com/holter-iot/holter/mqtt/packet"
)

// TestAllocations holds decoders and encoders to allocating nothing, once there is room.
func TestAllocations(t *testing.T) {
	dst := make([]byte, 0, 1<<20)
	connect, connack := fullConnect(packet.V5), fullConnack()
	out := outs()[3].out
	out.Identifiers = []uint32{1, 300}
	out.Properties = append(out.Properties, bomb(20_000)...)
	filters := []packet.Filter{{Topic: []byte("a/#")}, {Topic: []byte("b/+/c"), QoS: 1}}
	topics := [][]byte{[]byte("a/#"), []byte("b/+/c")}
	codes := make([]packet.Code, 300)
	disconnect := packet.Disconnect{Code: packet.DisconnectWithWill, HasSessionExpiry: true, Reason: []byte("r")}
	tests := []struct {
		name   string
		encode func() []byte
	}{
		{"CONNECT", func() []byte { return connect.Append(dst) }},
		{"CONNACK", func() []byte { return connack.Append(dst, packet.V5) }},
		{"PUBLISH", func() []byte { return out.Append(dst, packet.V5) }},
		{"PUBACK", func() []byte {
			return packet.AppendAck(dst, packet.V5, packet.TypePuback, 7, packet.NoMatchingSubscribers)
		}},
		{"SUBSCRIBE", func() []byte { return packet.AppendSubscribe(dst, packet.V5, 7, 300, filters...) }},
		{"SUBACK", func() []byte { return packet.AppendSuback(dst, packet.V5, 7, codes) }},
		{"UNSUBSCRIBE", func() []byte { return packet.AppendUnsubscribe(dst, packet.V5, 7, topics...) }},
		{"UNSUBACK", func() []byte { return packet.AppendUnsuback(dst, packet.V5, 7, codes) }},
		{"PINGREQ", func() []byte { return packet.AppendPingreq(dst) }},
		{"PINGRESP", func() []byte { return packet.AppendPingresp(dst) }},
		{"DISCONNECT", func() []byte { return disconnect.Append(dst, packet.V5) }},
		{"DISCONNECT of a server", func() []byte { return packet.AppendDisconnect(dst, packet.V5, packet.ServerBusy, "r") }},
		{"AUTH", func() []byte { return append(dst, "\xf0\x0a\x18\x08\x15\x00\x01m\x16\x00\x01d"...) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if n := testing.AllocsPerRun(10, func() { tt.encode() }); n != 0 {
				t.Errorf("%v allocations while encoding", n)
			}
			input := bytes.Clone(tt.encode())
			var d decoder
			if n := testing.AllocsPerRun(10, func() { d.decode(packet.V5, input) }); n != 0 && tt.name != "CONNACK" {
				t.Errorf("%v allocations while decoding", n)
			}
			if d.err != nil {
				t.Error(d.err)
			}
		})
	}
}

// TestPropertyBomb decodes a packet that is nothing but user properties.
func TestPropertyBomb(t *testing.T) {
	dst := make([]byte, 0, 4<<20)
	out := packet.Out{Topic: "t", Properties: bomb(1 << 20)}
	h, body, _, err := packet.Split(packet.V5, out.Append(nil, packet.V5), packet.MaxSize)
	if err != nil {
		t.Fatal(err)
	}
	var p packet.Publish
	allocs := testing.AllocsPerRun(10, func() {
		err = p.Decode(packet.V5, h, body)
		dst = packet.AppendForwarded(dst[:0], p.Properties)
	})
	if allocs != 0 || err != nil || !bytes.Equal(dst, out.Properties) {
		t.Errorf("%v allocations, %v, %d bytes forwarded of %d", allocs, err, len(dst), len(out.Properties))
	}
}

// bomb returns about size bytes of user properties.
func bomb(size int) []byte { return bytes.Repeat([]byte("\x26\x00\x01k\x00\x01v"), size/7) }

func TestTopicAllocations(t *testing.T) {
	filter := []byte("$share/group/a/+/\u20ac/#")
	allocs := testing.AllocsPerRun(10, func() {
		packet.ValidTopic(filter)
		packet.ValidFilter(filter)
		packet.SplitShare(filter)
		packet.UTF8Payload(filter)
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// A decoder has a place for each packet, so that decoding needs none of its own.
type decoder struct {
	connect     packet.Connect
	connack     packet.Connack
	publish     packet.Publish
	ack         packet.Ack
	subscribe   packet.Subscribe
	suback      packet.Suback
	unsubscribe packet.Unsubscribe
	unsuback    packet.Unsuback
	disconnect  packet.Disconnect
	auth        packet.Auth

	header packet.Header
	body   []byte
	n      int
	err    error
}

// decode reads a packet as a server does, but for what only a server sends.
func (d *decoder) decode(v packet.Version, input []byte) {
	d.header, d.body, d.n, d.err = packet.Split(v, input, packet.MaxSize)
	if d.err != nil || d.n == 0 {
		return
	}
	switch d.header.Type {
	case packet.TypeConnect:
		d.err = d.connect.Decode(d.body)
	case packet.TypeConnack:
		d.err = d.connack.Decode(v, d.body)
	case packet.TypePublish:
		d.err = d.publish.DecodeFromServer(v, d.header, d.body)
	case packet.TypePuback, packet.TypePubrec, packet.TypePubrel, packet.TypePubcomp:
		d.err = d.ack.Decode(v, d.header, d.body)
	case packet.TypeSubscribe:
		d.err = d.subscribe.Decode(v, d.body)
	case packet.TypeSuback:
		d.err = d.suback.Decode(v, d.body)
	case packet.TypeUnsubscribe:
		d.err = d.unsubscribe.Decode(v, d.body)
	case packet.TypeUnsuback:
		d.err = d.unsuback.Decode(v, d.body)
	case packet.TypeDisconnect:
		d.err = d.disconnect.Decode(v, d.body)
	case packet.TypeAuth:
		d.err = d.auth.Decode(d.body)
	case packet.TypePingreq, packet.TypePingresp: // have no body
	}
}
