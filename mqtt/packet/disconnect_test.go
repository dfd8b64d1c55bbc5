package packet_test

import (
	"strings"
	"testing"

	"github.com/holter-iot/holter/mqtt/packet"
)

func TestDisconnectRefuses(t *testing.T) {
	tests := []struct {
		name    string
		version packet.Version
		body    string
		code    packet.Code
		section string
	}{
		{"code in 3.1.1", packet.V311, "\x00", packet.MalformedPacket, "4.13"},
		{"unknown code", packet.V5, "\x01", packet.ProtocolError, "3.14.2.1"},
		{"code of CONNACK", packet.V5, "\x85", packet.ProtocolError, "3.14.2.1"},
		{"code beyond all", packet.V5, "\xa3", packet.ProtocolError, "3.14.2.1"},
		{"expiry twice", packet.V5, "\x00\x0a\x11\x00\x00\x00\x00\x11\x00\x00\x00\x00", packet.ProtocolError, "2.2.2.2"},
		{"property of another packet", packet.V5, "\x00\x02\x01\x00", packet.MalformedPacket, "2.2.2.2"},
		{"more bytes", packet.V5, "\x00\x00\x00", packet.MalformedPacket, "4.13"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var p packet.Disconnect
			checkError(t, p.Decode(tt.version, []byte(tt.body)), tt.code, tt.section)
		})
	}
}

func TestDisconnectAppend(t *testing.T) {
	p := packet.Disconnect{Code: packet.DisconnectWithWill, HasSessionExpiry: true, SessionExpiry: 258, Reason: []byte("r")}
	for v, want := range map[packet.Version]string{
		packet.V31: "\xe0\x00", packet.V311: "\xe0\x00", packet.V5: "\xe0\x0b\x04\x09\x11\x00\x00\x01\x02\x1f\x00\x01r",
	} {
		if got := p.Append(nil, v); string(got) != want {
			t.Errorf("Append in version %d = %q, want %q", v, got, want)
		}
	}
	p.Code = packet.Success
	if got := p.Append(nil, packet.V5); string(got) != "\xe0\x0b\x00\x09\x11\x00\x00\x01\x02\x1f\x00\x01r" {
		t.Errorf("Append of properties of a normal disconnection = %q", got)
	}
	if got := new(packet.Disconnect).Append(nil, packet.V5); string(got) != "\xe0\x00" {
		t.Errorf("Append of a normal disconnection = %q", got)
	}
}

func TestAppendDisconnect(t *testing.T) {
	long := strings.Repeat("r", 130)
	tests := []struct {
		version packet.Version
		code    packet.Code
		reason  string
		want    string
	}{
		{packet.V31, packet.ServerShuttingDown, "r", ""},
		{packet.V311, packet.ServerShuttingDown, "r", ""},
		{packet.V5, packet.ServerShuttingDown, "", "\xe0\x01\x8b"},
		{packet.V5, packet.SessionTakenOver, "r", "\xe0\x06\x8e\x04\x1f\x00\x01r"},
		{packet.V5, packet.ProtocolError, long, "\xe0\x88\x01\x82\x85\x01\x1f\x00\x82" + long},
	}
	for _, tt := range tests {
		if got := packet.AppendDisconnect(nil, tt.version, tt.code, tt.reason); string(got) != tt.want {
			t.Errorf("AppendDisconnect(%d, %v, %q) = %q, want %q", tt.version, tt.code, tt.reason, got, tt.want)
		}
	}
}

func TestAuthRefuses(t *testing.T) {
	tests := []struct {
		name    string
		body    string
		code    packet.Code
		section string
	}{
		{"no properties", "\x18", packet.MalformedPacket, "4.13"},
		{"no method", "\x18\x00", packet.ProtocolError, "3.15.2.2.2"},
		{"unknown code", "\x87\x04\x15\x00\x01m", packet.ProtocolError, "3.15.2.1"},
		{"method twice", "\x18\x08\x15\x00\x01m\x15\x00\x01m", packet.ProtocolError, "2.2.2.2"},
		{"property of another packet", "\x18\x02\x01\x00", packet.MalformedPacket, "2.2.2.2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var p packet.Auth
			checkError(t, p.Decode([]byte(tt.body)), tt.code, tt.section)
		})
	}
}
