package packet_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/holter-iot/holter/mqtt/packet"
)

func TestConnectRefuses(t *testing.T) {
	const (
		v31  = "\x00\x06MQIsdp\x03"
		v311 = "\x00\x04MQTT\x04"
		v5   = "\x00\x04MQTT\x05"
	)
	tests := []struct {
		name    string
		body    string
		code    packet.Code
		section string
		version packet.Version
	}{
		{"nothing", "", packet.MalformedPacket, "4.13", 0},
		{"no level", "\x00\x04MQTT", packet.MalformedPacket, "4.13", 0},
		{"another protocol", "\x00\x04HTTP\x04\x02\x00\x00\x00\x01a", packet.UnsupportedVersion, "3.1.2.2", 0},
		{"small letters", "\x00\x04mqtt\x04\x02\x00\x00\x00\x01a", packet.UnsupportedVersion, "3.1.2.2", 0},
		{"level 6", "\x00\x04MQTT\x06\x02", packet.UnsupportedVersion, "3.1.2.2", packet.V5},
		{"level 3 with the new name", "\x00\x04MQTT\x03\x02", packet.UnsupportedVersion, "3.1.2.2", packet.V311},
		{"level 4 with the old name", "\x00\x06MQIsdp\x04\x02", packet.UnsupportedVersion, "3.1.2.2", packet.V31},
		{"a bridge in 3.1", "\x00\x06MQIsdp\x83\x02", packet.UnsupportedVersion, "3.1.2.2", packet.V31},
		{"a bridge in 3.1.1", "\x00\x04MQTT\x84\x02", packet.UnsupportedVersion, "3.1.2.2", packet.V311},
		{"a bridge in 5", "\x00\x04MQTT\x85\x02", packet.UnsupportedVersion, "3.1.2.2", packet.V5},

		{"reserved flag", v311 + "\x03\x00\x00\x00\x01a", packet.MalformedPacket, "3.1.2.3", packet.V311},
		{"will with QoS 3", v311 + "\x1e\x00\x00\x00\x01a", packet.MalformedPacket, "3.1.2.6", packet.V311},
		{"QoS without a will", v311 + "\x0a\x00\x00\x00\x01a", packet.MalformedPacket, "3.1.2.6", packet.V311},
		{"retain without a will", v5 + "\x22\x00\x00\x00\x00\x01a", packet.MalformedPacket, "3.1.2.7", packet.V5},
		{"password without a user", v311 + "\x42\x00\x00\x00\x01a\x00\x01p", packet.MalformedPacket, "3.1.2.9", packet.V311},
		{"password without a user in 3.1", v31 + "\x42\x00\x00\x00\x01a\x00\x01p", packet.MalformedPacket, "3.1.2.9", packet.V31},
		{"no client id in 3.1", v31 + "\x02\x00\x00\x00\x00", packet.InvalidClientID, "3.1.3.1", packet.V31},
		{"no client id for a session", v311 + "\x00\x00\x00\x00\x00", packet.InvalidClientID, "3.1.3.1", packet.V311},

		{"end in the keep alive", v311 + "\x02\x00", packet.MalformedPacket, "4.13", packet.V311},
		{"end in the client id", v311 + "\x02\x00\x00\x00\x02a", packet.MalformedPacket, "4.13", packet.V311},
		{"end in front of the user", v311 + "\x82\x00\x00\x00\x01a", packet.MalformedPacket, "4.13", packet.V311},
		{"end in the properties", v5 + "\x02\x00\x00\x05\x11\x00", packet.MalformedPacket, "4.13", packet.V5},
		{"property beyond the properties", v5 + "\x02\x00\x00\x03\x11\x00\x00\x00\x00\x00\x01a", packet.MalformedPacket, "4.13", packet.V5},
		{"more bytes", v311 + "\x02\x00\x00\x00\x01ab", packet.MalformedPacket, "4.13", packet.V311},
		{"more bytes in 3.1", v31 + "\x02\x00\x00\x00\x01ab", packet.MalformedPacket, "4.13", packet.V31},
		{"client id with NUL", v311 + "\x02\x00\x00\x00\x01\x00", packet.MalformedPacket, "1.5.4", packet.V311},
		{"client id with a surrogate", v311 + "\x02\x00\x00\x00\x03\xed\xa0\x80", packet.MalformedPacket, "1.5.4", packet.V311},
		{"user that is not UTF-8", v311 + "\x82\x00\x00\x00\x01a\x00\x01\xff", packet.MalformedPacket, "1.5.4", packet.V311},

		{"properties with a long length", v5 + "\x02\x00\x00\x80\x00\x00\x01a", packet.MalformedPacket, "1.5.5", packet.V5},
		{"unknown property", v5 + "\x02\x00\x00\x02\x7f\x00\x00\x01a", packet.MalformedPacket, "2.2.2.2", packet.V5},
		{"property number of two bytes", v5 + "\x02\x00\x00\x03\xa6\x00\x00\x00\x01a", packet.MalformedPacket, "2.2.2.2", packet.V5},
		{"property of another packet", v5 + "\x02\x00\x00\x03\x23\x00\x01\x00\x01a", packet.MalformedPacket, "2.2.2.2", packet.V5},
		{"property twice", v5 + "\x02\x00\x00\x06\x22\x00\x01\x22\x00\x01\x00\x01a", packet.ProtocolError, "2.2.2.2", packet.V5},
		{"receive maximum 0", v5 + "\x02\x00\x00\x03\x21\x00\x00\x00\x01a", packet.ProtocolError, "3.1.2.11.3", packet.V5},
		{"maximum packet size 0", v5 + "\x02\x00\x00\x05\x27\x00\x00\x00\x00\x00\x01a", packet.ProtocolError, "3.1.2.11.4", packet.V5},
		{"request problem 2", v5 + "\x02\x00\x00\x02\x17\x02\x00\x01a", packet.ProtocolError, "2.2.2.2", packet.V5},
		{"data without a method", v5 + "\x02\x00\x00\x04\x16\x00\x01d\x00\x01a", packet.ProtocolError, "3.1.2.11.10", packet.V5},
		{"user property with NUL", v5 + "\x02\x00\x00\x07\x26\x00\x01k\x00\x01\x00\x00\x01a", packet.MalformedPacket, "1.5.4", packet.V5},

		{"will without a topic", v311 + "\x06\x00\x00\x00\x01a\x00\x00\x00\x00", packet.InvalidTopic, "3.1.3.3", packet.V311},
		{"will with a wildcard", v5 + "\x06\x00\x00\x00\x00\x01a\x00\x00\x03a/+\x00\x00", packet.InvalidTopic, "3.1.3.3", packet.V5},
		{"will with an alias", v5 + "\x06\x00\x00\x00\x00\x01a\x03\x23\x00\x01\x00\x01a\x00\x00", packet.MalformedPacket, "2.2.2.2", packet.V5},
		{"will whose response topic has a wildcard", v5 + "\x06\x00\x00\x00\x00\x01a\x04\x08\x00\x01#\x00\x01a\x00\x00", packet.ProtocolError, "3.3.2.3.5", packet.V5},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var p packet.Connect
			checkError(t, p.Decode([]byte(tt.body)), tt.code, tt.section)
			if p.Version != tt.version {
				t.Errorf("Version = %d, want %d", p.Version, tt.version)
			}
		})
	}
}

