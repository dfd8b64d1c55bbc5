package packet_test

import (
	"strings"
	"testing"

	"github.com/holter-iot/holter/mqtt/packet"
)

// fullConnack has everything.
func fullConnack() packet.Connack {
	return packet.Connack{
		SessionPresent:   true,
		HasSessionExpiry: true, SessionExpiry: 0,
		ReceiveMaximum: 20, HasMaximumQoS: true, MaximumQoS: 1, MaximumPacketSize: 4096,
		AssignedClientID: "auto-1", TopicAliasMaximum: 10,
		HasServerKeepAlive: true, ServerKeepAlive: 0, ResponseInformation: "answers/", Reason: strings.Repeat("r", 200),
	}
}

func TestConnackAppend(t *testing.T) {
	tests := []struct {
		name    string
		version packet.Version
		connack packet.Connack
		want    string
	}{
		{"3.1", packet.V31, packet.Connack{SessionPresent: true}, "\x20\x02\x00\x00"},
		{"3.1.1", packet.V311, packet.Connack{SessionPresent: true, AssignedClientID: "a"}, "\x20\x02\x01\x00"},
		{"5", packet.V5, packet.Connack{}, "\x20\x03\x00\x00\x00"},
		{"5 refused", packet.V5, packet.Connack{Code: packet.Banned, Reason: "r"}, "\x20\x07\x00\x8a\x04\x1f\x00\x01r"},
		{"5 with all", packet.V5, fullConnack(), "\x20\xf8\x01\x01\x00\xf4\x01" +
			"\x11\x00\x00\x00\x00\x21\x00\x14\x24\x01\x27\x00\x00\x10\x00\x12\x00\x06auto-1\x22\x00\x0a" +
			"\x1f\x00\xc8" + strings.Repeat("r", 200) + "\x13\x00\x00\x1a\x00\x08answers/"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.connack.Append([]byte("dst"), tt.version); string(got) != "dst"+tt.want {
				t.Errorf("Append = %q, want %q", got, "dst"+tt.want)
			}
		})
	}
}

// TestConnackTranslates sends each code to an old client.
func TestConnackTranslates(t *testing.T) {
	want := map[packet.Code]byte{
		packet.Success:                0,
		packet.UnsupportedVersion:     1,
		packet.InvalidClientID:        2,
		packet.ServerUnavailable:      3,
		packet.ServerBusy:             3,
		packet.ServerShuttingDown:     3,
		packet.UseAnotherServer:       3,
		packet.ServerMoved:            3,
		packet.QuotaExceeded:          3,
		packet.ConnectionRateExceeded: 3,
		packet.BadUserOrPassword:      4,
		packet.NotAuthorized:          5,
		packet.Banned:                 5,
		packet.BadAuthMethod:          5,
	}
	for i := range 256 {
		c := packet.Connack{Code: packet.Code(i)}
		var wanted string
		if code, ok := want[c.Code]; ok {
			wanted = string([]byte{0x20, 2, 0, code})
		}
		for _, v := range []packet.Version{packet.V31, packet.V311} {
			if got := c.Append(nil, v); string(got) != wanted {
				t.Errorf("Append of %v in version %d = %q, want %q", c.Code, v, got, wanted)
			}
		}
	}
}

func TestConnackRefuses(t *testing.T) {
	tests := []struct {
		name    string
		version packet.Version
		body    string
		code    packet.Code
		section string
	}{
		{"short", packet.V311, "\x00", packet.MalformedPacket, "4.13"},
		{"reserved flags", packet.V311, "\x02\x00", packet.MalformedPacket, "3.2.2.1"},
		{"unknown code in 3.1.1", packet.V311, "\x00\x06", packet.ProtocolError, "3.2.2.2"},
		{"unknown code", packet.V5, "\x00\x01\x00", packet.ProtocolError, "3.2.2.2"},
		{"session of a refused connection", packet.V5, "\x01\x87\x00", packet.ProtocolError, "3.2.2.1.1"},
		{"no properties", packet.V5, "\x00\x00", packet.MalformedPacket, "4.13"},
		{"maximum QoS 2", packet.V5, "\x00\x00\x02\x24\x02", packet.ProtocolError, "2.2.2.2"},
		{"receive maximum 0", packet.V5, "\x00\x00\x03\x21\x00\x00", packet.ProtocolError, "3.1.2.11.3"},
		{"property of another packet", packet.V5, "\x00\x00\x02\x01\x00", packet.MalformedPacket, "2.2.2.2"},
		{"more bytes", packet.V311, "\x00\x00\x00", packet.MalformedPacket, "4.13"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var p packet.Connack
			checkError(t, p.Decode(tt.version, []byte(tt.body)), tt.code, tt.section)
		})
	}
}
