package packet_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/holter-iot/holter/mqtt/packet"
)

func TestSubscribeRefuses(t *testing.T) {
	tests := []struct {
		name    string
		version packet.Version
		body    string
		code    packet.Code
		section string
	}{
		{"nothing", packet.V311, "", packet.MalformedPacket, "4.13"},
		{"packet id 0", packet.V311, "\x00\x00\x00\x01a\x00", packet.ProtocolError, "2.2.1"},
		{"no filter", packet.V311, "\x00\x07", packet.ProtocolError, "3.8.3"},
		{"no filter in 5", packet.V5, "\x00\x07\x00", packet.ProtocolError, "3.8.3"},
		{"no properties", packet.V5, "\x00\x07", packet.MalformedPacket, "4.13"},
		{"end in the filter", packet.V311, "\x00\x07\x00\x02a", packet.MalformedPacket, "4.13"},
		{"no options", packet.V311, "\x00\x07\x00\x01a", packet.MalformedPacket, "4.13"},
		{"not UTF-8", packet.V311, "\x00\x07\x00\x01\xff\x00", packet.MalformedPacket, "1.5.4"},
		{"NUL", packet.V5, "\x00\x07\x00\x00\x01\x00\x00", packet.MalformedPacket, "1.5.4"},
		{"second not UTF-8", packet.V311, "\x00\x07\x00\x01a\x00\x00\x01\xff\x00", packet.MalformedPacket, "1.5.4"},
		{"QoS 3", packet.V311, "\x00\x07\x00\x01a\x03", packet.ProtocolError, "3.8.3.1"},
		{"QoS 3 in 3.1", packet.V31, "\x00\x07\x00\x01a\x07", packet.ProtocolError, "3.8.3.1"},
		{"options in 3.1.1", packet.V311, "\x00\x07\x00\x01a\x04", packet.MalformedPacket, "3.8.3.1"},
		{"reserved options", packet.V5, "\x00\x07\x00\x00\x01a\x40", packet.MalformedPacket, "3.8.3.1"},
		{"retain handling 3", packet.V5, "\x00\x07\x00\x00\x01a\x30", packet.ProtocolError, "3.8.3.1"},
		{"no local of a share", packet.V5, "\x00\x07\x00\x00\x0a$share/g/a\x04", packet.ProtocolError, "3.8.3.1"},
		{"identifier 0", packet.V5, "\x00\x07\x02\x0b\x00\x00\x01a\x00", packet.ProtocolError, "3.8.2.1.2"},
		{"identifier twice", packet.V5, "\x00\x07\x04\x0b\x01\x0b\x02\x00\x01a\x00", packet.ProtocolError, "2.2.2.2"},
		{"identifier too long", packet.V5, "\x00\x07\x06\x0b\x80\x80\x80\x80\x01\x00\x01a\x00", packet.MalformedPacket, "1.5.5"},
		{"property of another packet", packet.V5, "\x00\x07\x02\x01\x00\x00\x01a\x00", packet.MalformedPacket, "2.2.2.2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var p packet.Subscribe
			checkError(t, p.Decode(tt.version, []byte(tt.body)), tt.code, tt.section)
		})
	}
}

func TestAppendSubscribe(t *testing.T) {
	long := strings.Repeat("l/", 100)
	filters := []packet.Filter{{Topic: []byte("a"), QoS: 1, NoLocal: true, RetainAsPublished: true, RetainHandling: 2}, {Topic: []byte(long)}}
	for v, want := range map[packet.Version]string{
		packet.V31:  "\x82\xd1\x01\x00\x07\x00\x01a\x01\x00\xc8" + long + "\x00",
		packet.V311: "\x82\xd1\x01\x00\x07\x00\x01a\x01\x00\xc8" + long + "\x00",
		packet.V5:   "\x82\xd5\x01\x00\x07\x03\x0b\x80\x01\x00\x01a\x2d\x00\xc8" + long + "\x00",
	} {
		if got := packet.AppendSubscribe([]byte("dst"), v, 7, 128, filters...); string(got) != "dst"+want {
			t.Errorf("AppendSubscribe in version %d = %q, want %q", v, got, "dst"+want)
		}
	}
	const want = "\x82\x07\x00\x07\x00\x00\x01a\x00"
	if got := packet.AppendSubscribe(nil, packet.V5, 7, 0, packet.Filter{Topic: []byte("a")}); string(got) != want {
		t.Errorf("AppendSubscribe without an identifier = %q, want %q", got, want)
	}
}

