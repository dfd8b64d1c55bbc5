package packet_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/holter-iot/holter/mqtt/packet"
)

func TestSplit(t *testing.T) {
	const ping, publish = "\xc0\x00", "\x30\x05\x00\x01tab"
	tests := []struct {
		name    string
		version packet.Version
		input   string
		header  packet.Header
		body    string
		n       int
	}{
		{name: "nothing"},
		{name: "one byte", input: "\xc0"},
		{name: "ping", input: ping, header: packet.Header{Type: packet.TypePingreq}, n: 2},
		{name: "ping and more", input: ping + publish, header: packet.Header{Type: packet.TypePingreq}, n: 2},
		{name: "publish", input: publish, header: packet.Header{Type: packet.TypePublish}, body: publish[2:], n: 7},
		{name: "publish and more", input: publish + ping, header: packet.Header{Type: packet.TypePublish}, body: publish[2:], n: 7},
		{name: "publish without its end", input: publish[:6]},
		{name: "length without its end", input: "\x30\xff\xff\xff"},
		{name: "two bytes of length", input: "\x30\x80\x01" + strings.Repeat("x", 128), header: packet.Header{Type: packet.TypePublish}, body: strings.Repeat("x", 128), n: 131},
		{name: "longer length than needed", version: packet.V311, input: "\xc0\x80\x00", header: packet.Header{Type: packet.TypePingreq}, n: 3},
		{name: "subscribe", input: "\x82\x00", header: packet.Header{Type: packet.TypeSubscribe, Flags: 2}, n: 2},
		{name: "subscribe again in 3.1", version: packet.V31, input: "\x8a\x00", header: packet.Header{Type: packet.TypeSubscribe, Flags: 10}, n: 2},
		{name: "retained publish again", input: "\x3d\x00", header: packet.Header{Type: packet.TypePublish, Flags: 13}, n: 2},
		{name: "DUP and QoS 0 in 3.1", version: packet.V31, input: "\x38\x00", header: packet.Header{Type: packet.TypePublish, Flags: 8}, n: 2},
		{name: "auth", version: packet.V5, input: "\xf0\x00", header: packet.Header{Type: packet.TypeAuth}, n: 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, body, n, err := packet.Split(tt.version, []byte(tt.input), 1000)
			if h != tt.header || string(body) != tt.body || n != tt.n || err != nil {
				t.Errorf("Split = %v, %q, %d, %v, want %v, %q, %d", h, body, n, err, tt.header, tt.body, tt.n)
			}
			if cap(body) != len(body) {
				t.Errorf("an append to the body writes over what follows: cap %d, len %d", cap(body), len(body))
			}
		})
	}
}

func TestSplitRefuses(t *testing.T) {
	tests := []struct {
		name    string
		version packet.Version
		input   string
		code    packet.Code
		section string
	}{
		{"type 0", 0, "\x00", packet.MalformedPacket, "2.1.2"},
		{"auth in 3.1.1", packet.V311, "\xf0", packet.MalformedPacket, "2.2.1"},
		{"auth in 3.1", packet.V31, "\xf0", packet.MalformedPacket, "2.2.1"},
		{"flags of connect", 0, "\x11", packet.MalformedPacket, "2.1.3"},
		{"flags of subscribe", packet.V311, "\x80", packet.MalformedPacket, "2.1.3"},
		{"flags of subscribe with DUP", packet.V311, "\x8a", packet.MalformedPacket, "2.1.3"},
		{"flags of pubrel", packet.V5, "\x60", packet.MalformedPacket, "2.1.3"},
		{"flags of unsubscribe", packet.V5, "\xa3", packet.MalformedPacket, "2.1.3"},
		{"flags of ping", packet.V5, "\xc8", packet.MalformedPacket, "2.1.3"},
		{"QoS 3", packet.V311, "\x36", packet.MalformedPacket, "3.3.1.2"},
		{"QoS 3 in 3.1", packet.V31, "\x36", packet.MalformedPacket, "3.3.1.2"},
		{"DUP and QoS 0", packet.V311, "\x38", packet.MalformedPacket, "3.3.1.1"},
		{"five bytes of length", 0, "\x30\x80\x80\x80\x80", packet.MalformedPacket, "1.5.5"},
		{"longer length than needed", packet.V5, "\xc0\x80\x00", packet.MalformedPacket, "1.5.5"},
		{"ping with a body", packet.V311, "\xc0\x01", packet.MalformedPacket, "3.12"},
		{"answer with a body", packet.V5, "\xd0\x01", packet.MalformedPacket, "3.12"},
		{"too large", packet.V311, "\x30\x63", packet.PacketTooLarge, "3.1.2.11.4"},
		{"much too large", packet.V5, "\x30\xff\xff\xff\x7f", packet.PacketTooLarge, "3.1.2.11.4"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, body, n, err := packet.Split(tt.version, []byte(tt.input), 100)
			checkError(t, err, tt.code, tt.section)
			if (h != packet.Header{}) || body != nil || n != 0 {
				t.Errorf("Split = %v, %q, %d with an error", h, body, n)
			}
		})
	}
}

func TestSplitLimit(t *testing.T) {
	input := append([]byte("\x30\x62"), bytes.Repeat([]byte{'x'}, 98)...)
	if _, _, n, err := packet.Split(0, input, 100); n != 100 || err != nil {
		t.Errorf("a packet of as many bytes as the limit: %d, %v", n, err)
	}
	if _, _, _, err := packet.Split(0, input, 99); err == nil {
		t.Error("a packet of one byte more than the limit is taken")
	}
	if _, _, n, err := packet.Split(0, []byte("\x30\xff\xff\xff\x7f"), packet.MaxSize); n != 0 || err != nil {
		t.Errorf("the largest packet is refused: %d, %v", n, err)
	}
}

// checkError looks for an *Error with a code and a section of the specification.
func checkError(t *testing.T, err error, code packet.Code, section string) {
	t.Helper()
	var e *packet.Error
	if !errors.As(err, &e) {
		t.Fatalf("error %v, want an *Error with %v", err, code)
	}
	if e.Code != code || !strings.Contains(e.Text, section) {
		t.Errorf("error %v, want %v and section %s", e, code, section)
	}
	if want := "mqtt: " + code.String() + ": " + e.Text; e.Error() != want {
		t.Errorf("Error() = %q, want %q", e.Error(), want)
	}
}

func TestStrings(t *testing.T) {
	for want, got := range map[string]string{
		"CONNECT":            packet.TypeConnect.String(),
		"AUTH":               packet.TypeAuth.String(),
		"packet type 0":      packet.Type(0).String(),
		"packet type 16":     packet.Type(16).String(),
		"Success":            packet.Success.String(),
		"Malformed Packet":   packet.MalformedPacket.String(),
		"Topic Name invalid": packet.InvalidTopic.String(),
		"reason code 0x3":    packet.Code(3).String(),
		"reason code 0xa3":   packet.Code(0xA3).String(),
	} {
		if got != want {
			t.Errorf("String() = %q, want %q", got, want)
		}
	}
}
