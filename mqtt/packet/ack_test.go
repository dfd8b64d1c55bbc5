package packet_test

import (
	"testing"

	"github.com/holter-iot/holter/mqtt/packet"
)

func TestAckRefuses(t *testing.T) {
	tests := []struct {
		name    string
		version packet.Version
		typ     packet.Type
		body    string
		code    packet.Code
		section string
	}{
		{"short", packet.V311, packet.TypePuback, "\x00", packet.MalformedPacket, "4.13"},
		{"packet id 0", packet.V311, packet.TypePuback, "\x00\x00", packet.ProtocolError, "2.2.1"},
		{"code in 3.1.1", packet.V311, packet.TypePuback, "\x00\x07\x00", packet.MalformedPacket, "4.13"},
		{"unknown code", packet.V5, packet.TypePuback, "\x00\x07\x01", packet.ProtocolError, "3.4.2.1"},
		{"code of another packet", packet.V5, packet.TypePubrel, "\x00\x07\x97", packet.ProtocolError, "3.6.2.1"},
		{"not found in PUBACK", packet.V5, packet.TypePuback, "\x00\x07\x92", packet.ProtocolError, "3.4.2.1"},
		{"reason twice", packet.V5, packet.TypePuback, "\x00\x07\x00\x06\x1f\x00\x00\x1f\x00\x00", packet.ProtocolError, "2.2.2.2"},
		{"property of another packet", packet.V5, packet.TypePuback, "\x00\x07\x00\x02\x01\x00", packet.MalformedPacket, "2.2.2.2"},
		{"more bytes", packet.V5, packet.TypePuback, "\x00\x07\x00\x00\x00", packet.MalformedPacket, "4.13"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var p packet.Ack
			checkError(t, p.Decode(tt.version, packet.Header{Type: tt.typ}, []byte(tt.body)), tt.code, tt.section)
		})
	}
}

func TestAppendAck(t *testing.T) {
	tests := []struct {
		version packet.Version
		typ     packet.Type
		code    packet.Code
		want    string
	}{
		{packet.V31, packet.TypePuback, packet.Success, "\x40\x02\x01\x02"},
		{packet.V311, packet.TypePubrel, packet.PacketIDNotFound, "\x62\x02\x01\x02"},
		{packet.V5, packet.TypePubrec, packet.Success, "\x50\x02\x01\x02"},
		{packet.V5, packet.TypePubcomp, packet.PacketIDNotFound, "\x70\x03\x01\x02\x92"},
	}
	for _, tt := range tests {
		if got := packet.AppendAck(nil, tt.version, tt.typ, 258, tt.code); string(got) != tt.want {
			t.Errorf("AppendAck(%d, %v, %v) = %q, want %q", tt.version, tt.typ, tt.code, got, tt.want)
		}
	}
}

func TestAppendPing(t *testing.T) {
	if got := packet.AppendPingresp(packet.AppendPingreq(nil)); string(got) != "\xc0\x00\xd0\x00" {
		t.Errorf("PINGREQ and PINGRESP are %q", got)
	}
}