func TestUnsubscribe(t *testing.T) {
	for v, want := range map[packet.Version]string{
		packet.V31:  "\xa2\x0a\x00\x07\x00\x01a\x00\x03b/#",
		packet.V311: "\xa2\x0a\x00\x07\x00\x01a\x00\x03b/#",
		packet.V5:   "\xa2\x0b\x00\x07\x00\x00\x01a\x00\x03b/#",
	} {
		got := packet.AppendUnsubscribe(nil, v, 7, []byte("a"), []byte("b/#"))
		if string(got) != want {
			t.Errorf("AppendUnsubscribe in version %d = %q, want %q", v, got, want)
		}
		var p packet.Unsubscribe
		if err := p.Decode(v, bodyOf(t, v, got)); err != nil {
			t.Fatal(err)
		}
		if filters := topics(&p); p.ID != 7 || !slices.Equal(filters, []string{"a", "b/#"}) {
			t.Errorf("version %d: ID %d, filters %q", v, p.ID, filters)
		}
	}
}

func TestUnsubscribeRefuses(t *testing.T) {
	tests := []struct {
		name    string
		version packet.Version
		body    string
		code    packet.Code
		section string
	}{
		{"nothing", packet.V311, "", packet.MalformedPacket, "4.13"},
		{"packet id 0", packet.V311, "\x00\x00\x00\x01a", packet.ProtocolError, "2.2.1"},
		{"no filter", packet.V311, "\x00\x07", packet.ProtocolError, "3.10.3"},
		{"no filter in 5", packet.V5, "\x00\x07\x00", packet.ProtocolError, "3.10.3"},
		{"end in the filter", packet.V311, "\x00\x07\x00\x02a", packet.MalformedPacket, "4.13"},
		{"not UTF-8", packet.V311, "\x00\x07\x00\x01\xff", packet.MalformedPacket, "1.5.4"},
		{"property of another packet", packet.V5, "\x00\x07\x02\x0b\x01\x00\x01a", packet.MalformedPacket, "2.2.2.2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var p packet.Unsubscribe
			checkError(t, p.Decode(tt.version, []byte(tt.body)), tt.code, tt.section)
		})
	}
}

func TestSuback(t *testing.T) {
	codes := []packet.Code{packet.Success, packet.GrantedQoS2, packet.NotAuthorized}
	old := []packet.Code{packet.Success, packet.GrantedQoS2, packet.UnspecifiedError}
	tests := []struct {
		version packet.Version
		input   string
		want    []packet.Code
	}{
		{packet.V31, "\x90\x05\x00\x07\x00\x02\x80", old},
		{packet.V311, "\x90\x05\x00\x07\x00\x02\x80", old},
		{packet.V5, "\x90\x06\x00\x07\x00\x00\x02\x87", codes},
	}
	for _, tt := range tests {
		got := packet.AppendSuback(nil, tt.version, 7, codes)
		if string(got) != tt.input {
			t.Errorf("AppendSuback in version %d = %q, want %q", tt.version, got, tt.input)
		}
		var p packet.Suback
		if err := p.Decode(tt.version, bodyOf(t, tt.version, got)); err != nil {
			t.Fatal(err)
		}
		if got := collect(p.Next); p.ID != 7 || !slices.Equal(got, tt.want) {
			t.Errorf("version %d: ID %d, codes %v, want 7 and %v", tt.version, p.ID, got, tt.want)
		}
	}
}

