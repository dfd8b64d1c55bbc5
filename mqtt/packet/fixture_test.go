package packet_test

import (
	"bytes"
	"testing"

	"github.com/holter-iot/holter/mqtt/packet"
)

// outs are messages of 64 bytes.
func outs() []versionedOut {
	const topic = "site/7/device/4711/state"
	payload := bytes.Repeat([]byte{'x'}, 64)
	return []versionedOut{
		{"v=3.1.1/qos=0", packet.V311, packet.Out{Topic: topic, Payload: payload}},
		{"v=3.1.1/qos=1", packet.V311, packet.Out{Topic: topic, Payload: payload, QoS: 1, ID: 7}},
		{"v=5/qos=1", packet.V5, packet.Out{Topic: topic, Payload: payload, QoS: 1, ID: 7}},
		{"v=5/qos=1/properties", packet.V5, packet.Out{
			Topic: topic, Payload: payload, QoS: 1, ID: 7, Expiry: 60, HasExpiry: true,
			Properties: []byte("\x01\x01\x03\x00\x0atext/plain\x26\x00\x04unit\x00\x01K"),
		}},
	}
}

type versionedOut struct {
	name    string
	version packet.Version
	out     packet.Out
}

// fullConnect returns a CONNECT with everything that the version has.
func fullConnect(v packet.Version) packet.Connect {
	c := packet.Connect{
		Version: v, Clean: true, KeepAlive: 60,
		ClientID: []byte("device-4711"),
		HasUser:  true, User: []byte("device"), HasPassword: true, Password: []byte("secret"),
		HasWill: true, Will: packet.Will{
			Topic: []byte("site/7/device/4711/state"), Payload: []byte("offline"), QoS: 1, Retain: true,
		},
		ReceiveMaximum: 65_535, RequestProblem: true,
	}
	if v != packet.V5 {
		return c
	}
	c.SessionExpiry = 3600
	c.ReceiveMaximum = 20
	c.MaximumPacketSize = 4096
	c.TopicAliasMaximum = 10
	c.RequestResponse = true
	c.RequestProblem = false
	c.AuthMethod = []byte("PLAIN")
	c.AuthData = []byte{0, 1}
	c.Will.Delay = 30
	c.Will.Expiry, c.Will.HasExpiry = 90, true
	c.Will.Properties = []byte("\x18\x00\x00\x00\x1e\x02\x00\x00\x00\x5a\x01\x01\x26\x00\x01a\x00\x01b")
	return c
}

// bodyOf returns the body of a packet.
func bodyOf(tb testing.TB, v packet.Version, input []byte) []byte {
	tb.Helper()
	_, body, n, err := packet.Split(v, input, packet.MaxSize)
	if err != nil || n != len(input) {
		tb.Fatalf("Split(%x) = %d, %v, want %d", input, n, err, len(input))
	}
	return body
}