// TestConnectAppend sends what a client may send, and reads it again.
func TestConnectAppend(t *testing.T) {
	for _, v := range []packet.Version{packet.V31, packet.V311, packet.V5} {
		want := fullConnect(v)
		var got packet.Connect
		if err := got.Decode(bodyOf(t, v, want.Append([]byte("before"))[6:])); err != nil {
			t.Fatal(err)
		}
		if v == packet.V5 {
			const delayAndExpiry = "\x18\x00\x00\x00\x1e\x02\x00\x00\x00\x5a"
			if !strings.HasPrefix(string(got.Will.Properties), delayAndExpiry) {
				t.Errorf("properties of the will %x, want those with %x", got.Will.Properties, delayAndExpiry)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("version %d: Decode = %+v\nwant %+v", v, got, want)
		}
	}
}

// TestConnectAppendDefaults looks for properties that say nothing.
func TestConnectAppendDefaults(t *testing.T) {
	c := packet.Connect{Version: packet.V5, ClientID: []byte("a"), ReceiveMaximum: 65_535, RequestProblem: true}
	const want = "\x10\x0e\x00\x04MQTT\x05\x00\x00\x00\x00\x00\x01a"
	if got := c.Append(nil); string(got) != want {
		t.Errorf("Append = %q, want %q", got, want)
	}
	c.ReceiveMaximum = 0
	if got := c.Append(nil); string(got) != want {
		t.Errorf("Append = %q, want %q", got, want)
	}
}