func TestUnsuback(t *testing.T) {
	codes := []packet.Code{packet.Success, packet.NoSubscriptionExisted}
	tests := []struct {
		version packet.Version
		input   string
		want    []packet.Code
	}{
		{packet.V31, "\xb0\x02\x00\x07", nil},
		{packet.V311, "\xb0\x02\x00\x07", nil},
		{packet.V5, "\xb0\x05\x00\x07\x00\x00\x11", codes},
	}
	for _, tt := range tests {
		got := packet.AppendUnsuback(nil, tt.version, 7, codes)
		if string(got) != tt.input {
			t.Errorf("AppendUnsuback in version %d = %q, want %q", tt.version, got, tt.input)
		}
		var p packet.Unsuback
		if err := p.Decode(tt.version, bodyOf(t, tt.version, got)); err != nil {
			t.Fatal(err)
		}
		if got := collect(p.Next); p.ID != 7 || !slices.Equal(got, tt.want) {
			t.Errorf("version %d: ID %d, codes %v, want 7 and %v", tt.version, p.ID, got, tt.want)
		}
	}
}

// TestLongSuback writes lengths around those that need one byte more, before codes that must move.
func TestLongSuback(t *testing.T) {
	for length, want := range map[int]string{
		127:       "\x90\x7f",
		128:       "\x90\x80\x01",
		16_383:    "\x90\xff\x7f",
		16_384:    "\x90\x80\x80\x01",
		2_097_151: "\x90\xff\xff\x7f",
		2_097_152: "\x90\x80\x80\x80\x01",
	} {
		codes := make([]packet.Code, length-2)
		codes[0], codes[len(codes)-1] = packet.GrantedQoS1, packet.GrantedQoS2
		input := packet.AppendSuback(nil, packet.V311, 7, codes)
		if !strings.HasPrefix(string(input), want+"\x00\x07\x01") {
			t.Errorf("a SUBACK of length %d begins with %x, want %x", length, input[:8], want)
		}
		var p packet.Suback
		if err := p.Decode(packet.V311, bodyOf(t, packet.V311, input)); err != nil {
			t.Fatal(err)
		}
		if got := collect(p.Next); !slices.Equal(got, codes) {
			t.Errorf("a SUBACK of length %d is read with other codes", length)
		}
	}
}

func TestSubackRefuses(t *testing.T) {
	suback := func(v packet.Version, body string) error { return new(packet.Suback).Decode(v, []byte(body)) }
	unsuback := func(v packet.Version, body string) error { return new(packet.Unsuback).Decode(v, []byte(body)) }
	tests := []struct {
		name    string
		decode  func(packet.Version, string) error
		version packet.Version
		body    string
		code    packet.Code
		section string
	}{
		{"packet id 0", suback, packet.V311, "\x00\x00\x00", packet.ProtocolError, "2.2.1"},
		{"no code", suback, packet.V5, "\x00\x07\x00", packet.ProtocolError, "3.9.3"},
		{"unknown code", suback, packet.V5, "\x00\x07\x00\x03", packet.ProtocolError, "3.9.3"},
		{"code of MQTT 5", suback, packet.V311, "\x00\x07\x87", packet.ProtocolError, "3.9.3"},
		{"property of another packet", suback, packet.V5, "\x00\x07\x02\x01\x00\x00", packet.MalformedPacket, "2.2.2.2"},
		{"UNSUBACK with packet id 0", unsuback, packet.V311, "\x00\x00", packet.ProtocolError, "2.2.1"},
		{"UNSUBACK with a code in 3.1.1", unsuback, packet.V311, "\x00\x07\x00", packet.MalformedPacket, "4.13"},
		{"UNSUBACK without a code", unsuback, packet.V5, "\x00\x07\x00", packet.ProtocolError, "3.11.3"},
		{"UNSUBACK with an unknown code", unsuback, packet.V5, "\x00\x07\x00\x01", packet.ProtocolError, "3.11.3"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			checkError(t, tt.decode(tt.version, tt.body), tt.code, tt.section)
		})
	}
}

func subscriptions(p *packet.Subscribe) []packet.Filter { return collect(p.Next) }

func topics(p *packet.Unsubscribe) []string {
	var all []string
	for _, f := range collect(p.Next) {
		all = append(all, string(f))
	}
	return all
}

// collect calls next until there is no more.
func collect[T any](next func() (T, bool)) []T {
	var all []T
	for v, ok := next(); ok; v, ok = next() {
		all = append(all, v)
	}
	return all
}
